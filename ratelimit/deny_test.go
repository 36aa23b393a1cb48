//go:build !quick

package ratelimit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func denying(t *testing.T, client *redoubt.Client, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(client, ratelimit.Options{Limit: limit, DenyCache: time.Second})
	must(t, err)
	return l
}

// A refusal that is known allocates nothing.
//
// Promise: With DenyCache a flood of refused calls costs one round trip each
// RetryAfter, at most one a second, and allocates nothing.
func TestDenialsAllocateNothing(t *testing.T) {
	client, _ := withTime(t)
	l := denying(t, client, ratelimit.Limit{Rate: 1, Period: time.Hour})
	ctx := t.Context()
	if d, err := l.Allow(ctx, "user:42"); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := l.Allow(ctx, "user:42"); err != nil || d.Allowed {
			t.Fatal(d, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A flood of calls that are refused costs one call each RetryAfter, and gets all the
// tokens there are, each as soon as it is there.
//
// Promise: With DenyCache a flood of refused calls costs one round trip each
// RetryAfter, at most one a second, and allocates nothing.
func TestDeniedFlood(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		l := denying(t, client, ratelimit.Limit{Rate: 10, Period: time.Second, Burst: 1})
		start := time.Now()
		var taken []time.Duration
		for range 20_000 {
			if allow(t, l, "a", 1).Allowed {
				taken = append(taken, time.Since(start))
			}
			await.Advance(100 * time.Microsecond)
		}
		if n := sent.Commands.Load(); n > 20 {
			t.Errorf("20,000 calls in 2 s sent %d commands; want at most 20", n)
		}
		if len(taken) != 20 {
			t.Errorf("taken at %v; want 20", taken)
		}
		for i, at := range taken {
			if at != time.Duration(i)*100*time.Millisecond {
				t.Errorf("token %d taken at %v", i, at)
			}
		}
	})
}

// The same with many callers at once, on real servers: the server counts the
// commands.
//
// Promise: With DenyCache a flood of refused calls costs one round trip each
// RetryAfter, at most one a second, and allocates nothing.
func TestDeniedFloodOnServer(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		sent := &clienttest.Counter{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(sent)
		l := denying(t, e.Client, ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: 1})
		allow(t, l, "a", 1)
		sent.Commands.Store(0)
		start := time.Now()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 500 {
					if d := allow(t, l, "a", 1); d.Allowed || d.RetryAfter <= 0 {
						t.Errorf("%s", show(d))
					}
				}
			})
		}
		wg.Wait()
		if n, most := sent.Commands.Load(), int64(time.Since(start)/time.Second)+1; n > most {
			t.Errorf("16,000 calls sent %d commands in %v; want at most %d", n, time.Since(start), most)
		}
	})
}

// Answers from memory are as the server would have answered.
func TestDenialsAreTheServers(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		r := randtest.Rand(t)
		known := 0
		for i := range 100 {
			limit, name := randomLimit(r), fmt.Sprint("a", i)
			l := denying(t, client, limit)
			asks, err := ratelimit.New(client, ratelimit.Options{Limit: limit})
			must(t, err)
			allow(t, asks, name, limit.Burst)
			for range 20 {
				n := 1 + r.IntN(limit.Burst+1)
				before := sent.Commands.Load()
				got := allow(t, l, name, n)
				if sent.Commands.Load() == before {
					known++
					if want := allow(t, asks, name, n); got != want {
						t.Fatalf("%+v: %d tokens:\n got %+v\nwant %+v", limit, n, got, want)
					}
				}
				await.Advance(time.Duration(r.Int64N(int64(limit.Period)/int64(limit.Rate)/1000+1)) * time.Microsecond)
			}
		}
		if known < 100 {
			t.Errorf("%d answers from memory", known)
		}
	})
}

// Fewer tokens than were refused are asked for; as many or more are not.
func TestDenialsAreByCost(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		l := denying(t, client, ratelimit.PerHour(10))
		allow(t, l, "a", 5)
		allow(t, l, "a", 8) // refused
		for _, call := range []struct {
			n, cmds int
			allowed bool
		}{{8, 0, false}, {9, 0, false}, {11, 0, false}, {7, 1, false}, {7, 0, false}, {5, 1, true}, {1, 0, false}, {0, 1, false}} {
			before := sent.Commands.Load()
			d := allow(t, l, "a", call.n)
			if cmds := int(sent.Commands.Load() - before); d.Allowed != call.allowed || cmds != call.cmds {
				t.Errorf("%+v: %d commands, %s", call, cmds, show(d))
			}
		}
	})
}

