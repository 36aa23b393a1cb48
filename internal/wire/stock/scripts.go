package stock

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	reserveScript = luafile.Script(files, "stock.reserve")
	settleScript  = luafile.Script(files, "stock.settle")
	countScript   = luafile.Script(files, "stock.count")
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{reserveScript, settleScript, countScript}
}
