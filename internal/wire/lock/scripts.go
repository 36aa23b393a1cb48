package lock

import (
	"embed"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

//go:embed lua/*.lua
var files embed.FS

var scripts = luafile.New("lock", files)

var (
	acquireScript = scripts.Script("acquire")
	extendScript  = scripts.Script("extend")
	fairScript    = scripts.Script("fair")
	releaseScript = scripts.Script("release")

	semAcquireScript = scripts.Script("sem_acquire")
	semExtendScript  = scripts.Script("sem_extend")
	semReleaseScript = scripts.Script("sem_release")
	semInfoScript    = scripts.Script("sem_info")

	rwReadScript    = scripts.Script("rw_read")
	rwClaimScript   = scripts.Script("rw_claim")
	rwExtendScript  = scripts.Script("rw_extend")
	rwReleaseScript = scripts.Script("rw_release")
	rwInfoScript    = scripts.Script("rw_info")

	latchSetScript     = scripts.Script("latch_set")
	latchDownScript    = scripts.Script("latch_down")
	latchWaitScript    = scripts.Script("latch_wait")
	multiAcquireScript = scripts.Script("multi_acquire")
	quorumExtendScript = scripts.Script("quorum_extend")
)

// Scripts returns the scripts of this package, for servers that load them ahead of use.
func Scripts() []*redoubt.Script { return scripts.All() }
