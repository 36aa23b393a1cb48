package lock

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var (
	acquireScript = luafile.Script(files, "lock.acquire")
	extendScript  = luafile.Script(files, "lock.extend")
	fairScript    = luafile.Script(files, "lock.fair")
	releaseScript = luafile.Script(files, "lock.release")

	semAcquireScript = luafile.Script(files, "lock.sem_acquire")
	semExtendScript  = luafile.Script(files, "lock.sem_extend")
	semReleaseScript = luafile.Script(files, "lock.sem_release")
	semInfoScript    = luafile.Script(files, "lock.sem_info")

	rwReadScript    = luafile.Script(files, "lock.rw_read")
	rwClaimScript   = luafile.Script(files, "lock.rw_claim")
	rwExtendScript  = luafile.Script(files, "lock.rw_extend")
	rwReleaseScript = luafile.Script(files, "lock.rw_release")
	rwInfoScript    = luafile.Script(files, "lock.rw_info")

	latchSetScript     = luafile.Script(files, "lock.latch_set")
	latchDownScript    = luafile.Script(files, "lock.latch_down")
	latchWaitScript    = luafile.Script(files, "lock.latch_wait")
	multiAcquireScript = luafile.Script(files, "lock.multi_acquire")
	quorumExtendScript = luafile.Script(files, "lock.quorum_extend")
)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script {
	return []*redoubt.Script{
		acquireScript, fairScript, extendScript, releaseScript,
		semAcquireScript, semExtendScript, semReleaseScript, semInfoScript,
		rwReadScript, rwClaimScript, rwExtendScript, rwReleaseScript, rwInfoScript,
		latchSetScript, latchDownScript, latchWaitScript,
		multiAcquireScript, quorumExtendScript,
	}
}
