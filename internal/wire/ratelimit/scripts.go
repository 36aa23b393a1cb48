package ratelimit

import (
	"embed"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

var (
	//go:embed lua/*.lua
	files embed.FS
	//go:embed lua/stored.lua
	storedSource string
)

var scripts = luafile.New("ratelimit", files)

var (
	gcraScript   = scripts.Script("gcra")
	uptoScript   = scripts.Script("upto")
	refundScript = scripts.Script("refund")
	batchScript  = scripts.Script("batch")
	returnScript = scripts.Script("return")
	// The same, with limits that are kept on the server.
	storedGCRAScript   = stored(gcraScript)
	storedUpToScript   = stored(uptoScript)
	storedRefundScript = stored(refundScript)
	storedBatchScript  = stored(batchScript)

	defineScript = scripts.Script("define")
	resetScript  = scripts.Script("reset")
	windowScript = scripts.Script("window")
	quotaScript  = scripts.Script("quota")
	enterScript  = scripts.Script("enter")
	stayScript   = scripts.Script("stay")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }

var behind = strings.NewReplacer("KEYS[1]", "KEYS[2]", "KEYS[2]", "KEYS[3]")

// stored puts a script into stored.lua. The script's keys come behind that of the limits. They
// are named by place, so that the engine sees that the script uses no others.
func stored(s *redoubt.Script) *redoubt.Script {
	const place = "local run = nil "
	before, after, ok := strings.Cut(storedSource, place)
	if !ok {
		panic("ratelimit: stored.lua has no place for a script")
	}
	return scripts.Add(strings.TrimPrefix(s.Name(), "ratelimit.")+".stored", before+"local function run(ARGV)\n"+behind.Replace(s.Source())+"end\n"+after)
}
