// Package enginetest has a server for unit tests: an engine inside the process, whose clock stands still
// until the test moves it. Everything that a redoubt.Client serves works on it: locks, limits, queues,
// stock, caches.
//
//	s := enginetest.New(t)
//	orders, err := queue.New[Order](s.Client, queue.Options{})
//	…
//	placeOrder(ctx, orders)                       // puts a message with a delay
//	s.Advance(15 * time.Minute)                   // now it is due
//	n, err := orders.Work(ctx, "unpaid", cancelUnpaid, queue.RunOptions{})
//
// The server runs the same scripts as Redis, so leases, limits and delays end as the clock moves. The
// timers of the process itself, such as the renewal of a lease, don't follow that clock. A test that needs
// them runs in a bubble of testing/synctest, with an engine of its own from engine.Open.
// [queue.Queue.Work] needs none: it runs handlers in the test's own goroutine, and returns when no message
// is due.
package enginetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
)

// A Server is an empty server whose clock the test sets. Its methods are safe for concurrent use.
type Server struct {
	// Client uses the server. It is closed when the test ends.
	Client *redoubt.Client

	clock clock
}

// New returns a Server whose clock stands at 2026-01-02 03:04:05 UTC. The Server is closed when the test
// ends.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{clock: clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	e, err := engine.Open(context.Background(), engine.Options{Clock: &s.clock})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	if s.Client, err = redoubt.New(e, redoubt.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Client.Close() })
	return s
}

// Now returns the server's time.
func (s *Server) Now() time.Time { return s.clock.Now() }

// Advance moves the server's clock forward by d. Whatever is due by then happens: keys expire, and
// blocked commands whose time is over end soon after, in goroutines of their own.
func (s *Server) Advance(d time.Duration) { s.clock.advance(d) }

// A clock stands still until it is moved.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

type timer struct {
	clock *clock
	at    time.Time
	f     func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) engine.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c, c.now.Add(d), f}
	c.timers = append(c.timers, t)
	return t
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	before := len(t.clock.timers)
	t.clock.timers = slices.DeleteFunc(t.clock.timers, func(o *timer) bool { return o == t })
	return len(t.clock.timers) < before
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool {
		if t.at.After(c.now) {
			return false
		}
		go t.f()
		return true
	})
}
