package ratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// keyLives is how long the articles' keys live. The articles say the window, by
// the server's clock; in these tests only the clients' clock is stopped, and a slow
// run must not lose the key.
const keyLives = time.Hour

// articles is the sliding window that articles build on a sorted set: a member
// for each call, by its time in ms, which the client brings.
type articles struct {
	rdb    redis.UniversalClient
	key    string
	limit  int64
	window time.Duration
}

// allow is the version of a pipeline: add, trim, count.
func (a articles) allow(ctx context.Context, now time.Time) bool {
	ms := now.UnixMilli()
	pipe := a.rdb.Pipeline()
	pipe.ZAdd(ctx, a.key, redis.Z{Score: float64(ms), Member: ms})
	pipe.ZRemRangeByScore(ctx, a.key, "0", strconv.FormatInt(ms-a.window.Milliseconds(), 10))
	count := pipe.ZCard(ctx, a.key)
	pipe.PExpire(ctx, a.key, keyLives)
	_, err := pipe.Exec(ctx)
	return err == nil && count.Val() <= a.limit
}

// lua is the version in Lua, which counts before it trims.
var articleLua = redis.NewScript(`
local count = redis.call('ZCARD', KEYS[1])
if count >= tonumber(ARGV[2]) then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[3])
  return 0
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`)

func (a articles) lua(ctx context.Context, now time.Time) bool {
	n, err := articleLua.Run(ctx, a.rdb, []string{a.key}, now.UnixMilli(), a.limit, a.window.Milliseconds(), keyLives.Milliseconds()).Int()
	return err == nil && n == 1
}

// right is the version without their faults, as long as no two calls are in one
// ms: trim, count, and add what is admitted.
func (a articles) right(ctx context.Context, now time.Time) bool {
	ms := now.UnixMilli()
	a.rdb.ZRemRangeByScore(ctx, a.key, "0", strconv.FormatInt(ms-a.window.Milliseconds(), 10))
	if a.rdb.ZCard(ctx, a.key).Val() >= a.limit {
		return false
	}
	return a.rdb.ZAdd(ctx, a.key, redis.Z{Score: float64(ms), Member: ms}).Err() == nil
}

// Where the sorted set is right the log decides as it does.
//
// Promise: A Window decides as a list of all calls would, exactly and by the
// microsecond, and its log holds no more calls than the limit.
func TestWindowAgreesWithSortedSet(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range 8 {
			limit, window := 1+r.IntN(40), time.Duration(10+r.IntN(500))*time.Millisecond
			a := articles{e.Redis, fmt.Sprint(e.Prefix, "zset", i), int64(limit), window}
			l := e.window(t, ratelimit.Limit{Rate: limit, Period: window})
			e.Clock.Set(time.UnixMilli(1_760_000_000_000))
			for call := range 150 {
				e.Clock.Advance(time.Duration(1+r.Int64N(2*window.Milliseconds()/int64(limit)+1)) * time.Millisecond)
				want := a.right(t.Context(), e.Clock.Now())
				d, err := l.Allow(t.Context(), fmt.Sprint("a", i))
				must(t, err)
				if d.Allowed != want {
					t.Fatalf("%d in %v: call %d: %+v; the sorted set says %v", limit, window, call, d, want)
				}
			}
		}
	})
}

