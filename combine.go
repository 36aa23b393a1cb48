package redoubt

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A combiner merges the commands of concurrent callers into pipelines.
//
// A caller that finds a lane free runs its command at once, by itself. Callers
// that come while all lanes are busy queue, and leave together as one pipeline
// when a lane is free again: the busier the server, the larger the pipelines,
// and no caller ever waits for company. A caller whose ctx ends leaves at once.
//
// The number of lanes follows the round trip. On loopback two are best: one
// pipeline is in flight while the next gathers. On a link of milliseconds few
// lanes would make callers wait for a lane longer than for the server, so
// there are more of them there.
//
// Rejected: waiting a fixed time to gather callers (it delays the lone caller
// by that time); one connection with a reader and a writer goroutine (two more
// hand-offs a command, and it can't be built on a client that others own).
type combiner struct {
	conn Conn
	max  int // lanes at most

	// rtt is the shortest round trip lately seen by a lone command.
	rtt atomic.Int64

	mu    sync.Mutex
	busy  int     // lanes in use
	queue []*call // waiting for a lane, oldest first
}

const (
	minLanes = 2
	maxLanes = 16
	// laneStep is how much round trip one more lane is for.
	laneStep = 125 * time.Microsecond
	// maxBatch bounds a pipeline, so that the last of many callers does not
	// wait for the replies of all.
	maxBatch = 512
	// stuckAfter is when a pipeline is taken to be stuck, on one broken
	// connection it may be, and its lane is given to others.
	stuckAfter = 250 * time.Millisecond
)

// A call is one queued command. Who takes it from the queue sends its reply to
// done, which has room for it, so that a caller that left is not waited for.
type call struct {
	ctx   context.Context //nolint:containedctx // read for its deadline while the call is queued
	cmd   Cmd
	reply Reply
	done  chan struct{}
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newCombiner(conn Conn) *combiner { return &combiner{conn: conn, max: maxLanes} }

func (b *combiner) do(ctx context.Context, cmd Cmd) Reply {
	b.mu.Lock()
	if b.busy < b.lanes() {
		b.busy++
		b.mu.Unlock()
		start := time.Now()
		r := b.conn.Do(ctx, cmd)
		if r.Err == nil {
			b.observe(time.Since(start))
		}
		b.release()
		return r
	}
	c := calls.Get().(*call)
	c.ctx, c.cmd = ctx, cmd
	b.queue = append(b.queue, c)
	b.mu.Unlock()

	select {
	case <-c.done:
		r := c.reply
		*c = call{done: c.done}
		calls.Put(c)
		return r
	case <-ctx.Done():
		return b.leave(c)
	}
}

// leave is for a caller whose ctx ended while its call was queued or in flight.
// The call is not recycled: its pipeline may still hold it.
func (b *combiner) leave(c *call) Reply {
	err := c.ctx.Err()
	b.mu.Lock()
	for i, q := range b.queue {
		if q == c {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.mu.Unlock()
			return Reply{Err: err} // never sent
		}
	}
	b.mu.Unlock()
	select {
	case <-c.done: // the reply came just now
		return c.reply
	default:
	}
	if c.cmd.Flags&ReadOnly == 0 {
		err = UnknownOutcome(err)
	}
	return Reply{Err: err}
}

// release gives a lane back and sends what is queued.
func (b *combiner) release() {
	b.mu.Lock()
	b.busy--
	b.dispatch()
	b.mu.Unlock()
}

// dispatch starts pipelines while there are lanes and queued calls. b.mu is held.
func (b *combiner) dispatch() {
	for len(b.queue) > 0 && b.busy < b.lanes() {
		b.busy++
		go b.run(b.take())
	}
}

// take removes the next batch from the queue. b.mu is held.
func (b *combiner) take() []*call {
	batch := b.queue
	b.queue = nil
	if len(batch) > maxBatch {
		b.queue = append(b.queue, batch[maxBatch:]...)
		batch = batch[:maxBatch:maxBatch]
	}
	return batch
}

// run sends pipelines on one lane until nothing is queued.
func (b *combiner) run(batch []*call) {
	for len(batch) > 0 {
		if !b.send(batch) {
			return // the lane was given away meanwhile
		}
		// Let the callers that now have their replies come back first: they
		// then leave together, and not the quickest of them alone.
		runtime.Gosched()
		b.mu.Lock()
		if batch = b.take(); len(batch) == 0 {
			b.busy--
		}
		b.mu.Unlock()
	}
}

// send runs one batch and reports whether the lane is still its own.
func (b *combiner) send(batch []*call) bool {
	cmds := make([]Cmd, len(batch))
	ctx := batchContext{Context: context.Background()}
	bounded := true
	for i, c := range batch {
		cmds[i] = c.cmd
		d, ok := c.ctx.Deadline()
		bounded = bounded && ok
		if d.After(ctx.deadline) {
			ctx.deadline = d
		}
	}
	if !bounded {
		ctx.deadline = time.Time{}
	}
	stuck := time.AfterFunc(stuckAfter, b.release)
	replies := b.conn.Pipeline(ctx, cmds)
	for i, c := range batch {
		c.reply = replies[i]
		c.done <- struct{}{}
	}
	return stuck.Stop()
}

// batchContext is the context of a pipeline of several callers: it ends for
// none of them, but tells the client the latest of their deadlines.
type batchContext struct {
	context.Context //nolint:containedctx // this is a context

	deadline time.Time
}

func (c batchContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// observe lets the estimate of the round trip fall at once and rise slowly.
func (b *combiner) observe(d time.Duration) {
	old := b.rtt.Load()
	if next := int64(d); old == 0 || next < old {
		b.rtt.Store(next)
	} else {
		b.rtt.Store(old + (next-old)/64)
	}
}

func (b *combiner) lanes() int {
	return min(minLanes+int(b.rtt.Load()/int64(laneStep)), b.max)
}
