package ttlhash

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("ttlhash", files)

var (
	setScript     = scripts.Script("set")
	expireScript  = scripts.Script("expire")
	deleteScript  = scripts.Script("delete")
	sweepScript   = scripts.Script("sweep")
	migrateScript = scripts.Script("migrate")
	getScript     = scripts.Script("get")
	scanScript    = scripts.Script("scan")
	timeScript    = scripts.Script("time")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
