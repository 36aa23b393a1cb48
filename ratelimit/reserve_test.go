package ratelimit_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// The tests of golang.org/x/time/rate for reservations, with its names. A time
// t is so many intervals from the start; one of "r t n -> at" reserves n tokens
// at t, which are there at the time behind the arrow, or never; "name = r …"
// gives it a name and "cancel name t" cancels it.
//
// Promise: Reservations keep every limit at the time when they take place; a
// cancellation gives back what x/time/rate would.
func TestReservationsLikeXTimeRate(t *testing.T) {
	for name, story := range map[string]string{
		"TestReserve":       "burst 2, r 0 2 -> 0, r 0 2 -> 2, r 3 2 -> 4",
		"TestReserveMax":    "burst 2, max 1, r 0 2 -> 0, r 0 1 -> 1, r 0 1 -> late, r 1 1 -> 2",
		"TestCancelInvalid": "burst 2, r 0 2 -> 0, x = r 0 3 -> never, cancel x 0, r 0 2 -> 2",
		"TestCancelLast":    "burst 2, r 0 2 -> 0, x = r 0 2 -> 2, cancel x 1, r 1 2 -> 2",
		"TestCancelTooLate": "burst 2, r 0 2 -> 0, x = r 0 2 -> 2, cancel x 3, r 3 2 -> 4",
		"TestCancel0Tokens": "burst 2, r 0 2 -> 0, x = r 0 1 -> 1, r 0 1 -> 2, cancel x 0, r 0 1 -> 3",
		"TestCancel1Token":  "burst 2, r 0 2 -> 0, x = r 0 2 -> 2, r 0 1 -> 3, cancel x 2, r 2 2 -> 4",
		"TestCancelMulti":   "burst 4, r 0 4 -> 0, x = r 0 3 -> 3, r 0 1 -> 4, y = r 0 1 -> 5, cancel y 1, cancel x 1, r 1 3 -> 5",
		// Not there: the same cancellation again, and one of what was reset.
		"cancel twice":    "burst 2, r 0 2 -> 0, x = r 0 2 -> 2, cancel x 0, cancel x 0, r 0 1 -> 1",
		"cancel of reset": "burst 2, r 0 2 -> 0, x = r 0 2 -> 2, reset, r 0 2 -> 0, cancel x 0, r 0 1 -> 1",
	} {
		t.Run(name, func(t *testing.T) { eachFrozen(t, func(t *testing.T, e *env) { playReservations(t, e, story) }) })
	}
}

func playReservations(t *testing.T, e *env, story string) {
	const d = time.Hour
	t0 := time.Unix(1_760_000_000, 0)
	opts := ratelimit.Options{Limit: ratelimit.Limit{Rate: 1, Period: d}}
	limiter := func() *ratelimit.Limiter {
		l, err := ratelimit.New(e.Client, opts)
		must(t, err)
		return l
	}
	named := map[string]*ratelimit.Reservation{}
	for step := range strings.SplitSeq(story, ", ") {
		name, call, ok := strings.Cut(step, " = ")
		if !ok {
			call = step
		}
		var at, n int
		var want string
		switch {
		case scan(call, "burst %d", &opts.Limit.Burst):
		case scan(call, "max %d", &n):
			opts.MaxWait = time.Duration(n) * d
		case call == "reset":
			must(t, limiter().Reset(t.Context(), "a"))
		case scan(call, "cancel %s %d", &want, &at):
			e.Clock.Set(t0.Add(time.Duration(at) * d))
			must(t, named[want].Cancel(t.Context()))
		case scan(call, "r %d %d -> %s", &at, &n, &want):
			e.Clock.Set(t0.Add(time.Duration(at) * d))
			r, err := limiter().Reserve(t.Context(), "a", n)
			must(t, err)
			named[name] = r
			got := "late"
			switch {
			case r.Allowed:
				got = fmt.Sprint(at + int(r.Delay().Round(d/60)/d))
			case r.RetryAfter == ratelimit.Never:
				got = "never"
			}
			if got != want || r.Allowed == (got == "late" || got == "never") || (r.Taken == n) != r.Allowed {
				t.Errorf("%s: got %s (%+v)", step, got, r.Decision)
			}
		default:
			t.Fatalf("what is %q?", call)
		}
	}
}

func scan(s, format string, into ...any) bool {
	n, err := fmt.Sscanf(s, format, into...)
	return err == nil && n == len(into)
}

