package cache

import (
	"context"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// A local is the level of a Cache in its own process. Otter chooses what stays.
//
// An entry is good as long as the epoch of its stripe is the one that was seen before
// the value was asked for. To invalidate a key is to raise that epoch: so there is no
// moment at which a value can be stored that was read before an invalidation and comes
// after it, and the message needs no more than a hash of the key. A 16,384th of the
// other keys is thrown out with it. Rejected: a map from texts to keys beside the
// entries (it takes as much memory as they do), and keeping entries by text (to write
// a key would be an allocation for each hit).
type local[K comparable, V any] struct {
	entries *otter.Cache[K, *localEntry[V]]
	clock   *clock
	seed    maphash.Seed
	stripes []atomic.Uint64
	all     atomic.Uint64
	heard   atomic.Bool  // the subscription is confirmed: what is invalidated is told
	origin  string       // begins the messages of this Cache
	now     atomic.Int64 // the clock's mono, tick ago at most: to read it costs a hit half of its time
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

// A localEntry is what the source has of one key.
type localEntry[V any] struct {
	answer[V]

	stripe uint32
	epoch  uint64
	fresh  int64 // until when it is served, by the clock's mono
	inNeed int64 // until when it is when the server can't be reached
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

// old returns the entry for key that may be served in need, or nil.
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

// epochOf is a sum of two numbers that only grow: it is the same only when both are.
func (l *local[K, V]) epochOf(stripe uint32) uint64 { return l.stripes[stripe].Load() + l.all.Load() }

// epoch is what put wants, seen before the value is asked for.
func (l *local[K, V]) epoch(text string) uint64 {
	if l == nil {
		return 0
	}
	return l.epochOf(l.stripe(text))
}

// put keeps an answer for a time, unless it was invalidated since epoch.
func (l *local[K, V]) put(p place[K], a answer[V], epoch uint64, ttl, inNeed time.Duration) {
	if l == nil || ttl <= 0 || !l.heard.Load() {
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

// invalidate ends what is known of a key.
func (l *local[K, V]) invalidate(text string) {
	if l != nil {
		l.stripes[l.stripe(text)].Add(1)
	}
}

// flush ends what is known of all keys.
func (l *local[K, V]) flush() {
	l.all.Add(1)
	l.entries.InvalidateAll()
}

// hear is called with the messages of all Caches of the name.
func (l *local[K, V]) hear(message string, lost bool) {
	if lost {
		l.flush()
		return
	}
	if len(message) > len(l.origin) && !strings.HasPrefix(message, l.origin) { // what it says itself it knows
		l.invalidate(message[len(l.origin):])
	}
}

// listen subscribes, and tries again until it has, or the Cache is closed. Until then
// nothing is kept.
func (c *Cache[K, V]) listen() {
	for wait := 10 * time.Millisecond; c.ctx.Err() == nil; wait = min(2*wait, time.Second) {
		stop, err := c.client.Subscribe(c.ctx, c.channel, c.local.hear)
		if err == nil {
			c.local.flush() // what was read before must not be kept
			c.local.heard.Store(true)
			<-c.ctx.Done()
			stop()
			return
		}
		if c.ctx.Err() == nil {
			c.emit(context.WithoutCancel(c.ctx), Event{Kind: Trouble, Err: err})
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
		}
	}
}
