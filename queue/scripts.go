package queue

import (
	_ "embed"
	"strings"

	"github.com/redoubt-go/redoubt"
)

var (
	//go:embed lua/place.lua
	placeSource string
	//go:embed lua/put.lua
	putSource string
	//go:embed lua/pump.lua
	pumpSource string
	//go:embed lua/extend.lua
	extendSource string
	//go:embed lua/cancel.lua
	cancelSource string
	//go:embed lua/requeue.lua
	requeueSource string
	//go:embed lua/drain.lua
	drainSource string
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/find.lua
	findSource string
	//go:embed lua/config.lua
	configSource string
	//go:embed lua/stats.lua
	statsSource string

	putScript     = placing("queue.put", putSource)
	pumpScript    = placing("queue.pump", pumpSource)
	cancelScript  = placing("queue.cancel", cancelSource)
	requeueScript = placing("queue.requeue", requeueSource)
	drainScript   = placing("queue.drain", drainSource)
	extendScript  = redoubt.NewScript("queue.extend", extendSource)
	listScript    = redoubt.NewScript("queue.list", listSource)
	findScript    = redoubt.NewScript("queue.find", findSource)
	configScript  = redoubt.NewScript("queue.config", configSource)
	statsScript   = redoubt.NewScript("queue.stats", statsSource)
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		putScript, pumpScript, cancelScript, requeueScript, drainScript, extendScript, listScript, findScript, configScript, statsScript,
	}
}

// placing gives a script the functions of place.lua.
func placing(name, source string) *redoubt.Script {
	const place = "local queue = nil"
	before, after, ok := strings.Cut(source, place)
	if !ok {
		panic("queue: " + name + " has no place for the functions of place.lua")
	}
	return redoubt.NewScript(name, before+"local queue = (function()\n"+placeSource+"end)()"+after)
}
