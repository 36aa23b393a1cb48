package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// maxLone is how many connections there are for calls of their own: a
// [redoubt.Client] has so many under way on a short link. Others go by the pool.
const maxLone = 4

// lone are connections that run one command at a time in the goroutine of its
// caller. go-redis doesn't look at a cancellation while it waits for a reply, so a
// call by its pool needs a goroutine of its own, from which the caller can go away:
// two hand-offs, which cost as much as the call. What runs alone on a connection
// that we know is ended by closing that.
//
// Only clients of [Open] on one server have them: the hooks and metrics of a
// program's own client would not see them, and with Sentinel they would stay with
// the old primary.
type lone struct {
	origin *redis.Client // nil: there are none

	mu     sync.Mutex
	idle   []*blocker
	n      int // made, and not closed
	closed bool
}

// get takes one, nil if there is none to be had.
func (l *lone) get() *blocker {
	if l.origin == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		b := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return b
	}
	if l.closed || l.n == maxLone {
		return nil
	}
	l.n++
	return newLone(l.origin)
}

func (l *lone) put(b *blocker) {
	l.mu.Lock()
	if !l.closed {
		l.idle = append(l.idle, b)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.drop(b)
}

func (l *lone) drop(b *blocker) {
	_ = b.client.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
}

func (l *lone) close() {
	l.mu.Lock()
	l.closed = true
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, b := range idle {
		l.drop(b)
	}
}

func newLone(origin *redis.Client) *blocker {
	b := new(blocker)
	opts := blockerOptions(origin, b)
	opts.ReadTimeout = origin.Options().ReadTimeout
	b.client = redis.NewClient(opts)
	return b
}

// doLone makes the first attempt on a lone connection, if there is one, and says
// what is to be done then.
func (c *Conn) doLone(ctx context.Context, it *item) verdict {
	b := c.lone.get()
	if b == nil {
		return sendNow
	}
	it.prepare(ctx)
	it.node = c.single
	leave := context.AfterFunc(ctx, b.cut)
	it.err = b.client.Process(ctx, it)
	if leave() {
		c.lone.put(b) // go-redis has let go of the connection itself if it failed
	} else {
		c.lone.drop(b)
	}
	return c.judge(ctx, it)
}

// runOn is run after an attempt with the given verdict.
func (c *Conn) runOn(ctx context.Context, it *item, v verdict) {
	if it.missed {
		c.loadMissed(ctx, []*item{it})
	}
	if v == sendLater {
		var p pauses
		if err := p.wait(ctx); err != nil {
			it.fail(stopped(err, it.err))
			return
		}
	}
	c.run(ctx, it)
}
