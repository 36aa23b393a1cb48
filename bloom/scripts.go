package bloom

import (
	_ "embed"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/open.lua
var openSource string

//go:embed lua/make.lua
var makeSource string

//go:embed lua/add.lua
var addSource string

//go:embed lua/seal.lua
var sealSource string

//go:embed lua/begin.lua
var beginSource string

//go:embed lua/advance.lua
var advanceSource string

//go:embed lua/log.lua
var logSource string

//go:embed lua/slide.lua
var slideSource string

var (
	openScript    = redoubt.NewScript("bloom.open", openSource)
	makeScript    = redoubt.NewScript("bloom.make", makeSource)
	addScript     = redoubt.NewScript("bloom.add", addSource)
	sealScript    = redoubt.NewScript("bloom.seal", sealSource)
	beginScript   = redoubt.NewScript("bloom.begin", beginSource)
	advanceScript = redoubt.NewScript("bloom.advance", advanceSource)
	logScript     = redoubt.NewScript("bloom.log", logSource)
	slideScript   = redoubt.NewScript("bloom.slide", slideSource)
)

// Scripts returns the scripts of the filters of this package. Those of the BF
// commands are in [ChainScripts].
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{openScript, makeScript, addScript, sealScript, beginScript, advanceScript, logScript, slideScript}
}
