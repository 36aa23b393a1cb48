package ratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// Several limits at once decide as the same limits apart would: a call passes
// when each of them has the tokens, and what is refused takes from none.
//
// Promise: With several limits a call takes from all of them or from none.
func TestSeveralLimits(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range thorough(60, 24) {
			limits := make([]ratelimit.Limit, 1+r.IntN(ratelimit.MaxLimits))
			apart := make([]*ratelimit.Limiter, len(limits))
			for k := range limits {
				limits[k] = randomLimit(r)
				apart[k] = e.limiter(t, limits[k])
			}
			l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limits[0], And: limits[1:]})
			must(t, err)
			name := fmt.Sprint("a", i)
			for range 40 {
				e.Clock.Advance(time.Duration(r.Int64N(int64(limits[0].Period)/1000/int64(limits[0].Rate)+2)) * time.Microsecond)
				n := r.IntN(4)
				each := make([]ratelimit.Decision, len(limits))
				want, violated, remaining := true, -1, 1<<62
				var retry time.Duration
				for k, a := range apart {
					// Nothing is taken: more than the burst tells what n would get.
					p := peek(t, a, fmt.Sprint(name, ".", k))
					each[k] = p
					remaining = min(remaining, p.Remaining)
					if p.Remaining < max(n, 1) {
						want = false
					}
				}
				d := allow(t, l, name, n)
				if d.Allowed != want {
					t.Fatalf("%+v: %d tokens: %s; apart %+v", limits, n, show(d), each)
				}
				if want && n > 0 {
					remaining = 1 << 62
					for k, a := range apart {
						remaining = min(remaining, allow(t, a, fmt.Sprint(name, ".", k), n).Remaining)
					}
				}
				if !want {
					for k, a := range apart {
						if each[k].Remaining >= max(n, 1) {
							continue
						}
						one := allow(t, a, fmt.Sprint(name, ".", k), max(n, 1))
						if one.Allowed {
							t.Fatal("a limit apart changed its mind")
						}
						if one.RetryAfter == ratelimit.Never {
							retry, violated = ratelimit.Never, k
							break
						}
						if one.RetryAfter > retry {
							retry, violated = one.RetryAfter, k
						}
					}
				}
				if d.Remaining != remaining || d.RetryAfter != retry || d.Violated != violated || d.Taken != map[bool]int{true: n}[want] {
					t.Fatalf("%+v: %d tokens: %s violated %d taken %d; want remaining %d, retry %v, violated %d",
						limits, n, show(d), d.Violated, d.Taken, remaining, retry, violated)
				}
			}
		}
	})
}

// The state of a limit keeps its place: a limit may be changed, added at the
// end or taken off there.
//
// Promise: Tokens that were taken stay taken when a limit changes.
func TestSeveralLimitsChange(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		with := func(first ratelimit.Limit, and ...ratelimit.Limit) *ratelimit.Limiter {
			l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: first, And: and})
			must(t, err)
			return l
		}
		day := ratelimit.Limit{Rate: 100, Period: 24 * time.Hour}
		allow(t, with(ratelimit.PerSecond(10)), "a", 4)
		if d := allow(t, with(ratelimit.PerSecond(10), day), "a", 1); d.Remaining != 5 {
			t.Errorf("with a second limit: %s", show(d))
		}
		if d := peek(t, with(ratelimit.PerHour(1000), day), "a"); d.Remaining != 99 || d.Limit.Rate != 100 {
			t.Errorf("with another first limit: %s of %+v", show(d), d.Limit)
		}
		if d := allow(t, with(ratelimit.PerSecond(10)), "a", 1); d.Remaining != 4 {
			t.Errorf("with the first alone: %s", show(d))
		}
	})
}

// A budget of each client's own, which others don't see.
func TestPerClient(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var limiters []*ratelimit.Limiter
		for range 2 {
			for _, scope := range []ratelimit.Scope{ratelimit.Overall, ratelimit.PerClient} {
				l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: ratelimit.PerHour(3), Scope: scope})
				must(t, err)
				limiters = append(limiters, l)
			}
			e.Client = clienttest.New(t, clienttest.Wrap(t, e.Redis), e.Prefix)
		}
		var left []int
		for range 2 {
			for _, l := range limiters {
				left = append(left, allow(t, l, "a", 1).Remaining)
			}
		}
		// overall, first client, overall again, second client; and once more
		if want := []int{2, 2, 1, 2, 0, 1, 0, 1}; !slices.Equal(left, want) {
			t.Errorf("left %v; want %v", left, want)
		}
		keys, err := e.Redis.Keys(t.Context(), e.Prefix+":*").Result()
		must(t, err)
		for _, k := range keys {
			if ttl := e.Redis.PTTL(t.Context(), k).Val(); ttl <= 0 {
				t.Errorf("%s: expires in %v", k, ttl)
			}
		}
		if len(keys) != 3 {
			t.Errorf("keys %q", keys)
		}
	})
}
