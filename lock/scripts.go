package lock

import (
	_ "embed"
	"strings"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/acquire.lua
var acquireSource string

//go:embed lua/extend.lua
var extendSource string

//go:embed lua/fair.lua
var fairSource string

//go:embed lua/release.lua
var releaseSource string

//go:embed lua/sem_acquire.lua
var semAcquireSource string

//go:embed lua/sem_extend.lua
var semExtendSource string

//go:embed lua/sem_release.lua
var semReleaseSource string

//go:embed lua/sem_info.lua
var semInfoSource string

//go:embed lua/rw_read.lua
var rwReadSource string

//go:embed lua/rw_claim.lua
var rwClaimSource string

//go:embed lua/rw_extend.lua
var rwExtendSource string

//go:embed lua/rw_release.lua
var rwReleaseSource string

//go:embed lua/rw_info.lua
var rwInfoSource string

//go:embed lua/latch_set.lua
var latchSetSource string

//go:embed lua/latch_down.lua
var latchDownSource string

//go:embed lua/latch_wait.lua
var latchWaitSource string

//go:embed lua/multi_acquire.lua
var multiAcquireSource string

//go:embed lua/quorum_extend.lua
var quorumExtendSource string

// Parts of several scripts.
var (
	//go:embed lua/part_grant.lua
	grantPart string
	//go:embed lua/part_leave.lua
	leavePart string
	//go:embed lua/part_wake.lua
	wakePart string
)

var (
	acquireScript = redoubt.NewScript("lock.acquire", acquireSource)
	extendScript  = redoubt.NewScript("lock.extend", extendSource)
	fairScript    = withParts("lock.fair", fairSource)
	releaseScript = withParts("lock.release", releaseSource)

	semAcquireScript = redoubt.NewScript("lock.sem_acquire", semAcquireSource)
	semExtendScript  = redoubt.NewScript("lock.sem_extend", semExtendSource)
	semReleaseScript = withParts("lock.sem_release", semReleaseSource)
	semInfoScript    = redoubt.NewScript("lock.sem_info", semInfoSource)

	rwReadScript    = redoubt.NewScript("lock.rw_read", rwReadSource)
	rwClaimScript   = redoubt.NewScript("lock.rw_claim", rwClaimSource)
	rwExtendScript  = redoubt.NewScript("lock.rw_extend", rwExtendSource)
	rwReleaseScript = withParts("lock.rw_release", rwReleaseSource)
	rwInfoScript    = redoubt.NewScript("lock.rw_info", rwInfoSource)

	latchSetScript     = redoubt.NewScript("lock.latch_set", latchSetSource)
	latchDownScript    = redoubt.NewScript("lock.latch_down", latchDownSource)
	latchWaitScript    = redoubt.NewScript("lock.latch_wait", latchWaitSource)
	multiAcquireScript = redoubt.NewScript("lock.multi_acquire", multiAcquireSource)
	quorumExtendScript = redoubt.NewScript("lock.quorum_extend", quorumExtendSource)
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

// withParts returns a script whose lines "-- part: NAME" are replaced by
// part_NAME.lua.
func withParts(name, source string) *redoubt.Script {
	return redoubt.NewScript(name, strings.NewReplacer(
		"-- part: grant\n", grantPart, "-- part: leave\n", leavePart, "-- part: wake\n", wakePart,
	).Replace(source))
}
