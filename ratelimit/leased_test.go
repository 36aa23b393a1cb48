package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func lease(t testing.TB, l *ratelimit.Limiter, opts ratelimit.LeasedOptions) *ratelimit.Leased {
	t.Helper()
	leased, err := ratelimit.NewLeased(l, opts)
	must(t, err)
	return leased
}

// usage is when tokens were used.
type usage struct {
	mu sync.Mutex
	at []time.Duration
}

// keeps fails if more was used in any time than Leased promises, some slack for
// what the clocks of a test are off.
func (u *usage) keeps(t *testing.T, limit ratelimit.Limit, holders int, opts ratelimit.LeasedOptions, slack time.Duration) {
	t.Helper()
	interval := limit.Period / time.Duration(limit.Rate)
	late := min(time.Duration(holders*opts.Tokens)*interval, opts.TTL) + slack
	for i := range u.at {
		for j := i; j < len(u.at); j++ {
			used, w := j-i+1, u.at[j]-u.at[i]
			if over := time.Duration(used-limit.Burst)*interval - w - late; over > 0 {
				t.Fatalf("%+v, %d holders of %+v: %d tokens in %v: %v too many", limit, holders, opts, used, w, over)
			}
		}
	}
}

// Whatever the holders do, and when they crash or give back, no more is used
// than B + rW + min(N·k, r·ttl). The clock of the server and of the holders is
// that of the bubble.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasesKeepTheirBound(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	beyond := 0
	for range thorough(60, 25) {
		rate := 1 + r.IntN(50)
		limit := ratelimit.Limit{Rate: rate, Period: time.Second, Burst: 1 + r.IntN(100)}
		opts := ratelimit.LeasedOptions{Tokens: 1 + r.IntN(limit.Burst)}
		opts.TTL = time.Millisecond + time.Duration(r.Int64N(int64(opts.Tokens)*int64(time.Second)/int64(rate)))
		holders := 1 + r.IntN(6)
		synctest.Test(t, func(t *testing.T) {
			e, err := engine.Open(t.Context(), engine.Options{})
			must(t, err)
			all, links := make([]*ratelimit.Leased, holders), make([]*link, holders)
			join := func(i int) {
				links[i] = &link{Conn: e}
				client, err := redoubt.New(links[i], redoubt.Options{})
				must(t, err)
				l, err := ratelimit.New(client, ratelimit.Options{Limit: limit})
				must(t, err)
				all[i] = lease(t, l, opts)
			}
			for i := range all {
				join(i)
			}
			var u usage
			start := time.Now()
			for range 150 {
				i := r.IntN(holders)
				use := func(i, n int) bool {
					steps.Begin(func() string { return fmt.Sprintf("take %d by holder %d of %+v, %+v", n, i, limit, opts) })
					d, err := all[i].AllowN(t.Context(), "a", n)
					must(t, err)
					if !d.Allowed && d.RetryAfter <= 0 {
						t.Fatalf("refused: %s", show(d))
					}
					for range d.Taken {
						u.at = append(u.at, time.Since(start))
					}
					return d.Allowed
				}
				switch r.IntN(8) {
				case 0: // a flood, all at once
					for i := range all {
						for use(i, 1) {
							continue
						}
					}
				case 1: // if that is refused it keeps what there was
					use(i, opts.Tokens)
				default: // a call now and then keeps a lease from being idle
					for i := range all {
						use(i, 1)
					}
				}
				switch r.IntN(12) {
				case 0: // an orderly end
					must(t, all[i].Close())
					join(i)
				case 1: // a crash: its tokens are lost
					links[i].cut.Store(true)
					_ = all[i].Close() // stops its timer
					join(i)
				}
				await.Advance(lull(r, opts.TTL))
				synctest.Wait()
			}
			u.keeps(t, limit, holders, opts, time.Microsecond)
			if len(u.at) > limit.Burst {
				beyond++
			}
			for _, h := range all {
				must(t, h.Close())
			}
			must(t, e.Close())
		})
	}
	if beyond == 0 {
		t.Error("no run used more than its burst")
	}
}

// lull is short as a rule, so that leases are in use until they lapse.
func lull(r *rand.Rand, ttl time.Duration) time.Duration {
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return time.Duration(r.Int64N(int64(ttl)))
	}
	return time.Duration(r.Int64N(int64(ttl) / 4))
}

// link is a Conn that can be cut.
type link struct {
	redoubt.Conn
	cut atomic.Bool
}

var errCut = errors.New("cut")

