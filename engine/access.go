package engine

import (
	"sync/atomic"
	"time"
)

// An accessClock gives the time of the last access to a key in seconds,
// without asking the clock for each: while commands are run a timer sets it
// every second, and after a few seconds it goes to sleep until it is asked
// again.
type accessClock struct {
	now  atomic.Uint32 // seconds since the epoch, 0 while asleep
	left atomic.Int32  // ticks before it sleeps
}

const accessTicks = 10

// seconds returns the access clock's time.
func (e *Engine) seconds() uint32 {
	if now := e.access.now.Load(); now != 0 {
		return now
	}
	now := uint32(e.clock.Now().Unix())
	if e.access.now.CompareAndSwap(0, now) {
		e.access.left.Store(accessTicks)
		e.clock.AfterFunc(time.Second, e.tick)
	}
	return now
}

func (e *Engine) tick() {
	if e.access.left.Add(-1) <= 0 || e.closed.Load() {
		e.access.now.Store(0)
		return
	}
	e.access.now.Store(uint32(e.clock.Now().Unix()))
	e.clock.AfterFunc(time.Second, e.tick)
}
