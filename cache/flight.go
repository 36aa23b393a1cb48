package cache

import (
	"context"
	"time"
)

// A flight is one search for the value of a key, for all callers of this process that
// want it. One goroutine leads it, and no caller: so that none takes it with him when he
// leaves.
//
// A caller may have the answer only if it is no older than his call: a value that was
// asked of the source, or of the server, before he came may have been invalidated
// before he came. So callers are numbered, and valid is how many had come when the
// question was asked that was answered. What was loaded and then stored under its lease
// was still true then, so it is good for all who came until that was sent. The others
// begin anew.
type flight[K comparable, V any] struct {
	place[K]

	done chan struct{} // closed when the rest is set
	answer[V]
	err error
	all bool // the answer is for all who joined

	// Guarded by Cache.mu.
	joined  int
	callers int // who have not left
	valid   int
	waiting bool          // for another process
	gone    chan struct{} // closed when the last caller leaves while it waits

	// Of the one who leads it.
	state    state[V] // what was known when it began
	owner    string   // of its lease; empty without
	lost     string   // owner of a lease that was asked for, with no reply
	leasedAt int64    // by the server's clock, in µs
	epoch    uint64
	took     time.Duration
}

func newFlight[K comparable, V any](p place[K], s state[V]) *flight[K, V] {
	return &flight[K, V]{place: p, state: s, done: make(chan struct{}), gone: make(chan struct{})}
}

// join makes the caller one of those of the flight for a key. One leads it.
func (c *Cache[K, V]) join(p place[K], s state[V]) (f *flight[K, V], number int, leads bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, 0, false, ErrClosed
	}
	f = c.mu.flights[p.text]
	if leads = f == nil; leads {
		f = newFlight(p, s)
		c.mu.flights[p.text] = f
		c.working.Add(1)
	}
	f.joined++
	f.callers++
	return f, f.joined, leads, nil
}

// await waits for the answer. It is not ok when it is older than the call.
func (c *Cache[K, V]) await(ctx context.Context, f *flight[K, V], number int) (a answer[V], ok bool, err error) {
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

// endIfGone ends a flight that waits for nobody. c.mu is held.
func (c *Cache[K, V]) endIfGone(f *flight[K, V]) {
	if f.callers == 0 && f.waiting {
		f.waiting = false
		c.removeLocked(f)
		close(f.gone)
	}
}

// waits notes whether a flight waits for another process.
func (c *Cache[K, V]) waits(f *flight[K, V], is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-f.gone:
	default:
		f.waiting = is
		c.endIfGone(f)
	}
}

// asks notes that a question is about to be asked, whose answer is for all that have
// joined by now.
func (c *Cache[K, V]) asks(fs []*flight[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fs {
		f.valid = f.joined
	}
}

// remove lets nobody join any more: who comes now begins anew.
func (c *Cache[K, V]) remove(fs ...*flight[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fs {
		c.removeLocked(f)
	}
}

func (c *Cache[K, V]) removeLocked(f *flight[K, V]) {
	if c.mu.flights[f.text] == f {
		delete(c.mu.flights, f.text)
	}
}

// forget is for a key that was invalidated: who comes now doesn't join.
func (c *Cache[K, V]) forget(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.flights, text)
}

// settle ends a flight.
func (c *Cache[K, V]) settle(f *flight[K, V], err error) {
	c.remove(f)
	f.err = err
	close(f.done)
}

// lead finds the answers of flights, each of which ends. It is for a goroutine of its
// own, for which join has told that it works.
func (c *Cache[K, V]) lead(ctx context.Context, fs []*flight[K, V], load batch[K, V]) {
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

// A waiting flight is one whose key another process loads.
type waiting[K comparable, V any] struct {
	f    *flight[K, V]
	left time.Duration // of the other's lease
}

// wait waits for the load of another process, and loads when that comes to nothing.
func (c *Cache[K, V]) wait(ctx context.Context, f *flight[K, V], left time.Duration, load batch[K, V]) {
	// What the callers see in the meantime: nothing. Each may leave.
	c.waits(f, true)
	var woken <-chan struct{}
	waiter := ""
	if w, err := c.client.Waiter(c.ctx, f.name, f.entry); err == nil {
		defer w.Close()
		woken, waiter = w.C, w.Verb+" "+w.Channel+" "+c.id
	} else {
		c.emit(ctx, Event{Kind: Trouble, Err: err}) // it asks when the lease ends
	}
	timer := time.NewTimer(0) // to note at once who waits
	defer timer.Stop()
	if waiter == "" {
		timer.Reset(afterLease(left))
	}
	for {
		select {
		case <-woken:
		case <-timer.C:
		case <-f.gone:
			c.settle(f, context.Canceled) // nobody hears it
			return
		case <-c.ctx.Done():
			c.waits(f, false)
			c.settle(f, ErrClosed)
			return
		}
		granted, held := c.attempt(ctx, []*flight[K, V]{f}, waiter)
		if len(held) == 0 {
			c.waits(f, false)
			c.load(ctx, granted, load)
			return
		}
		timer.Reset(afterLease(held[0].left))
	}
}

// afterLease is when to ask again: a little later than the end of the lease, not to come
// too early.
func afterLease(left time.Duration) time.Duration { return left + time.Millisecond }

// refresh loads what is still served, in the background, unless another does.
func (c *Cache[K, V]) refresh(ctx context.Context, ps []place[K], seen []string, load batch[K, V]) {
	var fs []*flight[K, V]
	c.mu.Lock()
	for i, p := range ps {
		if !c.mu.closed && !c.mu.refreshing[p.text] {
			c.mu.refreshing[p.text] = true
			fs = append(fs, newFlight(p, state[V]{seen: seen[i]}))
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
		var leased []*flight[K, V]
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
