package matrix

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
)

// allows wants each of several calls to be allowed, or not.
func allows(t *testing.T, allow func() (ratelimit.Decision, error), want ...bool) {
	t.Helper()
	for i, w := range want {
		if d, err := allow(); err != nil || d.Allowed != w {
			t.Errorf("call %d: %+v, %v; want allowed %v", i, d, err, w)
		}
	}
}

func limiter(t *testing.T, c *redoubt.Client, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(c, ratelimit.Options{Limit: limit})
	must(t, err)
	return l
}

func (l *library) tokenBucket(t *testing.T, name string) {
	limit := ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: 3}
	a, b := limiter(t, l.a, limit), limiter(t, l.b, limit)
	allows(t, func() (ratelimit.Decision, error) { return a.Allow(t.Context(), name) }, true, true)
	allows(t, func() (ratelimit.Decision, error) { return b.Allow(t.Context(), name) }, true, false)
	d, err := a.Info(t.Context(), name)
	if err != nil || d.Allowed || d.RetryAfter < 59*time.Minute || d.RetryAfter > time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
	must(t, b.Reset(t.Context(), name))
	allows(t, func() (ratelimit.Decision, error) { return a.AllowN(t.Context(), name, 3) }, true, false)
}

func (l *library) waitForTokens(t *testing.T, name string) {
	const interval = 50 * time.Millisecond
	limit := ratelimit.Limit{Rate: 1, Period: interval, Burst: 1}
	a, b := limiter(t, l.a, limit), limiter(t, l.b, limit)
	began := time.Now()
	for _, x := range []*ratelimit.Limiter{a, b, a, b} {
		must(t, x.Wait(within(t), name))
	}
	if took := time.Since(began); took < 3*interval {
		t.Errorf("four tokens, one each %v, were there after %v", interval, took)
	}
}

func (l *library) window(t *testing.T, name string) {
	o := ratelimit.WindowOptions{Limit: ratelimit.PerHour(3)}
	a, err := ratelimit.NewWindow(l.a, o)
	must(t, err)
	b, err := ratelimit.NewWindow(l.b, o)
	must(t, err)
	allows(t, func() (ratelimit.Decision, error) { return a.Allow(t.Context(), name) }, true, true)
	allows(t, func() (ratelimit.Decision, error) { return b.Allow(t.Context(), name) }, true, false)
}

func (l *library) quota(t *testing.T, name string) {
	o := ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 3, Per: ratelimit.Year}}
	a, err := ratelimit.NewQuota(l.a, o)
	must(t, err)
	b, err := ratelimit.NewQuota(l.b, o)
	must(t, err)
	allows(t, func() (ratelimit.Decision, error) { return a.Allow(t.Context(), name) }, true, true)
	allows(t, func() (ratelimit.Decision, error) { return b.Allow(t.Context(), name) }, true, false)
}

func (l *library) concurrency(t *testing.T, name string) {
	o := ratelimit.ConcurrencyOptions{Limit: 2, TTL: lease}
	a, err := ratelimit.NewConcurrency(l.a, o)
	must(t, err)
	b, err := ratelimit.NewConcurrency(l.b, o)
	must(t, err)
	var calls []*ratelimit.Call
	begin := func(c *ratelimit.Concurrency) func() (ratelimit.Decision, error) {
		return func() (ratelimit.Decision, error) {
			call, d, err := c.Begin(t.Context(), name)
			calls = append(calls, call)
			return d, err
		}
	}
	allows(t, begin(a), true)
	allows(t, begin(b), true, false)
	must(t, calls[0].End(t.Context()))
	allows(t, begin(b), true)
}

func (l *library) leasedTokens(t *testing.T, name string) {
	const all, ahead = 20, 5
	limit := ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: all}
	var holders []*ratelimit.Leased
	for _, c := range []*redoubt.Client{l.a, l.b} {
		x, err := ratelimit.NewLeased(limiter(t, c, limit), ratelimit.LeasedOptions{Tokens: ahead, TTL: lease})
		must(t, err)
		holders = append(holders, x)
	}
	allowed := 0
	for range 2 * all {
		for _, x := range holders {
			d, err := x.Allow(t.Context(), name)
			must(t, err)
			if d.Allowed {
				allowed++
			}
		}
	}
	if allowed != all {
		t.Errorf("%d calls were allowed, want %d", allowed, all)
	}
	for _, x := range holders {
		must(t, x.Close())
	}
}

func (l *library) stockSold(t *testing.T, name string) {
	a, err := stock.New(l.a, stock.Options{})
	must(t, err)
	b, err := stock.New(l.b, stock.Options{})
	must(t, err)
	_, err = a.Set(t.Context(), name, 3)
	must(t, err)
	x, short, err := a.Reserve(t.Context(), name, 2)
	if x == nil {
		t.Fatalf("%+v, %v", short, err)
	}
	if y, short, err := b.Reserve(t.Context(), name, 2); y != nil || short == nil || short.Available != 1 || err != nil {
		t.Errorf("two of one: %+v, %+v, %v", y, short, err)
	}
	must(t, b.Commit(t.Context(), name, x.ID))
	must(t, a.Commit(t.Context(), name, x.ID)) // again
	y, short, err := b.Reserve(t.Context(), name, 1)
	if y == nil {
		t.Fatalf("%+v, %v", short, err)
	}
	must(t, a.Cancel(t.Context(), name, y.ID))
	info, err := b.Info(t.Context(), name)
	if info.Sold != 2 || info.Available != 1 || info.Reserved != 0 || info.Total != 3 || err != nil {
		t.Errorf("%+v, %v", info, err)
	}
}

func (l *library) stockRunsOut(t *testing.T, name string) {
	a, err := stock.New(l.a, stock.Options{})
	must(t, err)
	b, err := stock.New(l.b, stock.Options{})
	must(t, err)
	_, err = a.Set(t.Context(), name, 1)
	must(t, err)
	x, short, err := a.ReserveRequest(t.Context(), name, stock.Request{N: 1, TTL: 200 * time.Millisecond})
	if x == nil {
		t.Fatalf("%+v, %v", short, err)
	}
	await.Soon(t, "the reservation runs out", func() bool {
		y, _, err := b.Reserve(t.Context(), name, 1)
		must(t, err)
		return y != nil
	})
	expect.Is(t, a.Commit(t.Context(), name, x.ID), stock.ErrExpired)
}