// Whatever is taken at once or reserved, under one limit or several: each limit
// lets through all that happens, at the time when it happens.
//
// Promise: Reservations keep every limit at the time when they take place; a
// cancellation gives back what x/time/rate would.
func TestReservationsKeepEveryLimit(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range 40 {
			// Minutes, so that the time that this test takes does not count.
			limits := make([]ratelimit.Limit, 1+r.IntN(3))
			for k := range limits {
				limits[k] = ratelimit.Limit{Rate: 1, Period: time.Duration(1+r.IntN(40)) * time.Hour, Burst: 1 + r.IntN(9)}
			}
			l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limits[0], And: limits[1:]})
			must(t, err)
			type event struct {
				at time.Duration
				n  int
			}
			var events []event
			start, taken := e.Clock.Now().UnixMicro(), 0
			for range 50 {
				e.Clock.Advance(time.Duration(r.IntN(20)) * time.Hour)
				now := time.Duration(e.Clock.Now().UnixMicro()-start) * time.Microsecond
				n := 1 + r.IntN(3)
				if r.IntN(3) == 0 {
					if allow(t, l, fmt.Sprint("a", i), n).Allowed {
						events = append(events, event{now, n})
					}
					continue
				}
				res, err := l.Reserve(t.Context(), fmt.Sprint("a", i), n)
				must(t, err)
				if res.Allowed {
					events = append(events, event{now + res.Delay().Round(time.Hour), n})
					taken++
				}
			}
			slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
			for _, limit := range limits {
				full := limit.Period * time.Duration(limit.Burst)
				var tat time.Duration
				for _, e := range events {
					tat = max(tat, e.at) + limit.Period*time.Duration(e.n)
					if tat-e.at > full {
						t.Fatalf("%+v: %+v does not hold %+v at %v", limits, limit, events, e.at)
					}
				}
			}
			if taken == 0 && limits[0].Burst > 3 && len(limits) == 1 {
				t.Errorf("%+v: nothing was ever reserved", limits)
			}
		}
	})
}

// A limit that is added while others wait in line counts their tokens from when
// they are taken, not from when they were reserved.
func TestReservationsUnderAnAddedLimit(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		hourly := ratelimit.Limit{Rate: 1, Period: time.Hour}
		l := e.limiter(t, hourly)
		for range 101 {
			_, err := l.Reserve(t.Context(), "a", 1)
			must(t, err)
		}
		l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: hourly, And: []ratelimit.Limit{{Rate: 1, Period: 30 * time.Hour, Burst: 2}}})
		must(t, err)
		for _, hours := range []float64{101, 102, 131, 161} {
			r, err := l.Reserve(t.Context(), "a", 1)
			must(t, err)
			if got := r.Delay().Round(time.Minute).Hours(); got != hours {
				t.Errorf("after %v h; want %v", got, hours)
			}
		}
	})
}

// TakeUpTo takes what AllowN would, at most: the largest number that is allowed.
func TestTakeUpTo(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range thorough(200, 100) {
			limits := []ratelimit.Limit{randomLimit(r), randomLimit(r)}[:1+r.IntN(2)]
			if r.IntN(4) == 0 { // at the edge of what numbers hold
				limits[0] = ratelimit.Limit{Rate: 1 + r.IntN(1_000_000), Period: time.Second, Burst: 1 + r.IntN(1<<51)}
			}
			l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limits[0], And: limits[1:]})
			if err != nil {
				continue // more than 292 years
			}
			name := fmt.Sprint("a", i)
			for range 6 {
				e.Clock.Advance(time.Duration(r.Int64N(int64(limits[0].Period)/1000+1)) * time.Microsecond)
				before := peek(t, l, name)
				n := 1 + r.IntN(2*limits[0].Burst)
				d, err := l.TakeUpTo(t.Context(), name, n)
				must(t, err)
				if want := min(n, before.Remaining); d.Taken != want || d.Remaining != before.Remaining-want || d.Allowed != (want > 0) {
					t.Fatalf("%+v: up to %d of %d: took %d: %s", limits, n, before.Remaining, d.Taken, show(d))
				}
				if after := peek(t, l, name); after.Remaining != d.Remaining || after.ResetAfter != d.ResetAfter {
					t.Fatalf("%+v: %s; then %s", limits, show(d), show(after))
				}
				if !d.Allowed && d.RetryAfter <= 0 {
					t.Fatalf("%+v: %s", limits, show(d))
				}
			}
		}
	})
}

