package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// bubble runs a test in a bubble of testing/synctest with an engine, so that
// the server's clock and the timers of the waiters are one and exact.
func bubble(t *testing.T, opts ratelimit.Options, run func(t *testing.T, l *ratelimit.Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		l, err := ratelimit.New(client, opts)
		must(t, err)
		run(t, l)
		must(t, client.Close())
		must(t, e.Close())
	})
}

// RRateLimiter's own demonstration: of twenty callers, at one permit a second,
// each is served, in the order in which they came, in its own second.
//
// Promise: Waiters are served in the order of arrival and never early; a wait
// that would pass its deadline returns at once and takes nothing, and a waiter
// that gives up leaves its place to the next.
func TestTwentyCallersAreServedInOrder(t *testing.T) {
	bubble(t, ratelimit.Options{Limit: ratelimit.Limit{Rate: 1, Period: time.Second}}, func(t *testing.T, l *ratelimit.Limiter) {
		start := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := l.Wait(t.Context(), "demo"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				served = append(served, fmt.Sprint(i, " after ", time.Since(start)))
				mu.Unlock()
			})
			synctest.Wait() // it has its place
		}
		wg.Wait()
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i, " after ", time.Duration(i)*time.Second))
		}
		if !slices.Equal(served, want) {
			t.Errorf("%q", served)
		}
	})
}

// A wait that can't end in time returns at once and takes nothing.
//
// Promise: Waiters are served in the order of arrival and never early; a wait
// that would pass its deadline returns at once and takes nothing, and a waiter
// that gives up leaves its place to the next.
func TestWaitRefusesAtOnce(t *testing.T) {
	opts := ratelimit.Options{Limit: ratelimit.Limit{Rate: 1, Period: time.Second, Burst: 2}, MaxWait: time.Minute}
	bubble(t, opts, func(t *testing.T, l *ratelimit.Limiter) {
		start := time.Now()
		must(t, l.WaitN(t.Context(), "a", 2))
		within := func(d time.Duration, n int) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return l.WaitN(ctx, "a", n)
		}
		for _, c := range []struct {
			d    time.Duration
			n    int
			want error
		}{
			{999 * time.Millisecond, 1, ratelimit.ErrTooLate},
			{1999 * time.Millisecond, 2, ratelimit.ErrTooLate},
			{time.Hour, 3, ratelimit.ErrExceedsBurst},
			{0, 1, context.DeadlineExceeded},
			{-1, 1, context.DeadlineExceeded},
		} {
			if err := within(c.d, c.n); !errors.Is(err, c.want) {
				t.Errorf("%d tokens within %v: %v; want %v", c.n, c.d, err, c.want)
			}
		}
		if d := peek(t, l, "a"); time.Since(start) != 0 || d.ResetAfter != 2*time.Second {
			t.Errorf("after %v: %s", time.Since(start), show(d))
		}
		// MaxWait refuses without a deadline.
		for range 60 {
			r, err := l.Reserve(t.Context(), "a", 1)
			must(t, err)
			if !r.Allowed {
				t.Fatalf("%+v", r.Decision)
			}
		}
		if err := l.Wait(t.Context(), "a"); !errors.Is(err, ratelimit.ErrTooLate) || time.Since(start) != 0 {
			t.Errorf("beyond MaxWait: %v", err)
		}
		if err := l.WaitN(t.Context(), "a", 0); err == nil {
			t.Error("of no token: no error")
		}
	})
}

// The place of a wait that is given up is the next one's.
//
// Promise: Waiters are served in the order of arrival and never early; a wait
// that would pass its deadline returns at once and takes nothing, and a waiter
// that gives up leaves its place to the next.
func TestWaitGivenUp(t *testing.T) {
	bubble(t, ratelimit.Options{Limit: ratelimit.Limit{Rate: 1, Period: time.Second}}, func(t *testing.T, l *ratelimit.Limiter) {
		start := time.Now()
		must(t, l.Wait(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Wait(ctx, "a") }()
		synctest.Wait()
		if d := peek(t, l, "a"); d.ResetAfter != 2*time.Second {
			t.Errorf("while it waits: %s", show(d))
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		must(t, l.Wait(t.Context(), "a"))
		if d := time.Since(start); d != time.Second {
			t.Errorf("the next was served after %v", d)
		}
	})
}

// leaving is a Conn whose caller leaves while the reply to its command is on its
// way.
type leaving struct {
	redoubt.Conn
	leave func()
}

func (c leaving) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	c.leave()
	if err := ctx.Err(); err != nil {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(err)}
	}
	return r
}

// The place of a caller that left before its reply came is given back too.
//
// Promise: Waiters are served in the order of arrival and never early; a wait
// that would pass its deadline returns at once and takes nothing, and a waiter
// that gives up leaves its place to the next.
func TestWaitGivenUpBeforeItsReply(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		stays := e.limiter(t, ratelimit.PerHour(1))
		must(t, stays.Wait(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		var led ratelimit.Decision
		e.Client = clienttest.New(t, leaving{clienttest.Wrap(t, e.Redis), func() {
			once.Do(func() {
				led = peek(t, stays, "a")
				cancel()
			})
		}}, e.Prefix)
		if err := e.limiter(t, ratelimit.PerHour(1)).Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		must(t, e.Client.Close()) // what is left to do has been done
		if d := peek(t, stays, "a"); led.ResetAfter <= time.Hour || d.ResetAfter > time.Hour {
			t.Errorf("while it waits: %s; when it has left: %s", show(led), show(d))
		}
	})
}

// On real servers, with real time: nobody is early.
//
// Promise: Waiters are served in the order of arrival and never early; a wait
// that would pass its deadline returns at once and takes nothing, and a waiter
// that gives up leaves its place to the next.
func TestWaitIsNeverEarly(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const interval, callers = 10 * time.Millisecond, 30
		l := e.limiter(t, ratelimit.Limit{Rate: 1, Period: interval, Burst: 3})
		before := time.Now()
		must(t, l.WaitN(t.Context(), "a", 3))
		ends := make([]time.Time, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if err := l.Wait(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				ends[i] = time.Now()
			})
		}
		wg.Wait()
		slices.SortFunc(ends, time.Time.Compare)
		for i, end := range ends {
			if least := time.Duration(i+1) * interval; end.Sub(before) < least {
				t.Errorf("wait %d ended after %v; want at least %v", i+1, end.Sub(before), least)
			}
		}
	})
}
