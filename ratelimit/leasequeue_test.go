//go:build !quick

package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// distant is a Conn whose server takes a millisecond to reach.
type distant struct{ redoubt.Conn }

func (d distant) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	await.Advance(time.Millisecond)
	return d.Conn.Do(ctx, cmd)
}

func (d distant) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	await.Advance(time.Millisecond)
	return d.Conn.Pipeline(ctx, cmds)
}

// No caller that waits for more tokens takes the tokens of another, and the second
// call asks for all of them. Tokens for a caller that has left go back.
//
// Promise: Callers that wait while a Leased asks for more tokens are served in
// turn, and one call asks for all of them.
func TestLeasedServesInTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, near *redoubt.Client, sent *clienttest.Counter) {
		client := clienttest.New(t, distant{sent}, "rd")
		opts := ratelimit.Options{Limit: ratelimit.PerHour(100)}
		l, err := ratelimit.New(client, opts)
		must(t, err)
		h := lease(t, l, ratelimit.LeasedOptions{Tokens: 2, TTL: time.Hour})
		start := time.Now()
		var mu sync.Mutex
		var order []int
		var after []time.Duration
		call := func(ctx context.Context, i int) {
			d, err := h.Allow(ctx, "a")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && d.Allowed:
				order, after = append(order, i), append(after, time.Since(start))
			case !errors.Is(err, context.Canceled):
				t.Error(i, d, err)
			}
		}
		for i := range 8 {
			go call(t.Context(), i)
			synctest.Wait() // it has left, or queues
		}
		await.Advance(10 * time.Millisecond)
		synctest.Wait()
		const ms = time.Millisecond
		if want := []time.Duration{ms, ms, 2 * ms, 2 * ms, 2 * ms, 2 * ms, 2 * ms, 2 * ms}; !slices.Equal(after, want) {
			t.Errorf("8 callers with leases of 2 had theirs after %v; want %v", after, want)
		}
		if n := sent.Commands.Load(); n != 2 {
			t.Errorf("%d calls of the server; want 2", n)
		}
		// Callers with an answer at the same time are woken in any order.
		if slices.Sort(order[:2]); !slices.Equal(order[:2], []int{0, 1}) {
			t.Errorf("served in the order %v", order)
		}

		// Of five, two are served, and a call for three is on the way when two leave.
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 6 {
			if i < 3 {
				go call(t.Context(), i)
			} else {
				go call(ctx, i)
			}
			synctest.Wait()
		}
		await.Advance(3 * ms / 2)
		cancel()
		await.Advance(10 * ms)
		synctest.Wait()
		if len(order) != 11 {
			t.Errorf("%d were served; want 11", len(order))
		}
		exact, err := ratelimit.New(near, opts)
		must(t, err)
		d, err := exact.Info(t.Context(), "a")
		must(t, err)
		if d.Remaining != 100-11-2 {
			t.Errorf("%d are left; want %d: 11 are used and 2 are leased", d.Remaining, 100-11-2)
		}
		must(t, h.Close())
		must(t, client.Close())
	})
}

// A waiter that leaves when it is its turn to ask passes the turn to the next waiter. A
// call that fails does so too.
func TestLeasedPassesTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redoubt.Client, sent *clienttest.Counter) {
		client := clienttest.New(t, distant{sent}, "rd")
		l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(100)})
		must(t, err)
		h := lease(t, l, ratelimit.LeasedOptions{Tokens: 1, TTL: time.Hour})
		first, give := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			ctx, want := t.Context(), error(nil)
			if i < 2 {
				ctx, want = first, context.Canceled
			}
			wg.Go(func() {
				if d, err := h.Allow(ctx, "a"); !errors.Is(err, want) || d.Allowed != (want == nil) {
					t.Errorf("caller %d: %+v, %v; want %v", i, d, err, want)
				}
			})
			synctest.Wait()
		}
		give()
		wg.Wait()
		must(t, h.Close())
		must(t, client.Close())
	})
}

// A lease that is made while others are looked at is looked at the next time.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeaseMadeDuringASweep(t *testing.T) {
	client, _ := withTime(t)
	l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(100)})
	must(t, err)
	h := lease(t, l, ratelimit.LeasedOptions{TTL: time.Hour})
	_, err = h.Allow(t.Context(), "a")
	must(t, err)
	ratelimit.DuringSweep(h, func() {
		await.Soon(t, "a lease made now sets the timer", func() bool { return !ratelimit.SweepDue(h) })
	})
	if !ratelimit.SweepDue(h) {
		t.Error("there is a lease, and no sweep is to come")
	}
	must(t, h.Close())
}

// Close waits for tokens that are on their way back.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasedCloseWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, near *redoubt.Client, sent *clienttest.Counter) {
		client := clienttest.New(t, distant{sent}, "rd")
		opts := ratelimit.Options{Limit: ratelimit.PerHour(100)}
		l, err := ratelimit.New(client, opts)
		must(t, err)
		exact, err := ratelimit.New(near, opts)
		must(t, err)
		h := lease(t, l, ratelimit.LeasedOptions{Tokens: 10, TTL: 2 * time.Minute})
		_, err = h.Allow(t.Context(), "a")
		must(t, err)
		before := sent.Commands.Load()
		await.Advance(time.Minute - time.Millisecond/2) // to half a ms after half a TTL
		synctest.Wait()
		if n := sent.Commands.Load(); n != before {
			t.Fatal("they have gone back already")
		}
		must(t, h.Close())
		d, err := exact.Info(t.Context(), "a")
		must(t, err)
		if d.Remaining != 99 {
			t.Errorf("after Close %d are left; want 99", d.Remaining)
		}
		must(t, client.Close())
	})
}
