package engine

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// An accessClock gives the time of the last access to a key without asking the
// clock for each: while commands are run a timer sets it a hundred times a
// second, and it goes to sleep until it is asked again. Eviction tells keys
// apart by it, so a second, as OBJECT IDLETIME counts, would be too coarse: all
// that a busy engine holds may be used within one.
type accessClock struct {
	now  atomic.Uint32 // accessTicks since the epoch, 0 while asleep
	left atomic.Int32  // ticks before it sleeps
}

const (
	accessTick      = 10 * time.Millisecond
	ticksPerSecond  = int64(time.Second / accessTick)
	ticksPerMinute  = uint32(time.Minute / accessTick)
	longestIdle     = 1<<32/ticksPerSecond - 1 // in seconds
	ticksTillAsleep = 100
)

// ticks returns the access clock's time. It begins anew every 497 days, so that
// what counts is the difference to another, as a uint32.
func (e *Engine) ticks() uint32 {
	if now := e.access.now.Load(); now != 0 {
		return now
	}
	now := e.ticksNow()
	if e.access.now.CompareAndSwap(0, now) {
		e.access.left.Store(ticksTillAsleep)
		e.clock.AfterFunc(accessTick, e.tick)
	}
	return now
}

func (e *Engine) ticksNow() uint32 {
	return uint32(e.clock.Now().UnixMilli() / accessTick.Milliseconds()) //nolint:gosec // it wraps
}

func (e *Engine) tick() {
	if e.access.left.Add(-1) <= 0 || e.closed.Load() {
		e.access.now.Store(0)
		return
	}
	e.access.now.Store(e.ticksNow())
	e.clock.AfterFunc(accessTick, e.tick)
}

// accessed notes that a key was used: when or, under a policy that evicts what
// is used least often, how often. The key's shard is held.
func (c *call) accessed(it *item) {
	if c.e.memory.counts.Load() {
		it.val.access = c.e.counted(it.val.access)
		return
	}
	it.val.access = c.e.ticks()
}

// firstAccess is accessed for a key that is new.
func (e *Engine) firstAccess() uint32 {
	if e.memory.counts.Load() {
		return e.minutes()<<8 | firstCount
	}
	return e.ticks()
}

// idle returns the ticks since a key was used.
func (e *Engine) idle(access uint32) uint32 { return e.ticks() - access }

// Under an LFU policy an access is, as in Redis, the minute of the last access
// in 16 bits and a Morris counter in 8, which grows more slowly the larger it
// is and shrinks with the minutes.
const firstCount = 5 // so that a new key is not the first to go

func (e *Engine) minutes() uint32 { return e.ticks() / ticksPerMinute & 0xffff }

// count returns how often a key is used, from 0 to 255, as of now.
func (e *Engine) count(access uint32) uint32 {
	n := access & 0xff
	if decay := uint32(e.memory.decay.Load()); decay > 0 { //nolint:gosec // checked by CONFIG
		n -= min(n, (e.minutes()-access>>8)&0xffff/decay)
	}
	return n
}

// counted returns access after one more.
func (e *Engine) counted(access uint32) uint32 {
	n := e.count(access)
	if n < 255 {
		above := max(int64(n)-firstCount, 0)
		if p := above*e.memory.logFactor.Load() + 1; p == 1 || rand.Int64N(p) == 0 {
			n++
		}
	}
	return e.minutes()<<8 | n
}
