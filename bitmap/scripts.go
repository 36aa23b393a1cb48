package bitmap

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	calendarMark = luafile.Script(files, "bitmap.calendar_mark")
	mapSet       = luafile.Script(files, "bitmap.map_set")
	mapIndex     = luafile.Script(files, "bitmap.map_index")
	mapDrop      = luafile.Script(files, "bitmap.map_drop")
	mapExpire    = luafile.Script(files, "bitmap.map_expire")
	mapCombine   = luafile.Script(files, "bitmap.map_combine")
	recordUpdate = luafile.Script(files, "bitmap.record_update")
)

// Scripts returns the scripts of this package.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{calendarMark, mapSet, mapIndex, mapDrop, mapExpire, mapCombine, recordUpdate}
}
