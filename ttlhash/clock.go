package ttlhash

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock knows two bounds of the server's time. Each reply with the time sets them: the
// server's clock showed at least that time when the reply came, and at most that time when
// the call was sent.
type clock struct {
	now     atomic.Pointer[reading]
	syncing atomic.Bool
	mu      sync.Mutex // held while setting now
}

// A reading has the bounds that were known at a time of this process.
type reading struct {
	at          time.Time
	least, most int64 // the server's time then, in µs
}

const (
	// syncEvery is the age of a reading at which a read asks for the server's time too.
	syncEvery = time.Second
	// drift bounds the difference in speed of the two clocks: 1/drift.
	drift = 1000
)

// least returns a lower bound of the server's time, in µs, and the age of the reading.
func (c *clock) least(now time.Time) (µs int64, age time.Duration, ok bool) {
	r := c.now.Load()
	if r == nil {
		return 0, 0, false
	}
	µs, _ = r.bounds(now)
	return µs, now.Sub(r.at), true
}

// bounds returns the bounds at a later time.
func (r *reading) bounds(now time.Time) (least, most int64) {
	gone := now.Sub(r.at).Microseconds()
	return r.least + gone - gone/drift, r.most + gone + gone/drift
}

// set records that the server's time was µs at a moment between sent and received.
func (c *clock) set(sent, received time.Time, µs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := &reading{at: received, least: µs, most: µs + received.Sub(sent).Microseconds() + 1}
	if old := c.now.Load(); old != nil {
		if old.at.After(received) {
			return
		}
		// Both readings hold, unless the server's clock was set in between.
		least, most := old.bounds(received)
		if both := max(least, fresh.least); both <= min(most, fresh.most) {
			fresh.least, fresh.most = both, min(most, fresh.most)
		}
	}
	c.now.Store(fresh)
}
