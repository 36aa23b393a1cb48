package lock

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// On the server the readers together are one holder of the lock, so that every script of a Mutex
// treats them as one. In the lock's hash, id is a random name of the group, shared is the same name,
// and until is when the last lease ends. Each reader is in a sorted set,
// "<prefix>:{<name>}:readers": its id by its until. A score below 0 means that the lease has ended,
// as with a semaphore. The hash "<prefix>:{<name>}:labels" has the label of each reader and the time
// of its acquisition. The lock's hash also has claim, until when the writer claim_by keeps new
// readers out, and claim_fence, the fence that the writer saw.

// A writer acquires by [AcquireCmd] and extends by [ExtendCmd] with the first of its keys. The
// commands below are for readers, and for ids that may belong to a writer or a reader.

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
	VoidWrite = "1" // and void a late acquire of a writer
	VoidRead  = "2" // and void a late acquire of a reader
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

// ForceCmd takes the lock away from the holder with the fencing token. [ReadRelease] reads
// the reply.
func ForceCmd(keys []string, token int64) redoubt.Cmd {
	return RWReleaseCmd(keys, strconv.FormatInt(token, 10), "", force)
}

// ClaimCmd keeps new readers out for a time, on behalf of the waiting writer id.
func ClaimCmd(keys []string, id string, long time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwClaimScript,
		Keys:   keys[:1],
		Args:   []string{id, micros(long)},
		Flags:  redoubt.Idempotent,
	}
}

// UnclaimCmd takes the claim of id back, and removes waiter, if it is not empty, from the queue.
func UnclaimCmd(keys []string, id, waiter string) redoubt.Cmd {
	return RWReleaseCmd(keys, id, waiter, unclaim)
}
