package scan

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("scan", files)

var elementsScript = scripts.Script("elements")

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
