package queue

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("queue", files)

var (
	putScript     = scripts.Script("put")
	pumpScript    = scripts.Script("pump")
	cancelScript  = scripts.Script("cancel")
	requeueScript = scripts.Script("requeue")
	drainScript   = scripts.Script("drain")
	extendScript  = scripts.Script("extend")
	noteScript    = scripts.Script("progress")
	listScript    = scripts.Script("list")
	findScript    = scripts.Script("find")
	configScript  = scripts.Script("config")
	statsScript   = scripts.Script("stats")
	timeScript    = scripts.Script("time")

	scheduleScript   = scripts.Script("schedule")
	unscheduleScript = scripts.Script("unschedule")
	scheduledScript  = scripts.Script("scheduled")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