// Whatever gives tokens back or changes the limit in this process ends a
// denial; another process' does within DenyCache.
//
// Promise: A known refusal ends at once when this process gives tokens back or
// changes the limit.
func TestDenialsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		l := denying(t, client, ratelimit.PerHour(10))
		other, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(10)})
		must(t, err)
		stored, err := ratelimit.New(client, ratelimit.Options{Stored: true, DenyCache: time.Second})
		must(t, err)
		far, err := redoubt.New(sent.Conn, redoubt.Options{})
		must(t, err)
		elsewhere, err := ratelimit.New(far, ratelimit.Options{Limit: ratelimit.PerHour(10)})
		must(t, err)
		elsewhereStored, err := ratelimit.New(far, ratelimit.Options{Stored: true})
		must(t, err)
		ctx := t.Context()
		wider := ratelimit.Limit{Rate: 10, Period: time.Hour, Burst: 20}
		calls := []struct {
			what  string
			l     *ratelimit.Limiter
			end   func(name string) error
			after time.Duration // at most
		}{
			{"Refund", l, func(name string) error { _, err := l.Refund(ctx, name, 1, ""); return err }, 0},
			{"Refund by another Limiter", l, func(name string) error { _, err := other.Refund(ctx, name, 1, ""); return err }, 0},
			{"Reset", l, func(name string) error { return other.Reset(ctx, name) }, 0},
			{"Set", stored, func(name string) error { return stored.Set(ctx, name, wider) }, 0},
			{"Refund elsewhere", l, func(name string) error { _, err := elsewhere.Refund(ctx, name, 1, ""); return err }, time.Second},
			{"Set elsewhere", stored, func(name string) error { return elsewhereStored.Set(ctx, name, wider) }, time.Second},
		}
		for _, c := range calls {
			if c.l == stored {
				must(t, stored.Set(ctx, c.what, ratelimit.PerHour(10)))
			}
			allow(t, c.l, c.what, 10)
			if d := allow(t, c.l, c.what, 1); d.Allowed {
				t.Errorf("%s: %s", c.what, show(d))
			}
			must(t, c.end(c.what))
			d := allow(t, c.l, c.what, 1)
			if d.Allowed != (c.after == 0) {
				t.Errorf("%s: at once: %s", c.what, show(d))
			}
			await.Advance(c.after)
			if d := allow(t, c.l, c.what, 0); c.after > 0 && !d.Allowed {
				t.Errorf("%s: later: %s", c.what, show(d))
			}
			if d := allow(t, c.l, c.what, 1); c.after > 0 && !d.Allowed {
				t.Errorf("%s: after %v: %s", c.what, c.after, show(d))
			}
		}
		// A Limiter with another limit is not answered by it.
		allow(t, l, "limit", 10)
		allow(t, l, "limit", 1)
		if d := allow(t, denying(t, client, wider), "limit", 1); !d.Allowed {
			t.Errorf("another limit: %s", show(d))
		}
		must(t, far.Close())
	})
}

// A refusal whose reply comes after tokens were given back is not remembered.
func TestDenialIsOvertaken(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var refunded atomic.Bool
		var l *ratelimit.Limiter
		e.Client = clienttest.New(t, leaving{clienttest.Wrap(t, e.Redis), func() {
			if refunded.CompareAndSwap(false, true) {
				_, err := l.Refund(t.Context(), "a", 1, "")
				must(t, err)
			}
		}}, e.Prefix)
		first, err := ratelimit.New(e.ClientOn(clienttest.Wrap(t, e.Redis)), ratelimit.Options{Limit: ratelimit.PerHour(1)})
		must(t, err)
		allow(t, first, "a", 1)
		l = denying(t, e.Client, ratelimit.PerHour(1))
		if d := allow(t, l, "a", 1); d.Allowed {
			t.Errorf("with no token: %s", show(d))
		}
		if d := allow(t, l, "a", 1); !d.Allowed {
			t.Errorf("after the refund: %s", show(d))
		}
	})
}

// The memory of refusals is bounded.
func TestDenialsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, _ *clienttest.Counter) {
		l := denying(t, client, ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: 1})
		for i := range ratelimit.MaxDenials + 1000 {
			ratelimit.Deny(l, fmt.Sprint("a", i))
		}
		if n := ratelimit.Denials(client); n > ratelimit.MaxDenials || n < ratelimit.MaxDenials/2 {
			t.Errorf("%d names; want at most %d", n, ratelimit.MaxDenials)
		}
	})
}
