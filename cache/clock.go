package cache

import (
	"sync/atomic"
	"time"
)

// resync is how often a cache asks for the server's time when no script of its own
// has told it. Two clocks drift apart by milliseconds meanwhile.
const resync = time.Minute

// A clock estimates the server's clock, by which entries become stale, from what the
// scripts tell and from how much time has passed here since. Wrong by a round trip at
// most, it decides only when to load again: what is served never outlives its key,
// which the server lets expire.
type clock struct {
	base   time.Time
	offset atomic.Int64 // of the server's clock from that of base, in µs
	told   atomic.Int64 // when that was learned; 0: never
}

func newClock() *clock { return &clock{base: time.Now().Add(-time.Microsecond)} }

// mono is the time here, in µs.
func (c *clock) mono() int64 { return int64(time.Since(c.base) / time.Microsecond) }

// learn is told what time it was on the server at some moment since sent.
func (c *clock) learn(sent, server int64) {
	now := c.mono()
	c.offset.Store(server - (sent+now)/2)
	c.told.Store(now)
}

// known reports whether the estimate is recent.
func (c *clock) known() bool {
	told := c.told.Load()
	return told > 0 && c.mono()-told < micros(resync)
}

// now is the server's time, in µs.
func (c *clock) now() int64 { return c.mono() + c.offset.Load() }
