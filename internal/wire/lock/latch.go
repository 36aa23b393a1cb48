package lock

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// On the server it is a hash, "<prefix>:{<name>}:latch": by, which call has set
// it; left, the count; "=<member>" for each that has counted down; head, tail, the
// places and the waiters as in a lock.

// LatchSetCmd sets a latch to count, for ttl, unless it is set.
func LatchSetCmd(key string, count int, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: latchSetScript,
		Keys:   []string{key},
		Args:   []string{NewID(), strconv.Itoa(count), strconv.FormatInt(ttl.Milliseconds(), 10)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadLatchSet reads the reply to [LatchSetCmd]: false when the latch was set before.
func ReadLatchSet(r redoubt.Reply) (set bool, err error) {
	var n [2]int64
	err = r.Ints(n[:])
	return n[0] == 1, err
}

// LatchDownCmd counts a latch down by one for member m, once.
func LatchDownCmd(key, m string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: latchDownScript,
		Keys:   []string{key},
		Args:   []string{member(m)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadLatchDown reads the reply to [LatchDownCmd]: the count that is left, below 0 when the latch
// is not set.
func ReadLatchDown(r redoubt.Reply) (left int64, err error) {
	var n [1]int64
	err = r.Ints(n[:])
	return n[0], err
}

// LatchWaitCmd asks for the count that is left, and queues waiter, if it is not empty, until that
// is 0.
func LatchWaitCmd(key, waiter string) redoubt.Cmd { return latchWaitCmd(key, waiter, "0") }

// LatchLeaveCmd takes waiter out of the queue.
func LatchLeaveCmd(key, waiter string) redoubt.Cmd { return latchWaitCmd(key, waiter, "1") }

func latchWaitCmd(key, waiter, leave string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: latchWaitScript,
		Keys:   []string{key},
		Args:   []string{waiter, leave},
		Flags:  redoubt.Idempotent,
	}
}

// LatchInfoCmds read a latch and change nothing.
func LatchInfoCmds(key string) []redoubt.Cmd {
	return []redoubt.Cmd{
		{Name: "HGET", Keys: []string{key}, Args: []string{"left"}, Flags: redoubt.ReadOnly},
		{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly},
	}
}

// ReadLatchInfo reads the replies to [LatchInfoCmds], as [ReadLatchWait] does. A latch that ends
// between the two commands is not set.
func ReadLatchInfo(rs []redoubt.Reply) (left int64, ttl time.Duration, err error) {
	if rs[0].IsNil() {
		return -1, 0, nil
	}
	if left, err = rs[0].Int(); err != nil {
		return 0, 0, err
	}
	ms, err := rs[1].Int()
	if ms == -2 {
		return -1, 0, err
	}
	return left, time.Duration(ms) * time.Millisecond, err
}

// ReadLatchWait reads the reply to [LatchWaitCmd]: the count that is left, below 0 when the latch
// is not set, and the remaining time of the latch.
func ReadLatchWait(r redoubt.Reply) (left int64, ttl time.Duration, err error) {
	var n [2]int64
	err = r.Ints(n[:])
	return n[0], time.Duration(n[1]) * time.Millisecond, err
}