func (c *link) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.cut.Load() {
		return redoubt.Reply{Err: errCut}
	}
	return c.Conn.Do(ctx, cmd)
}

func (c *link) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if !c.cut.Load() {
		return c.Conn.Pipeline(ctx, cmds)
	}
	replies := make([]redoubt.Reply, len(cmds))
	for i := range replies {
		replies[i].Err = errCut
	}
	return replies
}

// Holders on a real server, all as fast as they can: they keep the bound, get
// the rate, and ask the server seldom.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasedHolders(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const holders = 4
		limit := ratelimit.Limit{Rate: 2000, Period: time.Second, Burst: 400}
		opts := ratelimit.LeasedOptions{Tokens: 50, TTL: 100 * time.Millisecond}
		var u usage
		var wg sync.WaitGroup
		start := time.Now()
		var first, last time.Duration
		for range holders {
			client := clienttest.New(t, clienttest.Wrap(t, e.Redis), e.Prefix)
			l, err := ratelimit.New(client, ratelimit.Options{Limit: limit})
			must(t, err)
			h := lease(t, l, opts)
			wg.Go(func() {
				for time.Since(start) < 700*time.Millisecond {
					d, err := h.Allow(t.Context(), "a")
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						u.mu.Lock()
						u.at = append(u.at, time.Since(start))
						u.mu.Unlock()
						continue
					}
					<-time.After(d.RetryAfter)
				}
				must(t, h.Close())
			})
		}
		wg.Wait()
		first, last = u.at[0], u.at[len(u.at)-1]
		// An answer and the time when it is noted differ by the time that the scheduler takes.
		u.keeps(t, limit, holders, opts, 100*time.Millisecond)
		least := int((last - first).Seconds() * float64(limit.Rate) * 0.7)
		if len(u.at) < least {
			t.Errorf("%d tokens in %v; want %d at least", len(u.at), last-first, least)
		}
	})
}

// However busy a lease is, its tokens lapse a TTL after they were asked for.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasesLapse(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(100)})
		must(t, err)
		h := lease(t, l, ratelimit.LeasedOptions{Tokens: 40, TTL: time.Minute})
		for _, c := range []struct {
			after time.Duration
			asks  bool
		}{{0, true}, {20 * time.Second, false}, {20 * time.Second, false}, {20*time.Second - 1, false}, {1, true}} {
			await.Advance(c.after)
			before := sent.Commands.Load()
			if d, err := h.Allow(t.Context(), "a"); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
			if asks := sent.Commands.Load() != before; asks != c.asks {
				t.Errorf("after %v more: asks the server: %v", c.after, asks)
			}
		}
		must(t, h.Close())
	})
}

// A hundred calls cost at most two round trips with leases of a hundred.
//
// Promise: A local decision of a Leased allocates nothing and saves round
// trips.
func TestLeasesSaveRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		counted := &clienttest.Counter{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(counted)
		h := lease(t, e.limiter(t, ratelimit.PerHour(1_000_000)), ratelimit.LeasedOptions{Tokens: 100, TTL: time.Minute})
		const calls = 10_000
		for range calls {
			d, err := h.Allow(t.Context(), "a")
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		if n := counted.Commands.Load(); n > calls/50 {
			t.Errorf("%d calls took %d round trips; want at most %d", calls, n, calls/50)
		}
		must(t, h.Close())
	})
}

