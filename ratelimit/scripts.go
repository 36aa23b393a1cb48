package ratelimit

import (
	_ "embed"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/gcra.lua
var gcraSource string

var gcraScript = redoubt.NewScript("ratelimit.gcra", gcraSource)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script { return []*redoubt.Script{gcraScript} }
