package cache

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("cache", files)

var (
	readScript       = scripts.Script("read")
	leaseScript      = scripts.Script("lease")
	renewScript      = scripts.Script("renew")
	storeScript      = scripts.Script("store")
	releaseScript    = scripts.Script("release")
	setScript        = scripts.Script("set")
	invalidateScript = scripts.Script("invalidate")
	tagScript        = scripts.Script("tag")
	tagMarkScript    = scripts.Script("tag_mark")
	tagDropScript    = scripts.Script("tag_drop")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
