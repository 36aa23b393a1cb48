package geo

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("geo", files)

var (
	putScript      = scripts.Script("put")
	announceScript = scripts.Script("announce")
	arriveScript   = scripts.Script("arrive")
	leaveScript    = scripts.Script("leave")
	closeScript    = scripts.Script("close")
	whereScript    = scripts.Script("where")
	searchScript   = scripts.Script("search")
	memberScript   = scripts.Script("member")
	assignScript   = scripts.Script("assign")
	rehomeScript   = scripts.Script("rehome")
	freezeScript   = scripts.Script("freeze")
	loadScript     = scripts.Script("load")
	splitScript    = scripts.Script("split")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
