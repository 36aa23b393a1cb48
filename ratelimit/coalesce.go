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
	// maxCoalesced is the largest number of tokens for a call in a batch, so that the
	// products in batch.lua stay exact.
	maxCoalesced = 100_000
	// maxCallers bounds a batch, so that no script blocks the server for long.
	maxCallers = 512
	// stuckAfter is when a call counts as stuck, on a broken connection for instance. The
	// callers behind it then go without it.
	stuckAfter = 250 * time.Millisecond
)

// coalescer has the calls under way, by key. A call for a key without calls under way is
// sent at once, by itself. Later calls queue until it has returned, and are then sent as
// one call of batch.lua, in the order of arrival: the server decides as if they had come
// one by one. So a lone caller never waits for others, and more callers of a key need
// fewer round trips each.
//
// It has shards, so that callers with different keys seldom wait for each other, and their
// cores seldom share a cache line.
type coalescer [64]coalescerShard

type coalescerShard struct {
	mu   sync.Mutex
	of   map[string]*keyCalls
	idle *keyCalls // for the next call, to save an allocation
	_    [40]byte  // up to a cache line
}

type keyCalls struct {
	underWay int       // calls under way
	since    time.Time // when the last one was sent
	queue    []*caller // oldest first
}

// A caller is one call for n tokens.
type caller struct {
	name, key string
	n         int

	// The fields below are only for a caller in the queue.
	ctx   context.Context //nolint:containedctx // what the batch inherits values from
	batch *batch          // that it was sent with, guarded by the shard of its key
	done  chan struct{}   // closed when there is an answer
	d     Decision
	err   error
}

// A batch is the callers of one call of batch.lua. It is cancelled when all of them have left.
type batch struct {
	waiting int
	cancel  context.CancelFunc
}

// coalesce sends the call, by itself or with others.
func (l *Limiter) coalesce(ctx context.Context, c *caller, cmd redoubt.Cmd) (Decision, error) {
	if c.n == 0 || c.n > maxCoalesced {
		return l.sendOne(ctx, c, cmd)
	}
	sh := l.shardOf(c.key)
	sh.mu.Lock()
	f := sh.of[c.key]
	if f == nil {
		sh.begin(c.key)
		sh.mu.Unlock()
		defer l.finish(c.key)
		return l.sendOne(ctx, c, cmd)
	}
	c.ctx, c.done = ctx, make(chan struct{})
	f.queue = append(f.queue, c)
	if time.Since(f.since) >= stuckAfter {
		l.sendQueue(c.key, f)
	}
	sh.mu.Unlock()
	select {
	case <-c.done:
		return c.d, c.err
	case <-ctx.Done():
		return l.leave(c)
	}
}

func (l *Limiter) shardOf(key string) *coalescerShard {
	return &l.coalescer[maphash.String(l.denials.seed, key)%uint64(len(l.coalescer))]
}

// begin notes the first call for a key. sh.mu is held.
func (sh *coalescerShard) begin(key string) {
	f := sh.idle
	if f == nil {
		f = &keyCalls{}
	}
	sh.idle = nil
	f.underWay, f.since = 1, time.Now()
	if sh.of == nil {
		sh.of = map[string]*keyCalls{}
	}
	sh.of[key] = f
}

// sendOne sends one call.
func (l *Limiter) sendOne(ctx context.Context, c *caller, cmd redoubt.Cmd) (Decision, error) {
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

// finish notes the end of a call, and sends the queue.
func (l *Limiter) finish(key string) {
	sh := l.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.of[key]
	f.underWay--
	if len(f.queue) > 0 {
		l.sendQueue(key, f)
	} else if f.underWay == 0 {
		delete(sh.of, key)
		*f = keyCalls{}
		sh.idle = f
	}
}

// sendQueue sends the callers in the queue. The mu of the key's shard is held.
func (l *Limiter) sendQueue(key string, f *keyCalls) {
	n := min(len(f.queue), maxCallers)
	all := f.queue[:n:n]
	f.queue = f.queue[n:]
	f.underWay++
	f.since = time.Now()
	ctx, cancel := context.WithCancel(context.WithoutCancel(all[0].ctx))
	p := &batch{waiting: n, cancel: cancel}
	for _, c := range all {
		c.batch = p
	}
	l.client.Go(func() {
		defer cancel()
		l.sendBatch(ctx, all)
		// Let the callers that now have answers call again first: they are then sent
		// together, and not the quickest of them alone.
		runtime.Gosched()
		l.finish(key)
	})
}

// leave ends the wait of a caller whose ctx has ended. A caller that has not been sent yet
// takes nothing.
func (l *Limiter) leave(c *caller) (Decision, error) {
	err := c.ctx.Err()
	sh := l.shardOf(c.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case <-c.done: // the answer came just now
		return c.d, c.err
	default:
	}
	if p := c.batch; p != nil {
		if p.waiting--; p.waiting == 0 {
			p.cancel()
		}
		return Decision{}, redoubt.UnknownOutcome(err)
	}
	f := sh.of[c.key]
	for i, q := range f.queue {
		if q == c {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
			break
		}
	}
	return Decision{}, err
}

// sendBatch sends the calls of all as one, and answers them.
func (l *Limiter) sendBatch(ctx context.Context, all []*caller) {
	// A call before them may have been refused.
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
			c.d, err = l.sendOne(ctx, c, cmd)
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

// askBatch sets the decisions of callers, which all have the same name.
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
