package lock

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// On the server the readers together are one holder of the lock, so that every
// script of a Mutex knows what to think of them: in the lock's hash, id is a
// random name of the group, shared is the same, and until is when the last of
// them ends. Each reader is in a sorted set, "<prefix>:{<name>}:readers", id by
// until; a score below 0 means that it is over, as with a [Semaphore]. Since
// when each reads, and its label, are in the hash "<prefix>:{<name>}:labels". In
// the lock's hash are also claim, until when the writer claim_by keeps new readers
// out, and claim_fence, the fence that it saw.

// A writer acquires by [AcquireCmd] and extends by [ExtendCmd] with the first of its keys. What
// follows is for readers, and for whoever does not know which of both an id is.

// ReadCmd tries to acquire a lock with other readers. The command
// is idempotent: repeated with the same id it gives the same answer.
func ReadCmd(keys []string, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwReadScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), r.Label, r.Waiter, NewID()},
		Flags:  redoubt.Idempotent,
	}
}

// RWExtendCmd is [ExtendCmd] for the acquisition id of a writer or a reader.
func RWExtendCmd(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwExtendScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

// How [RWReleaseCmd] releases.
const (
	End       = "0" // the acquisition, of a writer or a reader
	VoidWrite = "1" // and void that of a writer that may arrive late
	VoidRead  = "2" // or that of a reader
	force     = "3"
	unclaim   = "4"
)

// RWReleaseCmd is [ReleaseCmd] for the acquisition id of a writer or a reader.
func RWReleaseCmd(keys []string, id, waiter, how string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwReleaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, how},
		Flags:  redoubt.Idempotent,
	}
}

// ForceCmd takes the lock away from whoever holds it with the fencing token. [ReadRelease] reads
// the reply.
func ForceCmd(keys []string, token int64) redoubt.Cmd {
	return RWReleaseCmd(keys, strconv.FormatInt(token, 10), "", force)
}

// ClaimCmd keeps new readers out for as long as said, on behalf of the writer id that waits.
func ClaimCmd(keys []string, id string, long time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwClaimScript,
		Keys:   keys[:1],
		Args:   []string{id, micros(long)},
		Flags:  redoubt.Idempotent,
	}
}

// UnclaimCmd takes the claim of id back, and waiter, if it is not empty, out of the queue.
func UnclaimCmd(keys []string, id, waiter string) redoubt.Cmd {
	return RWReleaseCmd(keys, id, waiter, unclaim)
}
