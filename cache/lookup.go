package cache

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A lookup finds one key for all callers of this process that want it. A goroutine of its
// own leads it, so that no caller ends it by leaving.
//
// A caller may have the answer only if the answer is no older than the call: a value that was read
// from the source or the server before the call may have been invalidated before the call. So
// callers are numbered, and valid is how many callers had joined when the answered question was
// sent. If a loaded value was then stored under its lease, it was still current at that time, and
// is valid for all callers that joined before the store. Later callers begin again.
type lookup[K comparable, V any] struct {
	place[K]

	done chan struct{} // closed when answer, err and all are set
	answer[V]
	err error
	all bool // the answer is valid for all callers that joined

	// These fields are guarded by Cache.mu.
	joined  int
	callers int // the callers that have not left
	valid   int
	waiting bool          // it waits for another process
	gone    chan struct{} // closed when the last caller leaves while it waits

	// These fields belong to the goroutine that leads the lookup.
	state    state[V] // the entry as it was at the beginning
	owner    string   // the owner of its lease; empty without a lease
	lost     string   // the owner of a lease that was asked for and got no reply
	leasedAt int64    // when it got its lease, by the server's clock, in µs
	epoch    uint64
	took     time.Duration
}

func newLookup[K comparable, V any](p place[K], s state[V]) *lookup[K, V] {
	return &lookup[K, V]{place: p, state: s, done: make(chan struct{}), gone: make(chan struct{})}
}

// join adds the caller to the lookup for a key. The first caller starts the goroutine that leads
// it.
func (c *Cache[K, V]) join(p place[K], s state[V]) (f *lookup[K, V], number int, leads bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, 0, false, redoubt.ErrClosed
	}
	f = c.mu.lookups[p.text]
	if leads = f == nil; leads {
		f = newLookup(p, s)
		c.mu.lookups[p.text] = f
		c.working.Add(1)
	}
	f.joined++
	f.callers++
	return f, f.joined, leads, nil
}

// await waits for the answer. ok is false if the answer is older than the call.
func (c *Cache[K, V]) await(ctx context.Context, f *lookup[K, V], number int) (a answer[V], ok bool, err error) {
	select {
	case <-f.done:
		if f.err != nil {
			return a, false, f.err
		}
		return f.answer, f.all || number <= f.valid, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		f.callers--
		c.endIfGone(f)
		return a, false, ctx.Err()
	}
}

// endIfGone ends a lookup that no caller waits for. c.mu is held.
func (c *Cache[K, V]) endIfGone(f *lookup[K, V]) {
	if f.callers == 0 && f.waiting {
		f.waiting = false
		c.removeLocked(f)
		close(f.gone)
	}
}

// waits notes whether a lookup waits for another process.
func (c *Cache[K, V]) waits(f *lookup[K, V], is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-f.gone:
	default:
		f.waiting = is
		c.endIfGone(f)
	}
}

// asks notes that a question is about to be sent. Its answer is valid for all callers that have
// joined by now.
func (c *Cache[K, V]) asks(fs []*lookup[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fs {
		f.valid = f.joined
	}
}

// remove closes lookups to later callers: they begin a new one.
func (c *Cache[K, V]) remove(fs ...*lookup[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fs {
		c.removeLocked(f)
	}
}

func (c *Cache[K, V]) removeLocked(f *lookup[K, V]) {
	if c.mu.lookups[f.text] == f {
		delete(c.mu.lookups, f.text)
	}
}

// forget closes the lookup of a key that was invalidated to later callers.
func (c *Cache[K, V]) forget(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.lookups, text)
}

// settle ends a lookup.
func (c *Cache[K, V]) settle(f *lookup[K, V], err error) {
	c.remove(f)
	f.err = err
	close(f.done)
}

// lead finds the answers of lookups; each lookup ends. It runs in a goroutine of its own, for which
// join has called working.Add.
func (c *Cache[K, V]) lead(ctx context.Context, fs []*lookup[K, V], load batch[K, V]) {
	defer func() {
		for range fs {
			c.working.Done()
		}
	}()
	granted, waiting := c.attempt(ctx, fs, "")
	for _, w := range waiting {
		c.working.Go(func() { c.wait(ctx, w.f, w.left, load) })
	}
	c.load(ctx, granted, load)
}

// A waiting has a lookup whose key another process loads.
type waiting[K comparable, V any] struct {
	f    *lookup[K, V]
	left time.Duration // how much longer the other's lease lasts
}

// wait waits for the load of another process. If that process stores nothing, wait loads.
func (c *Cache[K, V]) wait(ctx context.Context, f *lookup[K, V], left time.Duration, load batch[K, V]) {
	// Meanwhile each caller may leave.
	c.waits(f, true)
	var woken <-chan struct{}
	waiter := ""
	if w, err := c.client.Waiter(c.ctx, f.name, f.entry); err == nil {
		defer w.Close()
		woken, waiter = w.C, w.Verb+" "+w.Channel+" "+c.id
	} else {
		c.emit(ctx, Event{Kind: ServerError, Err: err}) // without a waiter it asks when the lease ends
	}
	timer := time.NewTimer(0) // registers the waiter at once
	defer timer.Stop()
	if waiter == "" {
		timer.Reset(afterLease(left))
	}
	for {
		select {
		case <-woken:
		case <-timer.C:
		case <-f.gone:
			c.settle(f, context.Canceled) // no caller is left
			return
		case <-c.ctx.Done():
			c.waits(f, false)
			c.settle(f, redoubt.ErrClosed)
			return
		}
		granted, held := c.attempt(ctx, []*lookup[K, V]{f}, waiter)
		if len(held) == 0 {
			c.waits(f, false)
			c.load(ctx, granted, load)
			return
		}
		timer.Reset(afterLease(held[0].left))
	}
}

// afterLease is when to ask again: just after the end of the lease.
func afterLease(left time.Duration) time.Duration { return left + time.Millisecond }

// refresh loads entries that are still served, in the background, unless another process does.
func (c *Cache[K, V]) refresh(ctx context.Context, ps []place[K], seen []string, load batch[K, V]) {
	var fs []*lookup[K, V]
	c.mu.Lock()
	for i, p := range ps {
		if !c.mu.closed && !c.mu.refreshing[p.text] {
			c.mu.refreshing[p.text] = true
			fs = append(fs, newLookup(p, state[V]{seen: seen[i]}))
		}
	}
	if len(fs) > 0 {
		c.working.Add(1)
	}
	c.mu.Unlock()
	if len(fs) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer c.working.Done()
		granted, _ := c.attempt(ctx, fs, "")
		var leased []*lookup[K, V]
		for _, f := range granted {
			if f.owner != "" {
				leased = append(leased, f)
			}
		}
		c.load(ctx, leased, load)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range fs {
			delete(c.mu.refreshing, f.text)
		}
	}()
}
