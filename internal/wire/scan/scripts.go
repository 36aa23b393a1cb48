package scan

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var elementsScript = luafile.Script(files, "scan.elements")

// Scripts returns the scripts of this package.
func Scripts() []*redoubt.Script { return []*redoubt.Script{elementsScript} }