// Unused tokens come back: after a Close, and when they have lain for half a
// TTL. The tokens of a crashed holder come back with time alone.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasesGiveBack(t *testing.T) {
	bubble(t, ratelimit.Options{Limit: ratelimit.PerHour(100)}, func(t *testing.T, l *ratelimit.Limiter) {
		opts := ratelimit.LeasedOptions{Tokens: 40, TTL: time.Minute}
		take := func(h *ratelimit.Leased, n int) ratelimit.Decision {
			t.Helper()
			d, err := h.AllowN(t.Context(), "a", n)
			must(t, err)
			return d
		}
		h := lease(t, l, opts)
		if d := take(h, 10); !d.Allowed || d.Taken != 10 || d.Remaining != 90 {
			t.Errorf("10: %+v", d)
		}
		if d := peek(t, l, "a"); d.Remaining != 60 {
			t.Errorf("leased: %s", show(d))
		}
		if d := take(h, 30); !d.Allowed || d.Remaining != 60 {
			t.Errorf("all of the lease: %+v", d)
		}
		if d := take(h, 1); !d.Allowed || d.Remaining != 59 { // 30 more: half of what is left
			t.Errorf("a second lease: %+v", d)
		}
		if d := peek(t, l, "a"); d.Remaining != 30 {
			t.Errorf("leased: %s", show(d))
		}
		must(t, h.Close())
		must(t, h.Close())
		if d := peek(t, l, "a"); d.Remaining != 59 {
			t.Errorf("after Close: %s", show(d))
		}
		for _, n := range []int{0, opts.Tokens + 1} { // the Limiter's work
			if d, err := h.AllowN(t.Context(), "a", n); !errors.Is(err, redoubt.ErrClosed) {
				t.Errorf("%d after Close: %+v, %v", n, d, err)
			}
		}
		if _, err := h.Info(t.Context(), "a"); !errors.Is(err, redoubt.ErrClosed) {
			t.Errorf("Info after Close: %v", err)
		}
		if err := h.Flush(t.Context()); !errors.Is(err, redoubt.ErrClosed) {
			t.Errorf("Flush after Close: %v", err)
		}
		if _, err := h.Allow(t.Context(), "a"); !errors.Is(err, redoubt.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}

		h = lease(t, l, opts)
		take(h, 9) // of 29
		await.Advance(31 * time.Second)
		synctest.Wait()
		if d := peek(t, l, "a"); d.Remaining != 50 {
			t.Errorf("after half a TTL: %s", show(d))
		}
		if d := take(h, 40); !d.Allowed {
			t.Errorf("more than half of what is left, when it is needed: %s", show(d))
		}
		if d := take(h, 20); d.Allowed || d.Taken != 0 || d.RetryAfter <= 0 || d.Remaining != 10 {
			t.Errorf("more than there is: %+v", d)
		}
		if d := take(h, 10); !d.Allowed {
			t.Errorf("all there is: %s", show(d))
		}
		must(t, h.Close())
	})
}

// Flush gives back what is not used, and the holder goes on.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasedFlush(t *testing.T) {
	bubble(t, ratelimit.Options{Limit: ratelimit.PerHour(100)}, func(t *testing.T, l *ratelimit.Limiter) {
		h := lease(t, l, ratelimit.LeasedOptions{Tokens: 40, TTL: time.Minute})
		for _, left := range []int{99, 98} {
			if d, err := h.Allow(t.Context(), "a"); err != nil || !d.Allowed || d.Remaining != left {
				t.Errorf("%+v, %v; want %d left", d, err, left)
			}
			if info, err := h.Info(t.Context(), "a"); err != nil || info.Remaining >= left || info.Limits[0] != ratelimit.PerHour(100) {
				t.Errorf("leased: %+v, %v; want fewer than %d on the server", info, err, left)
			}
			must(t, h.Flush(t.Context()))
			must(t, h.Flush(t.Context()))
			if d := peek(t, l, "a"); d.Remaining != left {
				t.Errorf("after Flush: %s; want %d left", show(d), left)
			}
		}
		must(t, h.Close())
		if err := h.Flush(t.Context()); !errors.Is(err, redoubt.ErrClosed) {
			t.Errorf("Flush after Close: %v, want %v", err, redoubt.ErrClosed)
		}
	})
}

// A local decision allocates nothing.
//
// Promise: A local decision of a Leased allocates nothing and saves round
// trips.
func TestLeasedAllocatesNothing(t *testing.T) {
	client, _ := withTime(t)
	l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(1_000_000)})
	must(t, err)
	h := lease(t, l, ratelimit.LeasedOptions{Tokens: 100_000, TTL: time.Hour})
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := h.Allow(ctx, "user:42"); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	must(t, h.Close())
}

func TestLeasedOptions(t *testing.T) {
	client, _ := withTime(t)
	l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(10)})
	must(t, err)
	for _, bad := range []ratelimit.LeasedOptions{{Tokens: 11}, {Tokens: -1}, {TTL: -1}, {TTL: time.Microsecond}} {
		if _, err := ratelimit.NewLeased(l, bad); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := ratelimit.NewLeased(nil, ratelimit.LeasedOptions{}); err == nil {
		t.Error("no Limiter: no error")
	}
	h := lease(t, l, ratelimit.LeasedOptions{})
	for _, call := range []func() error{
		func() error { _, err := h.AllowN(t.Context(), "a", -1); return err },
		func() error { _, err := h.Allow(t.Context(), ""); return err },
	} {
		if call() == nil {
			t.Error("no error")
		}
	}
	// More than a lease is asked of the Limiter.
	if d, err := h.AllowN(t.Context(), "a", 11); err != nil || d.RetryAfter != ratelimit.Never {
		t.Errorf("%+v, %v", d, err)
	}
	must(t, h.Close())
}

