package bloom

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("bloom", files)

var (
	openScript    = scripts.Script("open")
	makeScript    = scripts.Script("make")
	addScript     = scripts.Script("add")
	sealScript    = scripts.Script("seal")
	beginScript   = scripts.Script("begin")
	advanceScript = scripts.Script("advance")
	logScript     = scripts.Script("log")
	slideScript   = scripts.Script("slide")
)

// Scripts returns the scripts of filters, for servers that load them ahead of use. [ChainScripts]
// returns the scripts of the commands BF.*.
func Scripts() []*redoubt.Script { return scripts.All() }
