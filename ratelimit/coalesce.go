package ratelimit

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

const (
	// maxCoalesced is the most tokens that a call in a batch takes, so that the
	// products in batch.lua stay exact.
	maxCoalesced = 100_000
	// maxCallers bounds a batch, so that no script holds the server up.
	maxCallers = 512
	// stuckAfter is when a call is taken to be stuck, on a broken connection it
	// may be, and those that wait for it go without it.
	stuckAfter = 250 * time.Millisecond
)

// flights are the calls under way by key. A call for a key that has none under
// way goes at once, by itself. Those that come meanwhile queue, and go together
// as one call of batch.lua when it is over, in the order in which they came:
// to the server it is as if they had come one by one. So a lone caller never
// waits for company, and the more callers a key has the fewer round trips each
// costs.
//
// They are kept in parts, so that callers with different keys seldom wait for each
// other, nor their cores for one cache line.
type flights [64]flightsPart

type flightsPart struct {
	mu   sync.Mutex
	of   map[string]*flight
	idle *flight  // one that is over, for the next call
	_    [40]byte // up to a cache line
}

type flight struct {
	flying int       // calls under way
	since  time.Time // when the last one left
	queue  []*caller // oldest first
}

// A caller is one call for n tokens.
type caller struct {
	name, key string
	n         int

	// What follows is only for one that queues.
	ctx   context.Context //nolint:containedctx // what the batch inherits values from
	party *party          // that it left with, guarded by the flightsPart of its key
	done  chan struct{}   // closed when there is an answer
	d     Decision
	err   error
}

// A party is the callers of a batch. When all have left, it is cancelled.
type party struct {
	waiting int
	cancel  context.CancelFunc
}

// coalesce makes the call, by itself or with others.
func (l *Limiter) coalesce(ctx context.Context, c *caller, cmd redoubt.Cmd) (Decision, error) {
	if c.n == 0 || c.n > maxCoalesced {
		return l.alone(ctx, c, cmd)
	}
	fl := l.flightsOf(c.key)
	fl.mu.Lock()
	f := fl.of[c.key]
	if f == nil {
		fl.take(c.key)
		fl.mu.Unlock()
		defer l.land(c.key)
		return l.alone(ctx, c, cmd)
	}
	c.ctx, c.done = ctx, make(chan struct{})
	f.queue = append(f.queue, c)
	if time.Since(f.since) >= stuckAfter {
		l.depart(c.key, f)
	}
	fl.mu.Unlock()
	select {
	case <-c.done:
		return c.d, c.err
	case <-ctx.Done():
		return l.leave(c)
	}
}

func (l *Limiter) flightsOf(key string) *flightsPart {
	return &l.flights[maphash.String(l.denials.seed, key)%uint64(len(l.flights))]
}

// take notes the first call for a key. fl.mu is held.
func (fl *flightsPart) take(key string) {
	f := fl.idle
	if f == nil {
		f = &flight{}
	}
	fl.idle = nil
	f.flying, f.since = 1, time.Now()
	if fl.of == nil {
		fl.of = map[string]*flight{}
	}
	fl.of[key] = f
}

// alone makes one call.
func (l *Limiter) alone(ctx context.Context, c *caller, cmd redoubt.Cmd) (Decision, error) {
	sent, given := time.Time{}, l.denials.given(c.name)
	if l.denyFor > 0 {
		sent = time.Now()
	}
	o, t, err := l.wire.Read(l.client.Do(ctx, cmd))
	if err != nil {
		return Decision{}, err
	}
	d := decision(t.Decide(o, o.First*int64(c.n), int64(c.n)))
	l.remember(c, t, o, d, sent, given)
	return d, nil
}

// land is the end of a call: those that queue go now.
func (l *Limiter) land(key string) {
	fl := l.flightsOf(key)
	fl.mu.Lock()
	defer fl.mu.Unlock()
	f := fl.of[key]
	f.flying--
	if len(f.queue) > 0 {
		l.depart(key, f)
	} else if f.flying == 0 {
		delete(fl.of, key)
		*f = flight{}
		fl.idle = f
	}
}

// depart sends those that queue. The mu of the key's part is held.
func (l *Limiter) depart(key string, f *flight) {
	n := min(len(f.queue), maxCallers)
	all := f.queue[:n:n]
	f.queue = f.queue[n:]
	f.flying++
	f.since = time.Now()
	ctx, cancel := context.WithCancel(context.WithoutCancel(all[0].ctx))
	p := &party{waiting: n, cancel: cancel}
	for _, c := range all {
		c.party = p
	}
	l.client.Go(func() {
		defer cancel()
		l.together(ctx, all)
		// Let those who now have their answers come back first: they then leave
		// together, and not the quickest of them alone.
		runtime.Gosched()
		l.land(key)
	})
}

// leave is for a caller whose ctx has ended. One that has not left yet takes
// nothing.
func (l *Limiter) leave(c *caller) (Decision, error) {
	err := c.ctx.Err()
	fl := l.flightsOf(c.key)
	fl.mu.Lock()
	defer fl.mu.Unlock()
	select {
	case <-c.done: // the answer came just now
		return c.d, c.err
	default:
	}
	if p := c.party; p != nil {
		if p.waiting--; p.waiting == 0 {
			p.cancel()
		}
		return Decision{}, redoubt.UnknownOutcome(err)
	}
	f := fl.of[c.key]
	for i, q := range f.queue {
		if q == c {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
			break
		}
	}
	return Decision{}, err
}

// together makes a call for each of all, as one, and answers them.
func (l *Limiter) together(ctx context.Context, all []*caller) {
	// Those before them may have been refused.
	rest := all[:0:0]
	for _, c := range all {
		if d, ok := l.denied(c.name, c.n); ok {
			c.d = d
			close(c.done)
		} else {
			rest = append(rest, c)
		}
	}
	switch len(rest) {
	case 0:
		return
	case 1:
		c := rest[0]
		cmd, err := l.wire.TakeCmd(c.name, c.n)
		if err == nil {
			c.d, err = l.alone(ctx, c, cmd)
		}
		c.err = err
		close(c.done)
		return
	}
	sent, given := time.Now(), l.denials.given(rest[0].name)
	err := l.askBatch(ctx, rest, sent, given)
	for _, c := range rest {
		c.err = err
		close(c.done)
	}
}

// askBatch sets the decisions of callers, who all want the same name.
func (l *Limiter) askBatch(ctx context.Context, callers []*caller, sent time.Time, given uint64) error {
	n := make([]int, len(callers))
	for i, c := range callers {
		n[i] = c.n
	}
	cmd, err := l.wire.BatchCmd(callers[0].name, n)
	if err != nil {
		return err
	}
	all, t, err := l.wire.ReadBatch(l.client.Do(ctx, cmd), len(callers))
	if err != nil {
		return err
	}
	for i, c := range callers {
		o := all[i]
		c.d = decision(t.Decide(o, o.First*int64(c.n), int64(c.n)))
		l.remember(c, t, o, c.d, sent, given)
	}
	return nil
}
