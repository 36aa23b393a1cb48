package stock

import (
	_ "embed"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/reserve.lua
var reserveSource string

//go:embed lua/settle.lua
var settleSource string

//go:embed lua/count.lua
var countSource string

var (
	reserveScript = redoubt.NewScript("stock.reserve", reserveSource)
	settleScript  = redoubt.NewScript("stock.settle", settleSource)
	countScript   = redoubt.NewScript("stock.count", countSource)
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{reserveScript, settleScript, countScript}
}
