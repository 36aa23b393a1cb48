package ttlhash

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	setScript     = luafile.Script(files, "ttlhash.set")
	expireScript  = luafile.Script(files, "ttlhash.expire")
	deleteScript  = luafile.Script(files, "ttlhash.delete")
	sweepScript   = luafile.Script(files, "ttlhash.sweep")
	migrateScript = luafile.Script(files, "ttlhash.migrate")
	getScript     = luafile.Script(files, "ttlhash.get")
	scanScript    = luafile.Script(files, "ttlhash.scan")
	timeScript    = luafile.Script(files, "ttlhash.time")
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{setScript, expireScript, deleteScript, sweepScript, migrateScript, getScript, scanScript, timeScript}
}
