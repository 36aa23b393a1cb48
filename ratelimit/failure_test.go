package ratelimit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// Without a server, dead or a black hole, each choice answers and says that
// it is degraded; when the server is back it decides again.
//
// Promise: While the server doesn't answer, OnFailure decides and
// Decision.Degraded says so; one call in each Timeout tries the server again.
func TestOnFailure(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const timeout = 200 * time.Millisecond
		for _, fault := range []string{"dead", "blackhole"} {
			for _, mode := range []ratelimit.FailureMode{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
				proxy := faultnet.New(t, e.Addr)
				rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: 10 * time.Second})
				t.Cleanup(func() { _ = rdb.Close() })
				l, err := ratelimit.New(clienttest.New(t, clienttest.Wrap(t, rdb), e.Prefix), ratelimit.Options{
					Limit: ratelimit.PerHour(3), OnFailure: mode, Timeout: timeout,
				})
				must(t, err)
				name := fault + string('0'+rune(mode))
				await.Soon(t, "the server decides", func() bool { return peek(t, l, name).Degraded == nil })
				if fault == "dead" {
					proxy.Refuse()
					proxy.Cut()
				} else {
					proxy.Blackhole(faultnet.ToClient | faultnet.ToServer)
				}
				allowed := 0
				const calls = 20
				for range calls {
					d := allow(t, l, name, 1)
					if d.Degraded == nil {
						t.Errorf("%s, %d: not degraded: %+v", fault, mode, d)
					}
					if d.Allowed {
						allowed++
					} else if d.RetryAfter <= 0 {
						t.Errorf("%s, %d: %+v", fault, mode, d)
					}
				}
				if want := map[ratelimit.FailureMode]int{ratelimit.FailOpen: calls, ratelimit.FailLocal: 3}[mode]; allowed != want {
					t.Errorf("%s, %d: %d of %d were allowed; want %d", fault, mode, allowed, calls, want)
				}
				for _, res := range l.AllowMany(t.Context(), []ratelimit.Request{{Name: name + "m", N: 1}, {Name: "", N: 1}}) {
					if (res.Err == nil) != (res.Degraded != nil) {
						t.Errorf("%s, %d: AllowMany: %+v", fault, mode, res)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := l.Allow(ctx, name); !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %d: the caller has gone: %v", fault, mode, err)
				}
				if fault == "dead" {
					proxy.Accept()
				} else {
					proxy.Cut()
					proxy.Heal()
				}
				await.Soon(t, "the server decides again", func() bool { return peek(t, l, name).Degraded == nil })
			}
		}
	})
}

// hole is a Conn that never answers while it is on.
type hole struct {
	redoubt.Conn
	on atomic.Bool
}

func (c *hole) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return c.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (c *hole) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if !c.on.Load() {
		return c.Conn.Pipeline(ctx, cmds)
	}
	<-ctx.Done()
	replies := make([]redoubt.Reply, len(cmds))
	for i := range replies {
		replies[i].Err = redoubt.UnknownOutcome(ctx.Err())
	}
	return replies
}

