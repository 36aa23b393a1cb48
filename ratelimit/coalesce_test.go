//go:build !quick

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
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// inPlace waits until the caller that came as number k, from 0, is under way alone or
// queues behind the one that is. The callers behind it queue however long the test takes.
func inPlace(t *testing.T, g *gate, l *ratelimit.Limiter, k int) {
	t.Helper()
	await.Soon(t, fmt.Sprintf("caller %d is in its place", k), func() bool {
		return len(g.sent()) == 1 && ratelimit.Queued(l) == k
	})
	ratelimit.Patient(l)
}

// Callers that come while a call for their name is under way go as one call,
// and are answered as if they had come one by one, in their order: allowed and
// refused, under one limit or several, own or stored.
//
// Promise: Concurrent calls for one name that go to the server as one decide
// as the calls one by one would, in their order; a lone caller never waits for
// others.
func TestCoalescedDecideAlike(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		g := &gate{Conn: e.Clock}
		held := e.ClientOn(g)
		for i := range thorough(40, 15) {
			limits := []ratelimit.Limit{randomLimit(r), randomLimit(r), randomLimit(r)}[:1+r.IntN(3)]
			opts := ratelimit.Options{Limit: limits[0], And: limits[1:]}
			apart, err := ratelimit.New(e.Client, opts)
			must(t, err)
			if i%3 == 0 {
				opts = ratelimit.Options{Stored: true}
			}
			l, err := ratelimit.New(held, opts)
			must(t, err)
			name := fmt.Sprint("a", i)
			if opts.Stored {
				must(t, l.Set(t.Context(), name, limits[0], limits[1:]...))
			}
			for range 4 {
				e.Clock.Advance(time.Duration(r.Int64N(int64(limits[0].Period)/1000+1)) * time.Microsecond)
				costs := make([]int, 2+r.IntN(20))
				for k := range costs {
					costs[k] = 1 + r.IntN(3)
					if r.IntN(6) == 0 {
						costs[k] = 1 + r.IntN(limits[0].Burst+2)
					}
				}
				want := make([]ratelimit.Decision, len(costs))
				for k, n := range costs {
					want[k] = allow(t, apart, name+"apart", n)
				}
				g.close()
				got := make([]ratelimit.Decision, len(costs))
				var wg sync.WaitGroup
				for k, n := range costs {
					wg.Go(func() {
						var err error
						if got[k], err = l.AllowN(t.Context(), name, n); err != nil {
							t.Error(err)
						}
					})
					inPlace(t, g, l, k)
				}
				g.open()
				wg.Wait()
				for k := range costs {
					if got[k] != want[k] {
						t.Fatalf("%+v: call %d of %v:\n got %+v\nwant %+v", limits, k, costs, got[k], want[k])
					}
				}
				if n := len(g.sent()); n != 2 {
					t.Fatalf("%d callers made %d calls; want 2", len(costs), n)
				}
			}
		}
	})
}

// A lone caller's call goes at once and is a call of gcra.lua; a caller of
// another name doesn't wait for it.
//
// Promise: Concurrent calls for one name that go to the server as one decide
// as the calls one by one would, in their order; a lone caller never waits for
// others.
func TestLoneCallersDoNotWait(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g := &gate{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(g)
		l := e.limiter(t, ratelimit.PerHour(10))
		g.close()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { allow(t, l, fmt.Sprint("a", i), 1) })
		}
		await.Soon(t, "all are under way", func() bool { return len(g.sent()) == 3 })
		g.open()
		wg.Wait()
		if got := g.sent(); slices.Contains(got, "ratelimit.batch") {
			t.Errorf("sent %q", got)
		}
	})
}

// A caller whose ctx ends before its call has left takes nothing; one that has
// left may have. Neither takes the others with it.
//
// Promise: Concurrent calls for one name that go to the server as one decide
// as the calls one by one would, in their order; a lone caller never waits for
// others.
func TestCoalescedCancelled(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g := &gate{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(g)
		l := e.limiter(t, ratelimit.PerHour(10))
		g.close()
		first, stop := context.WithCancel(t.Context())
		errs := make([]chan error, 4)
		ctxs := []context.Context{first, nil, nil, nil}
		cancels := []context.CancelFunc{stop, nil, nil, nil}
		for i := range errs {
			errs[i] = make(chan error, 1)
			if i > 0 {
				ctxs[i], cancels[i] = context.WithCancel(t.Context())
			}
			go func() {
				_, err := l.Allow(ctxs[i], "a")
				errs[i] <- err
			}()
			inPlace(t, g, l, i)
		}
		cancels[1]() // in the queue
		if err := <-errs[1]; !errors.Is(err, context.Canceled) || errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("queued: %v", err)
		}
		cancels[0]() // under way, by itself
		if err := <-errs[0]; !errors.Is(err, context.Canceled) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("under way: %v", err)
		}
		await.Soon(t, "the others are under way", func() bool { return len(g.sent()) == 2 })
		cancels[2]() // under way, with others
		if err := <-errs[2]; !errors.Is(err, context.Canceled) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("under way with others: %v", err)
		}
		g.open()
		must(t, <-errs[3])
		cancels[3]()
		if d := peek(t, l, "a"); d.Remaining != 8 { // the tokens of 2 and 3: 0 was held back, and 1 never left
			t.Errorf("%s", show(d))
		}

		// When all have gone the batch is given up.
		g.close()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := l.Allow(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			inPlace(t, g, l, i)
		}
		cancel()
		wg.Wait()
		await.Soon(t, "nothing is left", func() bool { return ratelimit.UnderWay(l) == 0 })
		g.open()
	})
}

// A server that has lost its scripts gets the batch again.
func TestCoalescedAfterScriptFlush(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g := &gate{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(g)
		l := e.limiter(t, ratelimit.PerHour(100))
		for range 3 {
			g.close()
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() { allow(t, l, "a", 1) })
				inPlace(t, g, l, i)
			}
			must(t, e.Redis.ScriptFlush(t.Context()).Err())
			g.open()
			wg.Wait()
		}
		if d := peek(t, l, "a"); d.Remaining != 70 {
			t.Errorf("%s", show(d))
		}
	})
}

// Callers that wait for one that is stuck go without it when another comes.
func TestCoalescedBehindAStuckCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Conn: answering{redoubt.Reply{Val: []any{int64(1), int64(1_760_000_000_000_000), int64(0), int64(1000)}}}}
		client, err := redoubt.New(g, redoubt.Options{})
		must(t, err)
		l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(10)})
		must(t, err)
		g.close()
		stuck := g.hold
		var wg sync.WaitGroup
		wg.Go(func() { allow(t, l, "a", 1) })
		synctest.Wait()
		g.mu.Lock()
		g.hold = nil // only the first is held
		g.mu.Unlock()
		await.Advance(time.Second)
		allow(t, l, "a", 1)
		close(stuck)
		wg.Wait()
		must(t, client.Close())
		if n := ratelimit.UnderWay(l); n != 0 {
			t.Errorf("%d left", n)
		}
	})
}
