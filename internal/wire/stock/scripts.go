package stock

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("stock", files)

var (
	reserveScript = scripts.Script("reserve")
	settleScript  = scripts.Script("settle")
	countScript   = scripts.Script("count")
	infoScript    = scripts.Script("info")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
