package cache

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	readScript       = luafile.Script(files, "cache.read")
	leaseScript      = luafile.Script(files, "cache.lease")
	renewScript      = luafile.Script(files, "cache.renew")
	storeScript      = luafile.Script(files, "cache.store")
	releaseScript    = luafile.Script(files, "cache.release")
	setScript        = luafile.Script(files, "cache.set")
	invalidateScript = luafile.Script(files, "cache.invalidate")
	tagScript        = luafile.Script(files, "cache.tag")
	tagMarkScript    = luafile.Script(files, "cache.tag_mark")
	tagDropScript    = luafile.Script(files, "cache.tag_drop")
)

// Scripts returns the scripts of this package, for servers that load them ahead of
// use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		readScript, leaseScript, renewScript, storeScript, releaseScript, setScript, invalidateScript,
		tagScript, tagMarkScript, tagDropScript,
	}
}
