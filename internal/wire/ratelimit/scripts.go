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

	gcraScript   = luafile.Script(files, "ratelimit.gcra")
	uptoScript   = luafile.Script(files, "ratelimit.upto")
	refundScript = luafile.Script(files, "ratelimit.refund")
	batchScript  = luafile.Script(files, "ratelimit.batch")
	returnScript = luafile.Script(files, "ratelimit.return")
	// The same, with limits that are kept on the server.
	storedGCRAScript   = stored(gcraScript)
	storedUpToScript   = stored(uptoScript)
	storedRefundScript = stored(refundScript)
	storedBatchScript  = stored(batchScript)

	defineScript = luafile.Script(files, "ratelimit.define")
	resetScript  = luafile.Script(files, "ratelimit.reset")
	windowScript = luafile.Script(files, "ratelimit.window")
	quotaScript  = luafile.Script(files, "ratelimit.quota")
	enterScript  = luafile.Script(files, "ratelimit.enter")
	stayScript   = luafile.Script(files, "ratelimit.stay")
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		gcraScript, uptoScript, refundScript, batchScript, returnScript,
		storedGCRAScript, storedUpToScript, storedRefundScript, storedBatchScript,
		defineScript, resetScript, windowScript, quotaScript, enterScript, stayScript,
	}
}

var behind = strings.NewReplacer("KEYS[1]", "KEYS[2]", "KEYS[2]", "KEYS[3]")

// stored puts a script into stored.lua. The script's keys come behind that of the limits. They
// are named by place, so that the engine sees that the script uses no others.
func stored(s *redoubt.Script) *redoubt.Script {
	const place = "local run = nil "
	before, after, ok := strings.Cut(storedSource, place)
	if !ok {
		panic("ratelimit: stored.lua has no place for a script")
	}
	return redoubt.NewScript(s.Name()+".stored", before+"local function run(ARGV)\n"+behind.Replace(s.Source())+"end\n"+after)
}
