package cache

import (
	"sync/atomic"
	"time"
)

// resync is how often a cache reads the server's time when no script has told it. Meanwhile two
// clocks drift apart by milliseconds.
const resync = time.Minute

// A clock estimates the server's clock, which decides when an entry is stale. It learns the time
// from scripts and adds the time that has passed here since. The estimate is wrong by at most a
// round trip. It only decides when to load again: no value is served after its key has expired on
// the server.
type clock struct {
	base   time.Time
	offset atomic.Int64 // of the server's clock from that of base, in µs
	told   atomic.Int64 // when the offset was learned; 0: never
}

func newClock() *clock { return &clock{base: time.Now().Add(-time.Microsecond)} }

// mono is the local time, in µs.
func (c *clock) mono() int64 { return int64(time.Since(c.base) / time.Microsecond) }

// learn notes the server's time at some moment since sent.
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
