package bitmap

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("bitmap", files)

var (
	calendarMarkScript = scripts.Script("calendar_mark")
	mapSetScript       = scripts.Script("map_set")
	mapIndexScript     = scripts.Script("map_index")
	mapDropScript      = scripts.Script("map_drop")
	mapExpireScript    = scripts.Script("map_expire")
	mapCombineScript   = scripts.Script("map_combine")
	recordUpdateScript = scripts.Script("record_update")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
