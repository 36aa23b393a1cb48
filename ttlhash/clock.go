package ttlhash

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock knows the server's time, between two bounds. Each reply that brings the
// time sets it: when it came the server's clock said at least that, and when the call
// was sent at most that.
type clock struct {
	now     atomic.Pointer[reading]
	syncing atomic.Bool
	mu      sync.Mutex // held by who sets it
}

// A reading is what was known at some time here.
type reading struct {
	at          time.Time
	least, most int64 // the server's time then, in µs
}

const (
	// syncEvery is after what time a read asks for the server's time with it.
	syncEvery = time.Second
	// drift is how much faster or slower the two clocks may go: 1/drift.
	drift = 1000
)

// least returns what the server's time is at least, in µs, and how old that is known.
func (c *clock) least(now time.Time) (µs int64, age time.Duration, ok bool) {
	r := c.now.Load()
	if r == nil {
		return 0, 0, false
	}
	µs, _ = r.bounds(now)
	return µs, now.Sub(r.at), true
}

// bounds returns what is known of a later time.
func (r *reading) bounds(now time.Time) (least, most int64) {
	gone := now.Sub(r.at).Microseconds()
	return r.least + gone - gone/drift, r.most + gone + gone/drift
}

// set learns that the server's time was µs between sent and received.
func (c *clock) set(sent, received time.Time, µs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := &reading{at: received, least: µs, most: µs + received.Sub(sent).Microseconds() + 1}
	if old := c.now.Load(); old != nil {
		if old.at.After(received) {
			return
		}
		// Both are true, unless the server's clock was set in between.
		least, most := old.bounds(received)
		if both := max(least, fresh.least); both <= min(most, fresh.most) {
			fresh.least, fresh.most = both, min(most, fresh.most)
		}
	}
	c.now.Store(fresh)
}
