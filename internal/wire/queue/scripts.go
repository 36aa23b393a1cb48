package queue

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	putScript     = luafile.Script(files, "queue.put")
	pumpScript    = luafile.Script(files, "queue.pump")
	cancelScript  = luafile.Script(files, "queue.cancel")
	requeueScript = luafile.Script(files, "queue.requeue")
	drainScript   = luafile.Script(files, "queue.drain")
	extendScript  = luafile.Script(files, "queue.extend")
	listScript    = luafile.Script(files, "queue.list")
	findScript    = luafile.Script(files, "queue.find")
	configScript  = luafile.Script(files, "queue.config")
	statsScript   = luafile.Script(files, "queue.stats")
	timeScript    = luafile.Script(files, "queue.time")
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		putScript, pumpScript, cancelScript, requeueScript, drainScript, extendScript, listScript, findScript, configScript, statsScript,
		timeScript,
	}
}
