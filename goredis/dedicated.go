package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/conn"
)

// maxDedicated is how many connections there are for calls of their own: a [redoubt.Client] has as many calls
// under way on a short link. Further calls use the pool.
const maxDedicated = 4

// dedicated are connections that run one command at a time on the goroutine of its caller. While go-redis waits
// for a reply it ignores a cancellation. So a call through its pool needs another goroutine, which the
// caller can leave: two hand-offs, which cost as much as the call. A call on one of these connections ends
// when the connection is closed.
type dedicated struct {
	origin *redis.Client // nil: there are none

	mu     sync.Mutex
	idle   []*blocker
	n      int // made, and not closed
	closed bool
}

// get returns an idle connection or makes one. It returns nil if all are in use.
func (l *dedicated) get() *blocker {
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
	if l.closed || l.n == maxDedicated {
		return nil
	}
	l.n++
	return newDedicated(l.origin)
}

func (l *dedicated) put(b *blocker) {
	l.mu.Lock()
	if !l.closed {
		l.idle = append(l.idle, b)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.drop(b)
}

func (l *dedicated) drop(b *blocker) {
	_ = b.client.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
}

func (l *dedicated) close() {
	l.mu.Lock()
	l.closed = true
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, b := range idle {
		l.drop(b)
	}
}

func newDedicated(origin *redis.Client) *blocker {
	b := new(blocker)
	opts := blockerOptions(origin, b)
	opts.ReadTimeout = origin.Options().ReadTimeout
	b.client = redis.NewClient(opts)
	return b
}

// tryDedicated makes the first attempt on a dedicated connection, if there is one, and says
// what is to be done then.
func (c *Conn) tryDedicated(ctx context.Context, it *item) verdict {
	b := c.dedicated.get()
	if b == nil {
		return sendNow
	}
	it.prepare(ctx)
	it.node = c.single
	leave := context.AfterFunc(ctx, b.cut)
	it.err = b.client.Process(ctx, it)
	if leave() {
		c.dedicated.put(b) // go-redis has let go of the connection itself if it failed
	} else {
		c.dedicated.drop(b)
	}
	return c.judge(ctx, it)
}

// runOn is run after an attempt with the given verdict.
func (c *Conn) runOn(ctx context.Context, it *item, v verdict) {
	if it.missed {
		c.loadMissed(ctx, []*item{it})
	}
	if v == sendLater {
		var p conn.Pauses
		if err := p.Wait(ctx); err != nil {
			it.fail(conn.Stopped(err, it.err))
			return
		}
	}
	c.run(ctx, it)
}
