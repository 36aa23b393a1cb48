package bitmap

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	calendarMarkScript = luafile.Script(files, "bitmap.calendar_mark")
	mapSetScript       = luafile.Script(files, "bitmap.map_set")
	mapIndexScript     = luafile.Script(files, "bitmap.map_index")
	mapDropScript      = luafile.Script(files, "bitmap.map_drop")
	mapExpireScript    = luafile.Script(files, "bitmap.map_expire")
	mapCombineScript   = luafile.Script(files, "bitmap.map_combine")
	recordUpdateScript = luafile.Script(files, "bitmap.record_update")
)

// Scripts returns the scripts of this package.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{calendarMarkScript, mapSetScript, mapIndexScript, mapDropScript, mapExpireScript, mapCombineScript, recordUpdateScript}
}
