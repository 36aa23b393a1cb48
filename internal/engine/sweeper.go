package engine

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A sweeper deletes expired keys and hash fields, also fields that nobody reads. It sleeps until the
// earliest deadline. While keys keep expiring it sweeps at most every sweepEvery, and deletes
// sweepStep keys with a shard locked.
type sweeper struct {
	mu      sync.Mutex
	timer   Timer
	wakeAt  atomic.Int64 // Unix ms, MaxInt64 when nothing is to be done
	off     atomic.Bool  // by DEBUG SET-ACTIVE-EXPIRE 0
	stopped bool
}

const (
	sweepEvery = 10 * time.Millisecond
	sweepStep  = 64
)

func (sw *sweeper) init() { sw.wakeAt.Store(math.MaxInt64) }

// wake makes sure that the sweeper runs at the time given, in Unix ms.
func (sw *sweeper) wake(e *Engine, at int64) {
	if at >= sw.wakeAt.Load() {
		return
	}
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if sw.stopped || at >= sw.wakeAt.Load() {
		return
	}
	if sw.timer != nil {
		sw.timer.Stop()
	}
	sw.wakeAt.Store(at)
	wait := time.UnixMilli(at).Sub(e.clock.Now()) + time.Millisecond
	sw.timer = e.clock.AfterFunc(max(wait, sweepEvery), e.sweep)
}

func (sw *sweeper) stop() {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	sw.stopped = true
	if sw.timer != nil {
		sw.timer.Stop()
	}
}

// sweep visits every shard once and schedules the next sweep.
func (e *Engine) sweep() {
	e.sweeper.wakeAt.Store(math.MaxInt64)
	if e.sweeper.off.Load() || e.closed.Load() || e.master.Load() != nil {
		return
	}
	if p := e.pausing.active(); p != nil {
		e.sweeper.wake(e, e.clock.Now().Add(time.Until(p.until)).UnixMilli())
		return
	}
	next := int64(math.MaxInt64)
	for i := range e.shards {
		for {
			at, more := e.sweepShard(i)
			if !more {
				next = min(next, at)
				break
			}
			runtime.Gosched() // commands go first
		}
	}
	if next != math.MaxInt64 {
		e.sweeper.wake(e, next)
	}
}

// sweepShard deletes a few keys. It returns the shard's next deadline and
// whether there is more to delete now.
func (e *Engine) sweepShard(i int) (next int64, more bool) {
	sh := &e.shards[i]
	c := &call{e: e}
	c.held.add(i)
	defer c.serveLater()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer c.settleSweep("sweeper", func() {
		next, more = c.time()+time.Minute.Milliseconds(), false // not at once again
	})
	next = math.MaxInt64
	left := sweepStep
	for db, ks := range sh.dbs {
		if ks == nil {
			continue
		}
		c.db = db
		for ks.expiring.len() > 0 && ks.expiring.at(0).at < c.time() {
			if left--; left < 0 {
				return 0, true
			}
			c.expireItem(sh, ks, ks.expiring.at(0).v)
		}
		if ks.expiring.len() > 0 {
			next = min(next, ks.expiring.at(0).at)
		}
		for ks.fields.len() > 0 && ks.fields.at(0).at < c.time() {
			if left -= sweepStep / 8; left < 0 {
				return 0, true
			}
			c.sweepFields(ks.fields.at(0).v.it)
		}
		if ks.fields.len() > 0 {
			next = min(next, ks.fields.at(0).at)
		}
	}
	return next, false
}

// settleSweep logs and serves the changes of a sweep, and calls end after a panic.
func (c *call) settleSweep(who string, end func()) {
	failed := func(r any) {
		if r != nil {
			c.e.panicked(who, "", r)
			end()
		}
	}
	failed(recover())
	defer func() { failed(recover()) }()
	c.settle()
	c.commit()
	if len(c.broadcast) > 0 {
		c.sendBroadcast()
	}
	if len(c.ready) > 0 { // streams, for which XREADGROUP waits
		c.serve()
	}
}

// sweepFields removes expired fields of a hash, some at a time.
func (c *call) sweepFields(it *item) {
	h := asHash(it)
	if h.due(c) {
		c.expireFields(it, h, fieldStep)
	}
	if h.len() > 0 {
		c.registerFields(it, h)
	}
}
