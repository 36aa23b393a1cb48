package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func (e *env) window(t testing.TB, limit ratelimit.Limit, and ...ratelimit.Limit) *ratelimit.Window {
	t.Helper()
	l, err := ratelimit.NewWindow(e.Client, ratelimit.WindowOptions{Limit: limit, And: and})
	must(t, err)
	return l
}

// logOf is the sliding-window log written down from what it promises: the
// times of all calls, and counts. Times are µs.
type logOf []int64

func (l logOf) count(now int64, window time.Duration) (n int) {
	for _, at := range l {
		if at+window.Microseconds() > now {
			n++
		}
	}
	return n
}

func (l *logOf) take(now int64, limits []ratelimit.Limit, n int) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Violated: -1, Remaining: 1 << 40, Taken: n}
	var longest time.Duration
	at := now // which is never behind the last call
	if len(*l) > 0 {
		at = max(at, (*l)[len(*l)-1])
	}
	for i, limit := range limits {
		longest = max(longest, limit.Period)
		left := max(0, limit.Rate-l.count(at, limit.Period))
		d.Remaining = min(d.Remaining, left)
		if left >= max(n, 1) {
			continue
		}
		d.Allowed, d.Taken = false, 0
		if n > limit.Rate {
			d.RetryAfter, d.Violated = ratelimit.Never, i
			continue
		}
		// The call is admitted when all but Rate-n have left the window.
		k := len(*l) - (limit.Rate - max(n, 1)) - 1
		wait := time.Duration((*l)[k]-now)*time.Microsecond + limit.Period
		if d.RetryAfter != ratelimit.Never && wait > d.RetryAfter {
			d.RetryAfter, d.Violated = wait, i
		}
	}
	if d.Allowed {
		d.Remaining -= n
		for range n {
			*l = append(*l, at)
		}
	}
	if len(*l) > 0 {
		d.ResetAfter = max(0, time.Duration((*l)[len(*l)-1]-now)*time.Microsecond+longest)
	}
	return d
}

// The ring decides as the log of all calls does: several at once and in the same
// µs, under limits that change, rings that wrap and grow, and a clock that
// steps back.
//
// Promise: A Window decides as a list of all calls would, exactly and by the
// microsecond, and its log holds no more calls than the limit.
func TestWindowAgreesWithModel(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range thorough(60, 25) {
			var model logOf
			name := fmt.Sprint("a", i)
			limits := randomWindows(r)
			l := e.window(t, limits[0], limits[1:]...)
			for range 100 {
				if r.IntN(60) == 0 {
					limits = randomWindows(r)
					l = e.window(t, limits[0], limits[1:]...)
				}
				switch r.IntN(12) {
				case 0:
					e.Clock.Advance(-time.Duration(r.Int64N(int64(2 * time.Second))))
				case 1:
					e.Clock.Advance(time.Duration(r.Int64N(int64(2 * time.Second))))
				case 2, 3, 4, 5, 6, 7:
					e.Clock.Advance(time.Duration(1 + r.Int64N(int64(limits[0].Period)/int64(limits[0].Rate)+1000)))
				}
				now := e.Clock.Now().UnixMicro()
				n := r.IntN(3)
				if r.IntN(5) == 0 {
					n = r.IntN(limits[0].Rate + 2)
				}
				want := model.take(now, limits, n)
				got, err := l.AllowN(t.Context(), name, n)
				must(t, err)
				want.Limit = got.Limit
				if got != want {
					t.Fatalf("%+v: %d calls:\n got %+v\nwant %+v", limits, n, got, want)
				}
			}
		}
	})
}

// randomWindows are one to three limits whose longest window is always the
// same, so that no change brings back calls that had left it.
func randomWindows(r *rand.Rand) []ratelimit.Limit {
	rate := func() int { return 1 + r.IntN([]int{3, 20, 150}[r.IntN(3)]) }
	limits := []ratelimit.Limit{{Rate: rate(), Period: time.Second}}
	for range r.IntN(3) {
		limits = append(limits, ratelimit.Limit{Rate: rate(), Period: time.Duration(1+r.IntN(1000)) * time.Millisecond})
	}
	r.Shuffle(len(limits), func(i, k int) { limits[i], limits[k] = limits[k], limits[i] })
	return limits
}

