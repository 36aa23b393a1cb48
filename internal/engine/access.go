package engine

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// An accessClock gives the time of the last access to a key without asking the clock for each
// access. While commands run, a timer sets it a hundred times a second; without commands the timer
// stops. Eviction orders keys by this time. A second, the unit of OBJECT IDLETIME, would be too
// coarse: a busy engine may use all its keys within one.
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

// ticks returns the access clock's time. It wraps every 497 days, so compare times by their
// difference as a uint32.
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
	e.peak()
	if e.access.left.Add(-1) <= 0 || e.closed.Load() {
		e.access.now.Store(0)
		return
	}
	e.access.now.Store(e.ticksNow())
	e.clock.AfterFunc(accessTick, e.tick)
}

// accessed notes that a key was used: the time or, under an LFU policy, the count. The key's shard
// is held.
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

// As in Redis, an access under an LFU policy is the minute of the last access in 16 bits and a
// Morris counter in 8. The counter grows more slowly as it gets larger, and shrinks with the
// minutes.
const firstCount = 5 // a new key is not the first to be evicted

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
