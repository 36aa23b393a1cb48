package ratelimit

import (
	_ "embed"

	"github.com/redoubt-go/redoubt"
)

var (
	//go:embed lua/gcra.lua
	gcraSource string
	//go:embed lua/upto.lua
	uptoSource string
	//go:embed lua/refund.lua
	refundSource string
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
	windowScript = redoubt.NewScript("ratelimit.window", windowSource)
	quotaScript  = redoubt.NewScript("ratelimit.quota", quotaSource)
	enterScript  = redoubt.NewScript("ratelimit.enter", enterSource)
	stayScript   = redoubt.NewScript("ratelimit.stay", staySource)
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{gcraScript, uptoScript, refundScript, windowScript, quotaScript, enterScript, stayScript}
}
