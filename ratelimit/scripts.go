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

	gcraScript   = redoubt.NewScript("ratelimit.gcra", gcraSource)
	uptoScript   = redoubt.NewScript("ratelimit.upto", uptoSource)
	refundScript = redoubt.NewScript("ratelimit.refund", refundSource)
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{gcraScript, uptoScript, refundScript}
}
