package bloom

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	openScript    = luafile.Script(files, "bloom.open")
	makeScript    = luafile.Script(files, "bloom.make")
	addScript     = luafile.Script(files, "bloom.add")
	sealScript    = luafile.Script(files, "bloom.seal")
	beginScript   = luafile.Script(files, "bloom.begin")
	advanceScript = luafile.Script(files, "bloom.advance")
	logScript     = luafile.Script(files, "bloom.log")
	slideScript   = luafile.Script(files, "bloom.slide")
)

// Scripts returns the scripts of the filters of this package. Those of the BF
// commands are in [ChainScripts].
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{openScript, makeScript, addScript, sealScript, beginScript, advanceScript, logScript, slideScript}
}
