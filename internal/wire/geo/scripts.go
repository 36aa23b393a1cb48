package geo

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	putScript      = luafile.Script(files, "geo.put")
	announceScript = luafile.Script(files, "geo.announce")
	arriveScript   = luafile.Script(files, "geo.arrive")
	leaveScript    = luafile.Script(files, "geo.leave")
	closeScript    = luafile.Script(files, "geo.close")
	whereScript    = luafile.Script(files, "geo.where")
	lookScript     = luafile.Script(files, "geo.look")
	memberScript   = luafile.Script(files, "geo.member")
	assignScript   = luafile.Script(files, "geo.assign")
	rehomeScript   = luafile.Script(files, "geo.rehome")
	freezeScript   = luafile.Script(files, "geo.freeze")
	loadScript     = luafile.Script(files, "geo.load")
	splitScript    = luafile.Script(files, "geo.split")
)

// Scripts returns the scripts of this package.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		putScript, announceScript, arriveScript, leaveScript, closeScript, whereScript, lookScript,
		memberScript, assignScript, rehomeScript, freezeScript, loadScript, splitScript,
	}
}
