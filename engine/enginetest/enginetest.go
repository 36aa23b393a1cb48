// Package enginetest is for unit tests of what uses a queue: a server in the
// process, whose clock stands until the test moves it.
//
//	w := enginetest.New(t)
//	orders, err := queue.New[Order](w.Client, queue.Options{})
//	…
//	placeOrder(ctx, orders)                       // puts a message with a delay
//	w.Advance(15 * time.Minute)                   // now it is due
//	n, err := orders.Work(ctx, "unpaid", cancelUnpaid, queue.RunOptions{})
//
// [queue.Queue.Work] runs handlers in the test's own goroutine and returns when
// nothing more is due, so that nothing has to be waited for. The scripts, and what
// they do, are those of Redis; other packages of this module work on the same
// Client. A test of [queue.Queue.Run], which waits by the process's own clock, runs
// in a bubble of testing/synctest, on an engine.Open of its own: see this package's
// tests.
package enginetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
)

// A World is a server with nothing on it.
type World struct {
	// Client is how it is used. It is closed when the test ends.
	Client *redoubt.Client

	clock clock
}

// New returns a World whose clock stands at 2026-01-02 03:04:05 UTC.
func New(tb testing.TB) *World {
	tb.Helper()
	w := &World{clock: clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	e, err := engine.Open(context.Background(), engine.Options{Clock: &w.clock})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	if w.Client, err = redoubt.New(e, redoubt.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = w.Client.Close() })
	return w
}

// Now returns the server's time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Advance moves the server's clock on.
func (w *World) Advance(d time.Duration) { w.clock.advance(d) }

// A clock stands until it is moved.
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
