package lock

import (
	_ "embed"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/acquire.lua
var acquireSource string

//go:embed lua/extend.lua
var extendSource string

//go:embed lua/release.lua
var releaseSource string

//go:embed lua/info.lua
var infoSource string

var (
	acquireScript = redoubt.NewScript("lock.acquire", acquireSource)
	extendScript  = redoubt.NewScript("lock.extend", extendSource)
	releaseScript = redoubt.NewScript("lock.release", releaseSource)
	infoScript    = redoubt.NewScript("lock.info", infoSource)
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{acquireScript, extendScript, releaseScript, infoScript}
}
