package hll

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	mergeScript = luafile.Script(files, "hll.merge")
	unionScript = luafile.Script(files, "hll.union")
)

// Scripts returns the scripts of this package.
func Scripts() []*redoubt.Script { return []*redoubt.Script{mergeScript, unionScript} }