// Tokens that lay in a lease have come back by themselves meanwhile, and others
// have taken them: a return of all of them would let more be used than B + rW +
// r·ttl.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasesReturnNothingTwice(t *testing.T) {
	limit := ratelimit.Limit{Rate: 1, Period: time.Second, Burst: 100}
	bubble(t, ratelimit.Options{Limit: limit}, func(t *testing.T, l *ratelimit.Limiter) {
		opts := ratelimit.LeasedOptions{Tokens: 100, TTL: time.Minute}
		var u usage
		start := time.Now()
		var h [4]*ratelimit.Leased
		use := func(i, n int) bool {
			d, err := h[i].AllowN(t.Context(), "a", n)
			must(t, err)
			for range d.Taken {
				u.at = append(u.at, time.Since(start))
			}
			return d.Allowed
		}
		// hold leases all there is: what is refused keeps what it got.
		hold := func(i int) {
			h[i] = lease(t, l, opts)
			use(i, 1)
			use(i, 100)
		}
		at := func(tenths int64) {
			await.Advance(time.Until(start.Add(time.Duration(tenths) * 100 * time.Millisecond)))
		}
		hold(0)
		at(290)
		use(0, 1) // or else it is idle
		at(580)
		use(0, 1)
		at(598)
		hold(1)
		at(599)
		must(t, h[0].Close())
		hold(2)
		at(890)
		use(1, 1)
		use(2, 1)
		at(1180)
		use(1, 1)
		use(2, 1)
		at(1196)
		hold(3)
		for i := 1; i < 4; i++ {
			for use(i, 1) {
				continue
			}
		}
		u.keeps(t, limit, len(h), opts, time.Microsecond)
		if len(u.at) < 120 {
			t.Errorf("used %d", len(u.at))
		}
		for _, h := range h {
			must(t, h.Close())
		}
	})
}

// A call that asks for more takes part in what others use meanwhile: it asks
// again, and is not refused what the server has.
func TestLeaseUsedMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g := &gate{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(g)
		h := lease(t, e.limiter(t, ratelimit.PerHour(1000)), ratelimit.LeasedOptions{Tokens: 10, TTL: time.Minute})
		take := func(n int) ratelimit.Decision {
			d, err := h.AllowN(t.Context(), "a", n)
			if err != nil {
				t.Error(err)
			}
			return d
		}
		take(7) // 3 are left
		g.close()
		got := make(chan ratelimit.Decision)
		go func() { got <- take(10) }()
		await.Soon(t, "it asks for 7 more", func() bool { return len(g.sent()) == 1 })
		take(3)
		g.open()
		if d := <-got; !d.Allowed || d.Taken != 10 {
			t.Errorf("%+v", d)
		}
		must(t, h.Close())
	})
}

// Tokens go back as what they were when they were taken, whatever the limit has
// become: one of 1000 a second is not worth one of 1 a second.
//
// Promise: N holders of leased tokens use in any time W at most B + r·W +
// min(N·k, r·TTL) tokens; unused tokens go back once, less what has come back
// by itself.
func TestLeasesOfAChangedLimit(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		l := e.storedLimiter(t)
		opts := ratelimit.LeasedOptions{Tokens: 100, TTL: time.Hour}
		idle, busy := lease(t, l, opts), lease(t, l, opts)
		must(t, l.Set(ctx, "a", ratelimit.PerSecond(1000)))
		for _, h := range []*ratelimit.Leased{idle, busy} {
			_, err := h.Allow(ctx, "a")
			must(t, err)
			if d, err := h.AllowN(ctx, "a", 90); err != nil || !d.Allowed { // 9 are left
				t.Fatalf("%+v, %v", d, err)
			}
		}
		must(t, l.Set(ctx, "a", ratelimit.Limit{Rate: 1, Period: time.Second, Burst: 200}))
		d, err := busy.AllowN(ctx, "a", 100) // 91 of them, and then 9 in place of the old limit's
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err = l.TakeUpTo(ctx, "a", 1000); err != nil || d.Taken < 90 {
			t.Fatalf("%+v, %v", d, err)
		}
		must(t, idle.Close())
		must(t, busy.Close())
		if d := peek(t, l, "a"); d.Remaining != 0 {
			t.Errorf("%s", show(d))
		}
	})
}
