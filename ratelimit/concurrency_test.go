package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func (e *env) concurrency(t *testing.T, opts ratelimit.ConcurrencyOptions) *ratelimit.Concurrency {
	t.Helper()
	c, err := ratelimit.NewConcurrency(e.Client, opts)
	must(t, err)
	return c
}

func begin(t *testing.T, c *ratelimit.Concurrency) (*ratelimit.Call, ratelimit.Decision) {
	t.Helper()
	call, d, err := c.Begin(t.Context(), "a")
	must(t, err)
	if d.Allowed != (call != nil) || d.Allowed != (d.Taken == 1) || d.Allowed != (d.Violated < 0) {
		t.Fatalf("%v with %+v", call, d)
	}
	return call, d
}

// Never more calls than the limit at a time, from many callers.
//
// Promise: No more calls of a Concurrency than its limit are under way, unless
// one is still at work that was not extended for a TTL.
func TestConcurrencyLimit(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const limit = 3
		c := e.concurrency(t, ratelimit.ConcurrencyOptions{Limit: limit})
		var under, most, ran, refused atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 20 {
					d, err := c.Do(t.Context(), "a", func(context.Context) error {
						n := under.Add(1)
						defer under.Add(-1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						ran.Add(1)
						return e.Redis.Ping(t.Context()).Err() // long enough for others to come
					})
					if err != nil {
						t.Error(err)
					}
					if !d.Allowed {
						refused.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if most.Load() > limit || ran.Load()+refused.Load() != 320 || ran.Load() < 20 {
			t.Errorf("%d at once, %d ran, %d were refused", most.Load(), ran.Load(), refused.Load())
		}
		if _, d := begin(t, c); d.Remaining != limit-1 {
			t.Errorf("after all: %+v", d)
		}
	})
}

// The calls of a dead process come back with their TTL; a living process extends them.
//
// Promise: No more calls of a Concurrency than its limit are under way, unless
// one is still at work that was not extended for a TTL.
func TestConcurrencyLeases(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		c := e.concurrency(t, ratelimit.ConcurrencyOptions{Limit: 2, TTL: time.Minute})
		dead, _ := begin(t, c)
		e.Clock.Advance(20 * time.Second)
		alive, _ := begin(t, c)
		e.Clock.Advance(30 * time.Second)
		if _, d := begin(t, c); d.Allowed || d.RetryAfter != 10*time.Second || d.Remaining != 0 {
			t.Errorf("a third: %+v", d)
		}
		if ok, err := alive.Extend(t.Context()); err != nil || !ok {
			t.Errorf("extend: %v, %v", ok, err)
		}
		e.Clock.Advance(10 * time.Second)
		third, d := begin(t, c)
		if third == nil || d.Remaining != 0 {
			t.Errorf("when the first is over: %+v", d)
		}
		if ok, err := dead.Extend(t.Context()); err != nil || ok {
			t.Errorf("extend of what is over: %v, %v", ok, err)
		}
		must(t, dead.End(t.Context())) // ends nobody else's
		e.Clock.Advance(49 * time.Second)
		if _, d := begin(t, c); d.Allowed {
			t.Errorf("while the extended lasts: %+v", d)
		}
		must(t, third.End(t.Context()))
		must(t, third.End(t.Context()))
		if _, d := begin(t, c); !d.Allowed || d.Remaining != 0 {
			t.Errorf("after the end of one: %+v", d)
		}
	})
}

// A lost reply costs no place: the call is begun once.
func TestConcurrencyLostReply(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		e.Client = e.ClientAt(proxy.Addr())
		c := e.concurrency(t, ratelimit.ConcurrencyOptions{Limit: 10})
		begin(t, c)
		proxy.SwallowNextReply()
		if _, d := begin(t, c); d.Remaining != 8 {
			t.Errorf("after a lost reply: %+v", d)
		}
	})
}

// Do prolongs its call, and ends fn's ctx when the call is lost.
//
// Promise: No more calls of a Concurrency than its limit are under way, unless
// one is still at work that was not extended for a TTL.
func TestConcurrencyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		c, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
		must(t, err)
		own := errors.New("own")
		d, err := c.Do(t.Context(), "a", func(ctx context.Context) error {
			<-time.After(10 * time.Minute) // by the clock of the bubble
			if _, d := begin(t, c); d.Allowed || ctx.Err() != nil {
				t.Errorf("after 10 minutes: %+v, %v", d, ctx.Err())
			}
			return own
		})
		if !d.Allowed || !errors.Is(err, own) {
			t.Errorf("%+v, %v", d, err)
		}
		_, err = c.Do(t.Context(), "a", func(ctx context.Context) error {
			must(t, client.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{"rd:{a}:calls"}}).Err)
			<-ctx.Done()
			return own
		})
		if !errors.Is(err, ratelimit.ErrCallLost) || !errors.Is(err, own) {
			t.Errorf("lost: %v", err)
		}
		must(t, client.Close())
		must(t, e.Close())
	})
}

// TestCallKeep: a call that is kept lasts until it is ended, once.
func TestCallKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		c, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
		must(t, err)
		call, _ := begin(t, c)
		ctx, end := call.KeepAlive(t.Context())
		<-time.After(10 * time.Minute) // by the clock of the bubble
		if _, d := begin(t, c); d.Allowed || ctx.Err() != nil {
			t.Errorf("after 10 minutes: %+v, %v", d, ctx.Err())
		}
		end()
		next, _ := begin(t, c)
		end()
		if held, err := next.Extend(t.Context()); !held || err != nil || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the next: %v, %v; cause %v", held, err, context.Cause(ctx))
		}
		must(t, client.Close())
		must(t, e.Close())
	})
}

// A process that can't extend a call hears of it before another may take its place, however
// the server is silent: from the beginning, or after it has been prolonged.
func TestCallLostInTime(t *testing.T) {
	for silentAfter, ends := range map[time.Duration]time.Duration{
		0: 30 * time.Second, time.Second: 30 * time.Second, 25 * time.Second: 50 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			e, err := engine.Open(t.Context(), engine.Options{})
			must(t, err)
			away := &hole{Conn: e}
			client, err := redoubt.New(away, redoubt.Options{})
			must(t, err)
			c, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 30 * time.Second})
			must(t, err)
			start := time.Now()
			_, err = c.Do(t.Context(), "a", func(ctx context.Context) error {
				await.Advance(silentAfter)
				away.on.Store(true)
				<-ctx.Done()
				if e := time.Since(start); e != ends {
					t.Errorf("silent after %v: ended after %v; want %v, 30 s after it was last prolonged", silentAfter, e, ends)
				}
				away.on.Store(false)
				return nil
			})
			if !errors.Is(err, ratelimit.ErrCallLost) {
				t.Error(err)
			}
			must(t, client.Close())
			must(t, e.Close())
		})
	}
}

// A call that is kept late in its TTL is prolonged at once.
func TestCallKeptLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		c, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 30 * time.Second})
		must(t, err)
		call, _ := begin(t, c)
		await.Advance(29 * time.Second)
		ctx, end := call.KeepAlive(t.Context())
		await.Advance(2 * time.Second)
		if _, d := begin(t, c); d.Allowed || ctx.Err() != nil {
			t.Errorf("%+v, %v", d, ctx.Err())
		}
		end()
		must(t, client.Close())
		must(t, e.Close())
	})
}
