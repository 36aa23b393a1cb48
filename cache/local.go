package cache

import (
	"context"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// A local is the level of a Cache in its own process. Otter chooses which entries stay.
//
// An entry is valid as long as the epoch of its stripe equals the epoch that was read before the
// value was asked for. To invalidate a key is to raise that epoch. So a value that was read before
// an invalidation can't be stored after it, and the message only needs a hash of the key. An
// invalidation also drops a 16,384th of the other keys. Rejected: a map from texts to keys beside
// the entries (it takes as much memory as they do), and entries by text (writing the key would
// allocate at each hit).
type local[K comparable, V any] struct {
	entries    *otter.Cache[K, *localEntry[V]]
	clock      *clock
	seed       maphash.Seed
	stripes    []atomic.Uint64
	all        atomic.Uint64
	subscribed atomic.Bool  // the subscription is confirmed: invalidations arrive
	origin     string       // begins the messages of this Cache
	now        atomic.Int64 // the clock's mono, at most tick ago: reading the clock would take half the time of a hit
}

const tick = 20 * time.Millisecond

// keepTime sets now until ctx ends.
func (l *local[K, V]) keepTime(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.now.Store(l.clock.mono())
		case <-ctx.Done():
			return
		}
	}
}

// A localEntry has the answer of the source for one key.
type localEntry[V any] struct {
	answer[V]

	stripe uint32
	epoch  uint64
	fresh  int64 // until when it is served, by the clock's mono
	inNeed int64 // until when it is served if the source fails or the server can't be reached
}

const stripes = 1 << 14

func newLocal[K comparable, V any](size int, c *clock, origin string) *local[K, V] {
	entries := otter.Must(&otter.Options[K, *localEntry[V]]{MaximumSize: size})
	return &local[K, V]{entries: entries, clock: c, seed: maphash.MakeSeed(), stripes: make([]atomic.Uint64, stripes), origin: origin}
}

// get returns the entry for key, or nil.
func (l *local[K, V]) get(key K) *localEntry[V] {
	e, ok := l.entries.GetIfPresent(key)
	if !ok || e.epoch != l.epochOf(e.stripe) || l.now.Load() >= e.fresh {
		return nil
	}
	return e
}

// old returns the entry for key if it may be served when the source fails, or nil.
func (l *local[K, V]) old(key K) *localEntry[V] {
	if l == nil {
		return nil
	}
	e, ok := l.entries.GetIfPresent(key)
	if !ok || e.epoch != l.epochOf(e.stripe) || l.clock.mono() >= e.inNeed {
		return nil
	}
	return e
}

func (l *local[K, V]) stripe(text string) uint32 {
	return uint32(maphash.String(l.seed, text) % stripes) //nolint:gosec // below 1<<14
}

// epochOf is the sum of two numbers that only grow: equal sums mean that neither has changed.
func (l *local[K, V]) epochOf(stripe uint32) uint64 { return l.stripes[stripe].Load() + l.all.Load() }

// epoch returns the epoch for put. Call it before the value is asked for.
func (l *local[K, V]) epoch(text string) uint64 {
	if l == nil {
		return 0
	}
	return l.epochOf(l.stripe(text))
}

// put stores an answer for a time, unless the key was invalidated since epoch.
func (l *local[K, V]) put(p place[K], a answer[V], epoch uint64, ttl, inNeed time.Duration) {
	if l == nil || ttl <= 0 || !l.subscribed.Load() {
		return
	}
	e := &localEntry[V]{answer: a, stripe: l.stripe(p.text), epoch: epoch}
	if e.epoch != l.epochOf(e.stripe) {
		return
	}
	e.fresh = l.clock.mono() + micros(ttl)
	e.inNeed = e.fresh + micros(inNeed)
	l.entries.Set(p.key, e)
}

// invalidate invalidates a key.
func (l *local[K, V]) invalidate(text string) {
	if l != nil {
		l.stripes[l.stripe(text)].Add(1)
	}
}

// flush invalidates all keys.
func (l *local[K, V]) flush() {
	l.all.Add(1)
	l.entries.InvalidateAll()
}

// onMessage is called with the messages of all Caches of the name, and with lost = true after a lost
// connection.
func (l *local[K, V]) onMessage(message string, lost bool) {
	if lost {
		l.flush()
		return
	}
	if len(message) > len(l.origin) && !strings.HasPrefix(message, l.origin) { // its own messages need no action
		l.invalidate(message[len(l.origin):])
	}
}

// listen subscribes, and tries again until it succeeds or the Cache is closed. Before it succeeds
// the local level keeps nothing.
func (c *Cache[K, V]) listen() {
	for wait := 10 * time.Millisecond; c.ctx.Err() == nil; wait = min(2*wait, time.Second) {
		stop, err := c.client.Subscribe(c.ctx, c.channel, c.local.onMessage)
		if err == nil {
			c.local.flush() // earlier values may have been invalidated
			c.local.subscribed.Store(true)
			<-c.ctx.Done()
			stop()
			return
		}
		if c.ctx.Err() == nil {
			c.emit(context.WithoutCancel(c.ctx), Event{Kind: ServerError, Err: err})
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
		}
	}
}