// A refund gives at most the taken tokens back, once for each id.
//
// Promise: A refund never gives more than was taken, and only once for each
// id.
func TestRefund(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		for _, bare := range []bool{false, true} {
			l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: ratelimit.PerHour(10), BareKeys: bare})
			must(t, err)
			name := fmt.Sprint(e.Prefix, bare)
			refund := func(n int, id string, want int) {
				t.Helper()
				d, err := l.Refund(t.Context(), name, n, id)
				must(t, err)
				if d.Remaining != want || d.Taken != 0 || d.Allowed != (want > 0) {
					t.Errorf("bare %v: refund of %d for %q: %s; want %d", bare, n, id, show(d), want)
				}
			}
			refund(3, "early", 10) // nothing is out
			allow(t, l, name, 6)
			refund(3, "early", 4) // it was given, and is known
			refund(2, "x", 6)
			refund(2, "x", 6)
			refund(2, "y", 8)
			refund(1, "", 9)
			refund(1, "", 10)
			refund(100, "z", 10)
			allow(t, l, name, 10)
			e.Clock.Advance(59 * time.Minute)
			refund(1, "x", 9)
			e.Clock.Advance(3 * time.Minute)
			allow(t, l, name, 10)
			e.Clock.Advance(time.Minute)
			refund(1, "x", 1) // forgotten: all that was out with it is long back
		}
	})
}

// Reservations can reach further ahead than one limit does: 292 years. One
// refund gives them all back.
func TestRefundOfCenturies(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		century := ratelimit.Limit{Rate: 1, Period: 100 * 365 * 24 * time.Hour, Burst: 2}
		stored := e.storedLimiter(t)
		must(t, stored.Set(t.Context(), "stored", century))
		for name, l := range map[string]*ratelimit.Limiter{"own": e.limiter(t, century), "stored": stored} {
			for range 4 {
				_, err := l.Reserve(t.Context(), name, 1)
				must(t, err)
			}
			if d, err := l.Refund(t.Context(), name, 4, ""); err != nil || d.Remaining != 2 || d.ResetAfter != 0 {
				t.Errorf("%s: after the refund of all %s, %v", name, show(d), err)
			}
		}
	})
}

// A cancellation that is repeated before its time comes gives nothing, however
// long after.
func TestCancelLongAfter(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.Limit{Rate: 1, Period: time.Second, Burst: 1})
		reserve := func(n int) (last *ratelimit.Reservation) {
			for range n {
				var err error
				last, err = l.Reserve(t.Context(), "a", 1)
				must(t, err)
			}
			return last
		}
		given := reserve(200)
		must(t, given.Cancel(t.Context()))
		reserve(1)
		for range 3 {
			e.Clock.Advance(65 * time.Second)
			before := peek(t, l, "a")
			must(t, given.Cancel(t.Context()))
			if d := peek(t, l, "a"); d != before {
				t.Errorf("%s; after another cancellation %s", show(before), show(d))
			}
		}
	})
}

// A process that refunds all the time, as middleware does after a refusal, does not fill
// the server with ids that nobody can name again.
func TestRefundsAreForgotten(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.Limit{Rate: 1000, Period: 24 * time.Hour})
		refunds := e.Prefix + ":{a}:refunds"
		for range 50 {
			allow(t, l, "a", 2)
			for _, id := range []string{"", "x"} {
				_, err := l.Refund(t.Context(), "a", 1, id)
				must(t, err)
			}
			e.Clock.Advance(10 * time.Second)
		}
		if n := e.Redis.ZCard(t.Context(), refunds).Val(); n > 8 {
			t.Errorf("%d ids are known", n)
		}
		if ttl := e.Redis.ZScore(t.Context(), refunds, "x").Val(); ttl == 0 {
			t.Error("an id with a name is forgotten")
		}
	})
}

// AllowMany is the calls one after the other.
func TestAllowMany(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerHour(2))
		got := l.AllowMany(t.Context(), []ratelimit.Request{{"a", 1}, {"b", 2}, {"a", 1}, {"a", 1}, {"b", 0}, {"", 1}, {"c", 3}, {"c", -1}})
		var text []string
		for _, r := range got {
			if text = append(text, fmt.Sprint(r.Allowed, " ", r.Remaining, " ", r.Taken)); r.Err != nil {
				text[len(text)-1] = "error"
			}
		}
		want := []string{"true 1 1", "true 0 2", "true 0 1", "false 0 0", "false 0 0", "error", "false 2 0", "error"}
		if !slices.Equal(text, want) {
			t.Errorf("%q", text)
		}
		if got := l.AllowMany(t.Context(), nil); len(got) != 0 {
			t.Errorf("of nothing: %v", got)
		}
	})
}
