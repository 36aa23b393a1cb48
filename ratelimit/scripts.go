package ratelimit

import (
	_ "embed"
	"strings"

	"github.com/redoubt-go/redoubt"
)

var (
	//go:embed lua/gcra.lua
	gcraSource string
	//go:embed lua/upto.lua
	uptoSource string
	//go:embed lua/batch.lua
	batchSource string
	//go:embed lua/return.lua
	returnSource string
	//go:embed lua/refund.lua
	refundSource string
	//go:embed lua/stored.lua
	storedSource string
	//go:embed lua/define.lua
	defineSource string
	//go:embed lua/reset.lua
	resetSource string
	//go:embed lua/window.lua
	windowSource string
	//go:embed lua/quota.lua
	quotaSource string
	//go:embed lua/enter.lua
	enterSource string
	//go:embed lua/stay.lua
	staySource string

	gcraScript   = redoubt.NewScript("ratelimit.gcra", gcraSource)
	uptoScript   = redoubt.NewScript("ratelimit.upto", uptoSource)
	refundScript = redoubt.NewScript("ratelimit.refund", refundSource)
	batchScript  = redoubt.NewScript("ratelimit.batch", batchSource)
	returnScript = redoubt.NewScript("ratelimit.return", returnSource)
	// The same, with limits that are kept on the server.
	storedGCRAScript   = stored(gcraScript)
	storedUpToScript   = stored(uptoScript)
	storedRefundScript = stored(refundScript)
	storedBatchScript  = stored(batchScript)

	defineScript = redoubt.NewScript("ratelimit.define", defineSource)
	resetScript  = redoubt.NewScript("ratelimit.reset", resetSource)
	windowScript = redoubt.NewScript("ratelimit.window", windowSource)
	quotaScript  = redoubt.NewScript("ratelimit.quota", quotaSource)
	enterScript  = redoubt.NewScript("ratelimit.enter", enterSource)
	stayScript   = redoubt.NewScript("ratelimit.stay", staySource)
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

// stored puts a script into stored.lua.
func stored(s *redoubt.Script) *redoubt.Script {
	const place = "local run = nil "
	before, after, ok := strings.Cut(storedSource, place)
	if !ok {
		panic("ratelimit: stored.lua has no place for a script")
	}
	return redoubt.NewScript(s.Name()+".stored", before+"local function run(KEYS, ARGV)\n"+s.Source()+"end\n"+after)
}