// The articles' versions do this, and the log does not.
//
// Promise: A Window decides as a list of all calls would, exactly and by the
// microsecond, and its log holds no more calls than the limit.
func TestFaultsOfTheArticles(t *testing.T) {
	const second = time.Second
	start := time.UnixMilli(1_760_000_000_000)
	// admitted counts the calls that are admitted, at these times from the start.
	type allow func(ctx context.Context, now time.Time) bool
	admitted := func(t *testing.T, f allow, at ...time.Duration) (n int) {
		t.Helper()
		for _, d := range at {
			if f(t.Context(), start.Add(d)) {
				n++
			}
		}
		return n
	}
	times := func(n int, at time.Duration) []time.Duration { return slices.Repeat([]time.Duration{at}, n) }
	eachFrozen(t, func(t *testing.T, e *env) {
		on := func(name string, limit int) (articles, allow, string) {
			l := e.window(t, ratelimit.Limit{Rate: limit, Period: second})
			return articles{e.Redis, e.Prefix + name, int64(limit), second}, func(ctx context.Context, now time.Time) bool {
				e.Clock.Set(now)
				d, err := l.Allow(ctx, name)
				must(t, err)
				return d.Allowed
			}, e.Prefix + ":{" + name + "}:window"
		}
		t.Run("calls of one millisecond count once", func(t *testing.T) {
			a, ours, _ := on("same", 3)
			if n := admitted(t, a.allow, times(50, 0)...); n != 50 {
				t.Errorf("the article admits %d of 50", n)
			}
			if n := admitted(t, ours, times(50, 0)...); n != 3 {
				t.Errorf("the log admits %d of 50", n)
			}
		})
		t.Run("denied calls are charged", func(t *testing.T) {
			a, ours, _ := on("charged", 1)
			var at []time.Duration // every 100 ms for 10 s
			for i := range 100 {
				at = append(at, time.Duration(i)*100*time.Millisecond)
			}
			if n := admitted(t, a.allow, at...); n != 1 {
				t.Errorf("the article admits %d in 10 s", n)
			}
			if n := admitted(t, ours, at...); n != 10 {
				t.Errorf("the log admits %d in 10 s", n)
			}
		})
		t.Run("memory grows with the calls", func(t *testing.T) {
			a, ours, key := on("grows", 5)
			var at []time.Duration
			for i := range 500 {
				at = append(at, time.Duration(i)*time.Millisecond)
			}
			admitted(t, a.allow, at...)
			admitted(t, ours, at...)
			if n := e.Redis.ZCard(t.Context(), a.key).Val(); n != 500 {
				t.Errorf("the article keeps %d calls", n)
			}
			if n := e.Redis.StrLen(t.Context(), key).Val(); n != 8+5*8 {
				t.Errorf("the log has %d bytes", n)
			}
		})
		t.Run("it counts before it trims", func(t *testing.T) {
			a, ours, _ := on("trims", 2)
			// Two, and a third when both have left the window.
			at := []time.Duration{0, time.Millisecond, 5 * second}
			if n := admitted(t, a.lua, at...); n != 2 {
				t.Errorf("the article admits %d", n)
			}
			if n := admitted(t, ours, at...); n != 3 {
				t.Errorf("the log admits %d", n)
			}
		})
		t.Run("the client's clock decides", func(t *testing.T) {
			a, _, _ := on("clock", 3)
			// The second client's clock is 1.5 s ahead of the first one's.
			if n := admitted(t, a.allow, 0, time.Millisecond, 2*time.Millisecond, 1500*time.Millisecond, 1501*time.Millisecond, 1502*time.Millisecond); n != 6 {
				t.Errorf("the article admits %d at one moment", n)
			}
			l := e.window(t, ratelimit.Limit{Rate: 3, Period: second})
			taken := 0
			for range 6 { // whatever the clocks of the clients: they send no time
				d, err := l.Allow(t.Context(), "clocks")
				must(t, err)
				taken += d.Taken
			}
			if taken != 3 {
				t.Errorf("the log admits %d", taken)
			}
		})
	})
	// Twice the limit at a fixed window's edge: TestQuotaHasAnEdge.
}

// Every key of what was taken expires, after whatever call.
//
// Promise: Every key expires, except stored limits.
func TestEveryKeyExpires(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		limits := []*ratelimit.Limiter{e.limiter(t, ratelimit.PerSecond(1_000_000)), e.limiter(t, ratelimit.PerHour(7)), e.storedLimiter(t)}
		must(t, limits[2].Set(ctx, "a", ratelimit.PerSecond(9), ratelimit.PerHour(100)))
		window := e.window(t, ratelimit.Limit{Rate: 40, Period: time.Minute})
		quota, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 50, Per: ratelimit.Day}})
		must(t, err)
		calls := e.concurrency(t, ratelimit.ConcurrencyOptions{Limit: 5})
		r := randtest.Rand(t)
		for range 150 {
			l, n := limits[r.IntN(3)], 1+r.IntN(3)
			switch r.IntN(8) {
			case 0:
				allow(t, l, "a", n)
			case 1:
				_, err = l.TakeUpTo(ctx, "a", n)
			case 2:
				_, err = l.Refund(ctx, "a", n, "")
			case 3:
				var res *ratelimit.Reservation
				if res, err = l.Reserve(ctx, "a", 1); err == nil {
					err = res.Cancel(ctx)
				}
			case 4:
				_, err = window.AllowN(ctx, "a", n)
			case 5:
				_, err = quota.AllowN(ctx, "a", n)
			case 6:
				var call *ratelimit.Call
				if call, _, err = calls.Begin(ctx, "a"); call != nil && n > 1 {
					_, err = call.Extend(ctx)
				}
			default:
				peek(t, l, "a")
			}
			must(t, err)
			for _, part := range []string{"gcra", "refunds", "window", "quota", "calls"} {
				if ttl := e.Redis.Do(ctx, "PTTL", e.Prefix+":{a}:"+part).Val().(int64); ttl == -1 {
					t.Fatalf("%s does not expire", part)
				}
			}
		}
	})
}