// A ring that grows call by call, and goes round when it is full, loses none.
func TestWindowGrows(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		const limit = 150
		l := e.window(t, ratelimit.PerSecond(limit))
		for i := range limit {
			e.Clock.Advance(time.Millisecond)
			d, err := l.Allow(t.Context(), "a")
			must(t, err)
			if !d.Allowed || d.Remaining != limit-i-1 {
				t.Fatalf("call %d: %+v", i, d)
			}
		}
		// Each leaves the window a second after it was made, and makes room for one.
		for i := range 2 * limit {
			d, err := l.Allow(t.Context(), "a")
			must(t, err)
			if want := time.Millisecond; d.Allowed || i%limit != 0 && d.RetryAfter != want {
				t.Fatalf("too many %d: %+v", i, d)
			}
			e.Clock.Advance(d.RetryAfter)
			if d, err = l.Allow(t.Context(), "a"); err != nil || !d.Allowed || d.Remaining != 0 {
				t.Fatalf("again %d: %+v, %v", i, d, err)
			}
		}
	})
}

func TestWindowTakeUpTo(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		l := e.window(t, ratelimit.PerMinute(5))
		for i, c := range []struct{ n, taken, left int }{{2, 2, 3}, {9, 3, 0}, {1, 0, 0}} {
			d, err := l.TakeUpTo(t.Context(), "a", c.n)
			must(t, err)
			if d.Taken != c.taken || d.Remaining != c.left || d.Allowed != (c.taken > 0) || (d.RetryAfter == time.Minute) == d.Allowed {
				t.Errorf("%d: %+v", i, d)
			}
		}
		must(t, l.Reset(t.Context(), "a"))
		d, err := l.Info(t.Context(), "a")
		if err != nil || d.Remaining != 5 || !d.Allowed || d.Taken != 0 || len(d.Limits) != 1 || d.Limits[0] != ratelimit.PerMinute(5) {
			t.Errorf("after Reset: %+v, %v", d, err)
		}
	})
}

// A log takes 8 bytes a call and at most as much again, whatever its size, and
// expires with its last call.
//
// Promise: A Window decides as a list of all calls would, exactly and by the
// microsecond, and its log holds no more calls than the limit.
func TestWindowMemory(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		key := e.Prefix + ":{a}:window"
		l := e.window(t, ratelimit.PerHour(20_000))
		calls := 0
		for _, n := range []int{100, 400, 500, 1000, 3000, 5000, 5000, 5000} {
			for range 20 { // in steps, so that the ring grows step by step
				d, err := l.AllowN(t.Context(), "a", n/20)
				must(t, err)
				calls += d.Taken
			}
			if size := e.Redis.StrLen(t.Context(), key).Val(); size > int64(12*calls+64) {
				t.Errorf("%d calls: a string of %d bytes", calls, size)
			}
			if e.Server != nil {
				if used := e.Redis.MemoryUsage(t.Context(), key).Val(); used > int64(16*calls) {
					t.Errorf("%d calls: %d bytes of memory", calls, used)
				}
			}
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
				t.Errorf("expires in %v", ttl)
			}
		}
		if calls != 20_000 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestWindowFaults(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.window(t, ratelimit.PerHour(2))
		key := e.Prefix + ":{a}:window"
		must(t, e.Redis.LPush(t.Context(), key, "x").Err())
		if _, err := l.Allow(t.Context(), "a"); !redoubt.IsCode(err, "WRONGTYPE") || strings.Contains(err.Error(), "script") {
			t.Errorf("of a list: %v", err)
		}
		for _, bad := range []string{"x", "1760000000000000000", "\x00\x00\x00\x01\x00\x00\x00\x01", strings.Repeat("\xff", 600)} {
			must(t, e.Redis.Set(t.Context(), key, bad, 0).Err())
			if _, err := l.Allow(t.Context(), "a"); !redoubt.IsCode(err, "ERR") || !strings.Contains(err.Error(), "no log") {
				t.Errorf("of %q: %v", bad, err)
			}
			if got := e.Redis.Get(t.Context(), key).Val(); got != bad {
				t.Errorf("%q became %q", bad, got)
			}
		}
	})
}
