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
// A caller that finds a free lane sends its command alone and at once. While all
// lanes are busy, callers queue. When a lane is free again, it takes its share of the
// queue as one pipeline. So the pipelines grow with the load, and no caller waits for
// other callers. A caller whose ctx ends leaves at once.
//
// The number of lanes follows the round trip. On loopback two lanes are best: one
// pipeline is in flight while the next one gathers. On a link with a round trip of
// milliseconds there are more lanes, because callers would wait longer for one of two
// lanes than for the server.
//
// Rejected: waiting a fixed time to gather callers (it delays the lone caller
// by that time); one connection with a reader and a writer goroutine (two more
// hand-offs a command, and it can't be built on a client that others own).
type combiner struct {
	conn   Conn
	health *health // of the node
	max    int     // lanes at most

	// calls are unused calls. They are the combiner's own: a
	// channel made in a bubble of testing/synctest is of no use outside.
	calls sync.Pool

	// rtt is the shortest round trip lately seen by a lone command.
	rtt atomic.Int64

	mu      sync.Mutex
	lanes   [maxLanes]lane
	busy    int     // lanes in use
	flying  int     // commands that are on lanes
	queue   []*call // waiting for a lane, oldest first
	watch   *time.Timer
	watched bool // watch is set
}

// A lane is in use by one command or pipeline at a time.
type lane struct {
	since time.Time // when it was sent; zero: the lane is free
	use   uint64    // counts its users, so that a late one doesn't free it for another
}

const (
	minLanes = 2
	maxLanes = 16
	// laneStep is how much round trip one more lane is for.
	laneStep = 125 * time.Microsecond
	// maxBatch is the greatest length of a pipeline. It bounds how long the last caller waits for the
	// replies of the others.
	maxBatch = 512
	// stuckAfter is how long a command or a pipeline may take until its lane is given to waiting
	// commands. Its connection may be broken.
	stuckAfter = 250 * time.Millisecond
)

// A call is one queued command. The lane that takes it from the queue sends its reply to done, which has
// room for it, so the lane never waits for a caller that has left.
type call struct {
	ctx   context.Context //nolint:containedctx // read for its deadline while the call is queued
	cmd   Cmd
	reply Reply
	done  chan struct{}
}

func newCombiner(h *health) *combiner {
	b := &combiner{conn: h.conn, health: h, max: maxLanes}
	b.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	return b
}

func (b *combiner) do(ctx context.Context, cmd Cmd) Reply {
	if err := b.health.allow(ctx); err != nil {
		return Reply{Err: err}
	}
	b.mu.Lock()
	if b.busy < b.width() {
		l, start := b.enter()
		use := l.use
		b.flying++
		b.mu.Unlock()
		r := b.health.send(ctx, cmd)
		if r.Err == nil {
			b.observe(time.Since(start))
		}
		b.mu.Lock()
		b.flying--
		b.exit(l, use)
		b.dispatch()
		b.mu.Unlock()
		return r
	}
	c := b.calls.Get().(*call)
	c.ctx, c.cmd = ctx, cmd
	over := b.health.over()
	b.queue = append(b.queue, c)
	b.watchLanes()
	b.mu.Unlock()

	select {
	case <-c.done:
		r := c.reply
		*c = call{done: c.done}
		b.calls.Put(c)
		return r
	case <-ctx.Done():
		return b.leave(c, ctx.Err())
	case <-over:
		return b.leave(c, b.health.why())
	}
}

// enter takes a free lane. b.mu is held, and one is free.
func (b *combiner) enter() (*lane, time.Time) {
	l := &b.lanes[0]
	for i := range b.lanes {
		if l = &b.lanes[i]; l.since.IsZero() {
			break
		}
	}
	l.since = time.Now()
	l.use++
	b.busy++
	return l, l.since
}

// exit frees a lane, unless it was given away meanwhile. b.mu is held.
func (b *combiner) exit(l *lane, use uint64) {
	if l.use == use {
		l.since = time.Time{}
		l.use++
		b.busy--
	}
}

// watchLanes looks for stuck lanes after a while. It is called when a caller must wait, so no call
// pays for a timer as long as lanes are free. b.mu is held.
func (b *combiner) watchLanes() {
	if b.watched {
		return
	}
	b.watched = true
	if b.watch == nil {
		b.watch = time.AfterFunc(stuckAfter, b.freeStuck)
	} else {
		b.watch.Reset(stuckAfter)
	}
}

// freeStuck gives the stuck lanes away.
func (b *combiner) freeStuck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = false
	if len(b.queue) == 0 {
		return
	}
	for i := range b.lanes {
		if l := &b.lanes[i]; !l.since.IsZero() && time.Since(l.since) >= stuckAfter {
			b.exit(l, l.use)
		}
	}
	b.dispatch()
	if len(b.queue) > 0 {
		b.watchLanes()
	}
}

// leave is for a caller that leaves because of err while its call is queued or in flight. The call is not
// reused: its pipeline may still hold it.
func (b *combiner) leave(c *call, err error) Reply {
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

// dispatch starts pipelines while there are lanes and queued calls. b.mu is held.
func (b *combiner) dispatch() {
	for len(b.queue) > 0 && b.busy < b.width() {
		l, _ := b.enter()
		go b.run(l, l.use, b.take())
	}
}

// take removes the next batch from the queue, at most one lane's share of all queued and running calls.
// Without that limit one lane would have nearly all callers and the others one each, and server and client
// would work in turns. b.mu is held.
func (b *combiner) take() []*call {
	width := b.width()
	most := min((b.flying+len(b.queue)+width-1)/width, maxBatch)
	batch := b.queue
	b.queue = nil
	if len(batch) > most {
		b.queue = append(b.queue, batch[most:]...)
		batch = batch[:most:most]
	}
	b.flying += len(batch)
	return batch
}

// run sends pipelines on one lane until nothing is queued, or the lane was given
// away.
func (b *combiner) run(l *lane, use uint64, batch []*call) {
	for len(batch) > 0 {
		b.send(batch)
		// Let the callers that now have their replies come back first: they
		// then leave together, and not the quickest of them alone.
		runtime.Gosched()
		b.mu.Lock()
		b.flying -= len(batch)
		if l.use != use {
			b.mu.Unlock()
			return
		}
		if batch = b.take(); len(batch) == 0 {
			b.exit(l, use)
		} else {
			l.since = time.Now()
			b.dispatch()
		}
		b.mu.Unlock()
	}
}

// send runs one batch.
func (b *combiner) send(batch []*call) {
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
	answer := func(i int, r Reply) {
		batch[i].reply = r
		batch[i].done <- struct{}{}
	}
	if c, ok := b.conn.(EachPipeliner); ok {
		b.health.each(ctx, c, cmds, answer)
		return
	}
	for i, r := range b.health.pipeline(ctx, cmds) {
		answer(i, r)
	}
}

// batchContext is the context of a pipeline of several callers: it ends with none of
// theirs, but tells the client the latest of their deadlines.
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

// width is the greatest number of lanes.
func (b *combiner) width() int {
	return min(minLanes+int(b.rtt.Load()/int64(laneStep)), b.max)
}