// After one call has waited in vain the others don't, but for one each Timeout,
// which finds the server when it is back.
//
// Promise: While the server doesn't answer, OnFailure decides and
// Decision.Degraded says so; one call in each Timeout tries the server again.
func TestOnFailureWaitsOnce(t *testing.T) {
	for _, mode := range []ratelimit.FailureMode{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		inBubble(t, func(t *testing.T, _ *redoubt.Client, sent *clienttest.Counter) {
			away := &hole{Conn: sent}
			client, err := redoubt.New(away, redoubt.Options{DownAfter: -1}) // the limiter's own patience
			must(t, err)
			l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(1000), OnFailure: mode})
			must(t, err)
			calls := map[string]func() ratelimit.Decision{
				"Allow":    func() ratelimit.Decision { return allow(t, l, "a", 1) },
				"AllowN 0": func() ratelimit.Decision { return peek(t, l, "a") },
				"Leased": func() ratelimit.Decision {
					h := lease(t, l, ratelimit.LeasedOptions{})
					d, err := h.Allow(t.Context(), "a")
					must(t, err)
					must(t, h.Close())
					return d
				},
				"AllowMany": func() ratelimit.Decision {
					r := l.AllowMany(t.Context(), []ratelimit.Request{{Name: "a", N: 1}, {Name: "b", N: 1}})
					must(t, errors.Join(r[0].Err, r[1].Err))
					return r[1].Decision
				},
			}
			for name, call := range calls {
				if d := call(); d.Degraded != nil {
					t.Errorf("%s: with a server: %+v", name, d)
				}
				away.on.Store(true)
				start := time.Now()
				for range 100 {
					if d := call(); d.Degraded == nil || d.Allowed == (mode == ratelimit.FailClosed) {
						t.Errorf("%s: without a server: %+v", name, d)
					}
				}
				if e := time.Since(start); e != time.Second {
					t.Errorf("%s: 100 calls waited for %v; want one Timeout", name, e)
				}
				await.Advance(time.Second)
				var waited atomic.Int64
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() {
						start := time.Now()
						if d := call(); d.Degraded == nil {
							t.Errorf("%s: still without a server: %+v", name, d)
						}
						waited.Add(int64(time.Since(start)))
					})
				}
				if wg.Wait(); waited.Load() != int64(time.Second) {
					t.Errorf("%s: of 5 calls not one tries: they waited for %v", name, time.Duration(waited.Load()))
				}
				away.on.Store(false)
				await.Advance(time.Second)
				for range 2 {
					if d := call(); d.Degraded != nil {
						t.Errorf("%s: the server is back: %+v", name, d)
					}
				}
			}
			must(t, client.Close())
		})
	}
}

// The local limit is the same one: a burst, then the rate.
//
// Promise: While the server doesn't answer, OnFailure decides and
// Decision.Degraded says so; one call in each Timeout tries the server again.
func TestOnFailureLocal(t *testing.T) {
	inBubble(t, func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter) {
		broken := &link{Conn: sent}
		broken.cut.Store(true)
		c, err := redoubt.New(broken, redoubt.Options{})
		must(t, err)
		r := randtest.Rand(t)
		for i := range 50 {
			limits := []ratelimit.Limit{randomLimit(r), randomLimit(r)}[:1+r.IntN(2)]
			own, err := ratelimit.New(client, ratelimit.Options{Limit: limits[0], And: limits[1:]})
			must(t, err)
			local, err := ratelimit.New(c, ratelimit.Options{Limit: limits[0], And: limits[1:], OnFailure: ratelimit.FailLocal})
			must(t, err)
			name := "a" + strings.Repeat("a", i)
			for range 30 {
				n := r.IntN(3)
				if r.IntN(4) == 0 {
					n = r.IntN(limits[0].Burst + 2)
				}
				want, got := allow(t, own, name, n), allow(t, local, name, n)
				if !errors.Is(got.Degraded, errCut) {
					t.Fatalf("%+v", got)
				}
				got.Degraded = nil
				if got != want {
					t.Fatalf("%+v: %d tokens:\n local %+v\nserver %+v", limits, n, got, want)
				}
				await.Advance(time.Duration(r.Int64N(int64(limits[0].Period)/int64(limits[0].Rate)/500+1)) * time.Microsecond)
			}
		}
		must(t, c.Close())
	})
}

func TestFailureOptions(t *testing.T) {
	client, _ := withTime(t)
	limit := ratelimit.PerSecond(1)
	for _, bad := range []ratelimit.Options{
		{Limit: limit, OnFailure: 9},
		{Limit: limit, OnFailure: ratelimit.FailOpen, Timeout: -1},
		{Limit: limit, Timeout: time.Second},
		{Stored: true, OnFailure: ratelimit.FailLocal},
		{Limit: limit, DenyCache: -1},
		{Limit: limit, DenyCache: 2 * time.Second},
	} {
		if _, err := ratelimit.New(client, bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	stored, err := ratelimit.New(client, ratelimit.Options{Stored: true, OnFailure: ratelimit.FailOpen})
	must(t, err)
	if _, err := stored.Allow(t.Context(), "a"); !errors.Is(err, ratelimit.ErrNotConfigured) {
		t.Errorf("no limit: %v", err)
	}
}
