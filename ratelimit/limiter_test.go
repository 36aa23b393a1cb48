package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// Of many callers at once, on two clients, exactly the burst is allowed.
//
// Promise: In any time t a limit gives at most Burst + t ÷ T tokens, to all
// callers together.
func TestConcurrentCallers(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const burst, callers, calls = 100, 32, 10
		limit := ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: burst}
		other, err := ratelimit.New(e.ClientOn(clienttest.Wrap(t, e.Redis)), ratelimit.Options{Limit: limit})
		must(t, err)
		limiters := []*ratelimit.Limiter{e.limiter(t, limit), other}
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range calls {
					d, err := limiters[i%2].Allow(t.Context(), "name")
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := allowed.Load(); n != burst {
			t.Errorf("%d of %d calls were allowed; want %d", n, callers*calls, burst)
		}
	})
}

// With real time: a burst, then as many tokens as time has passed, and what a
// refusal said comes true.
func TestRealTime(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.Limit{Rate: 20, Period: time.Second, Burst: 2})
		start := time.Now()
		allow(t, l, "a", 2)
		var d ratelimit.Decision
		for taken := 0; taken < 4; {
			if d = allow(t, l, "a", 1); d.Allowed {
				taken++
				continue
			}
			if d.RetryAfter <= 0 || d.RetryAfter > 50*time.Millisecond {
				t.Fatalf("retry after %v", d.RetryAfter)
			}
			<-time.After(d.RetryAfter)
		}
		// The server's clock and ours are one here, and both are cut to µs.
		if e := time.Since(start); e < 4*50*time.Millisecond-time.Millisecond {
			t.Errorf("6 tokens after %v", e)
		}
	})
}

// Every instant burst is allowed to the last token and no further, one by one and
// all at once.
//
// Promise: No token is lost: an unused limit gives Burst tokens at once, and
// over a long run the rate is the one asked for, to 1%, and never lower.
func TestNoTokenLost(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		peek(t, e.limiter(t, ratelimit.PerSecond(1)), "the script is loaded") // or else the first call runs after the others
		for i := range 4000 {
			limit := randomLimit(r)
			name := fmt.Sprint("a", i)
			e.Clock.Advance(time.Duration(r.IntN(1_000_000)) * time.Microsecond)
			calls := slices.Repeat([]ratelimit.Request{{Name: name, N: 1}}, limit.Burst+1)
			calls = append(calls, ratelimit.Request{Name: name + "n", N: limit.Burst})
			got := e.limiter(t, limit).AllowMany(t.Context(), calls)
			for k, d := range got {
				must(t, d.Err)
				switch {
				case k < limit.Burst:
					if !d.Allowed || d.Remaining != limit.Burst-k-1 || d.RetryAfter != 0 {
						t.Fatalf("%+v: token %d: %s", limit, k+1, show(d.Decision))
					}
				case k == limit.Burst:
					if d.Allowed || d.RetryAfter <= 0 {
						t.Fatalf("%+v: one too many: %s", limit, show(d.Decision))
					}
				default:
					if !d.Allowed || d.Remaining != 0 {
						t.Fatalf("%+v: all at once: %s", limit, show(d.Decision))
					}
				}
			}
		}
	})
}

// A retry is refused a microsecond before RetryAfter, and allowed then.
//
// Promise: RetryAfter is exact, to the microsecond of the server's clock, if
// nobody else takes tokens.
func TestRetryAfterIsExact(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range 300 {
			limit := randomLimit(r)
			l, name := e.limiter(t, limit), fmt.Sprint("a", i)
			allow(t, l, name, limit.Burst)
			e.Clock.Advance(time.Duration(r.Int64N(1000)) * time.Microsecond)
			n := 1 + r.IntN(limit.Burst)
			refused := allow(t, l, name, n)
			if refused.Allowed {
				continue
			}
			e.Clock.Advance(refused.RetryAfter - time.Microsecond)
			if d := allow(t, l, name, n); d.Allowed || d.RetryAfter != time.Microsecond {
				t.Fatalf("%+v: %d tokens 1µs before %v: %s", limit, n, refused.RetryAfter, show(d))
			}
			e.Clock.Advance(time.Microsecond)
			d := allow(t, l, name, n)
			if !d.Allowed {
				t.Fatalf("%+v: %d tokens after %v: %s", limit, n, refused.RetryAfter, show(d))
			}
			e.Clock.Advance(d.ResetAfter)
			if d := peek(t, l, name); d.Remaining != limit.Burst || d.ResetAfter != 0 {
				t.Fatalf("%+v: after the reset: %s", limit, show(d))
			}
		}
	})
}

// GCRA is the token bucket: a bucket of Burst tokens that fills evenly, kept
// here as the time that its tokens are worth, decides alike.
//
// Promise: In any time t a limit gives at most Burst + t ÷ T tokens, to all
// callers together.
func TestIsTokenBucket(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range 40 {
			limit := randomLimit(r)
			l, name := e.limiter(t, limit), fmt.Sprint("a", i)
			interval := int64(limit.Period) / int64(limit.Rate)
			full := interval * int64(limit.Burst)
			bucket := full
			for range 40 {
				pause := r.Int64N(2*interval/1000 + 2)
				e.Clock.Advance(time.Duration(pause) * time.Microsecond)
				bucket = min(full, bucket+pause*1000)
				n := 1 + r.IntN(min(limit.Burst, 3))
				want := bucket >= int64(n)*interval
				if want {
					bucket -= int64(n) * interval
				}
				d := allow(t, l, name, n)
				if d.Allowed != want || int64(d.Remaining) != bucket/interval {
					t.Fatalf("%+v: %d tokens of %d ns: %s", limit, n, bucket, show(d))
				}
			}
		}
	})
}

// The funnel of the articles, as they write it in Lua: capacity, leak rate per
// second, the water in it and the time of the last leak, here in exact numbers.
// GCRA with the mapping of the documentation decides alike.
//
// Promise: A funnel, or leaky bucket, is a Limit: Remaining is its quota left.
func TestFunnel(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range 30 {
			capacity, leak := 1+r.IntN(30), []int{1, 2, 5, 10, 50, 1000}[r.IntN(6)]
			l := e.limiter(t, ratelimit.Limit{Rate: leak, Period: time.Second, Burst: capacity})
			interval := int64(time.Second) / int64(leak)
			water, last := int64(0), e.Clock.Now().UnixMicro() // water in ns of leaking
			for range 60 {
				e.Clock.Advance(time.Duration(r.Int64N(3*interval/1000)) * time.Microsecond)
				now := e.Clock.Now().UnixMicro()
				water, last = max(0, water-(now-last)*1000), now
				quantity := 1 + r.IntN(3)
				want := water+int64(quantity)*interval <= int64(capacity)*interval
				if want {
					water += int64(quantity) * interval
				}
				left := (int64(capacity)*interval - water) / interval
				if d := allow(t, l, fmt.Sprint("a", i), quantity); d.Allowed != want || int64(d.Remaining) != left {
					t.Fatalf("capacity %d, leak %d: %d: %s; want %v, %d left", capacity, leak, quantity, show(d), want, left)
				}
			}
		}
	})
}

// Promise: However the server's clock steps, a limit gives at most its burst and
// the tokens of the time from the first call to the latest time that the clock
// has shown.
func TestClockSteps(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		l := e.limiter(t, ratelimit.Limit{Rate: 10, Period: time.Second, Burst: 5})
		var first, latest int64
		taken := 0
		for range 2000 {
			e.Clock.Advance(time.Duration(r.IntN(200)) * time.Millisecond)
			if r.IntN(20) == 0 {
				e.Clock.Advance(time.Duration(r.IntN(10_000)-5_000) * time.Millisecond)
			}
			latest = max(latest, e.Clock.Now().UnixMicro())
			if first == 0 {
				first = latest
			}
			if allow(t, l, "a", 1).Allowed {
				taken++
			}
			if most := 5 + int(latest-first)/100_000; taken > most {
				t.Fatalf("%d tokens; want at most %d", taken, most)
			}
		}
		if taken < 500 {
			t.Errorf("only %d tokens", taken)
		}
	})
}

// A call that is refused or takes nothing changes nothing on the server, not the expiry
// either.
//
// Promise: A refusal takes nothing, and neither does a call for no tokens.
func TestRefusalsAndPeeksWriteNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: 2})
		ctx := t.Context()
		for _, n := range []int{0, 3} {
			if allow(t, l, "a", n); e.Redis.Exists(ctx, e.key("a")).Val() != 0 {
				t.Errorf("n = %d makes a key", n)
			}
		}
		allow(t, l, "a", 2)
		state := func() string {
			return e.Redis.Get(ctx, e.key("a")).Val() + " " + e.Redis.Do(ctx, "PEXPIRETIME", e.key("a")).String()
		}
		before := state()
		for _, n := range []int{0, 1, 2, 3, math.MaxInt} {
			allow(t, l, "a", n)
		}
		if after := state(); after != before {
			t.Errorf("%s became %s", before, after)
		}
	})
}

// The key is redis-cell's: one decimal number that expires when it means
// nothing any more, rounded up to a millisecond.
//
// Promise: A name in use is one key of about 70 bytes.
func TestStorage(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		l := e.limiter(t, ratelimit.PerMinute(30))
		allow(t, l, "a", 1)
		text, err := e.Redis.Get(ctx, e.key("a")).Result()
		must(t, err)
		if len(text) != 19 || strings.Trim(text, "0123456789") != "" {
			t.Errorf("value %q", text)
		}
		if ttl := e.Redis.PTTL(ctx, e.key("a")).Val(); ttl <= time.Second || ttl > 2*time.Second {
			t.Errorf("expires in %v; want 2 s", ttl)
		}
		if e.Server != nil {
			must(t, e.Redis.Do(ctx, "COPY", e.key("a"), e.Prefix).Err())
			if n := e.Redis.MemoryUsage(ctx, e.Prefix).Val(); n > 88 {
				t.Errorf("%d bytes; want at most 88", n)
			}
		}
	})
}

// A key is there until its time has come: with it go tokens that were taken.
func TestKeysLastLongEnough(t *testing.T) {
	redistest.Needs(t, 7, 0, "PEXPIRETIME")
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.Limit{Rate: 1, Period: time.Hour + 500*time.Microsecond})
		for i := range 30 {
			name := fmt.Sprint("a", i)
			allow(t, l, name, 1)
			tat, err := e.Redis.Get(t.Context(), e.key(name)).Int64()
			must(t, err)
			expires, err := e.Redis.Do(t.Context(), "PEXPIRETIME", e.key(name)).Int64()
			must(t, err)
			// It goes when the clock shows a later ms than this.
			if left := (expires+1)*int64(time.Millisecond) - tat; left < 0 {
				t.Fatalf("expires %v early", time.Duration(-left))
			}
		}
	})
}

// No key lives for ever: not at rates above 1000 a second, not after a refund,
// not one that the module had left without expiry.
//
// Promise: Every key expires, except stored limits.
func TestKeysExpire(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		key := func(i int) string { return fmt.Sprint(e.Prefix, i) }
		for i, a := range [][4]int64{
			{0, 1_000_000_000, 1, 1}, {0, 1111, 1, 1}, {4, 1, 1, -3}, {0, 1, 9_000_000_000, 1}, {15, 30, 60, 1},
		} {
			must(t, e.Redis.Set(ctx, key(i), "123", 0).Err())
			_, err := throttle(t, e.Client, key(i), a)
			must(t, err)
			if ttl := e.Redis.Do(ctx, "PTTL", key(i)).Val().(int64); ttl == -1 {
				t.Errorf("%v: no expiry", a)
			}
		}
	})
}

// A script that the server has lost is loaded again behind the caller's back.
func TestScriptFlush(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerHour(10))
		for want := 9; want >= 0; want-- {
			must(t, e.Redis.ScriptFlush(t.Context()).Err())
			if d := allow(t, l, "a", 1); d.Remaining != want {
				t.Errorf("%d remain; want %d", d.Remaining, want)
			}
		}
	})
}

// A Limiter with bare keys and a client of CL.THROTTLE share one limit.
//
// Promise: CL.THROTTLE on the same key decides alike, and keys that redis-cell
// has written go on.
func TestBareKeysShareWithThrottle(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		key := e.Prefix + "user:\x00\xff" + strings.Repeat("long", 300)
		limit := ratelimit.Limit{Rate: 30, Period: time.Hour, Burst: 16}
		l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limit, BareKeys: true})
		must(t, err)
		for want := int64(15); want >= 1; want -= 2 {
			reply, err := throttle(t, e.Client, key, [4]int64{15, 30, 3600, 1})
			must(t, err)
			if reply[2] != want {
				t.Errorf("CL.THROTTLE: %d remain; want %d", reply[2], want)
			}
			if d := allow(t, l, key, 1); d.Remaining != int(want)-1 {
				t.Errorf("Allow: %d remain; want %d", d.Remaining, want-1)
			}
		}
		must(t, l.Reset(t.Context(), key))
		if d := peek(t, l, key); d.Remaining != 16 {
			t.Errorf("%d remain after Reset", d.Remaining)
		}
	})
}

// Each method sends one command, and how it may be sent again.
//
// Promise: Every method costs one round trip, and the server runs TIME, GET
// and at most one SET for it.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &recording{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(conn)
		l := e.limiter(t, ratelimit.PerSecond(10))
		ctx := t.Context()
		for _, c := range []struct {
			name  string
			call  func() error
			flags redoubt.Flags
		}{
			{"Allow", func() error { _, err := l.Allow(ctx, "a"); return err }, 0},
			{"AllowN", func() error { _, err := l.AllowN(ctx, "a", 3); return err }, 0},
			{"AllowN 0", func() error { _, err := l.AllowN(ctx, "a", 0); return err }, redoubt.ReadOnly},
			{"Info", func() error { _, err := l.Info(ctx, "a"); return err }, redoubt.ReadOnly},
			{"TakeUpTo", func() error { _, err := l.TakeUpTo(ctx, "a", 2); return err }, 0},
			{"Refund", func() error { _, err := l.Refund(ctx, "a", 1, "id"); return err }, redoubt.Idempotent},
			{"Reserve", func() error { _, err := l.Reserve(ctx, "a", 1); return err }, 0},
			{"Wait", func() error { return l.Wait(ctx, "a") }, 0},
			{"Reset", func() error { return l.Reset(ctx, "a") }, redoubt.Idempotent},
		} {
			conn.sent = nil
			must(t, c.call())
			if len(conn.sent) != 1 || conn.sent[0].Flags != c.flags {
				t.Errorf("%s sends %+v", c.name, conn.sent)
			}
		}
	})
}

type recording struct {
	redoubt.Conn
	sent []redoubt.Cmd
}

func (c *recording) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.sent = append(c.sent, cmd)
	return c.Conn.Do(ctx, cmd)
}

// The cost for the server: TIME and GET, and SET when tokens are taken.
//
// Promise: Every method costs one round trip, and the server runs TIME, GET
// and at most one SET for it.
func TestServerCommands(t *testing.T) {
	s := redistest.Start(t)
	e := &env{testenv.New(t, redistest.Backend{Addr: s.Addr(), Prefix: "rd"})}
	l := e.limiter(t, ratelimit.PerHour(1))
	for _, c := range []struct {
		n    int
		want string
	}{{1, "time get set"}, {1, "time get"}, {0, "time get"}} {
		peek(t, l, "loads the script")
		s.CLI("CONFIG", "RESETSTAT")
		allow(t, l, "a", c.n)
		stats := s.CLI("INFO", "commandstats")
		for _, cmd := range []string{"time", "get", "set"} {
			called := strings.Contains(stats, "cmdstat_"+cmd+":calls=1,")
			if called != strings.Contains(" "+c.want+" ", " "+cmd+" ") {
				t.Errorf("n = %d: want %s, server ran %s", c.n, c.want, stats)
			}
		}
		if n := strings.Count(stats, "cmdstat_"); n != len(strings.Fields(c.want))+2 { // evalsha, config
			t.Errorf("n = %d: server ran %s", c.n, stats)
		}
	}
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerHour(2))
		bare, err := ratelimit.New(e.Client, ratelimit.Options{Limit: ratelimit.PerHour(2), BareKeys: true})
		must(t, err)
		for _, name := range []string{"a", "user:42", "{b}", "a}b", "\x00\r\n\xff", "日本", strings.Repeat("n", redoubt.MaxName)} {
			allow(t, l, name, 1)
			if e.Redis.Exists(t.Context(), e.key(name)).Val() != 1 {
				t.Errorf("%q: no key %q", name, e.key(name))
			}
		}
		for name, limiters := range map[string][]*ratelimit.Limiter{
			"": {l, bare}, "}a": {l}, strings.Repeat("n", redoubt.MaxName+1): {l},
		} {
			for _, l := range limiters {
				_, err1 := l.Allow(t.Context(), name)
				_, err2 := l.Info(t.Context(), name)
				err3 := l.Reset(t.Context(), name)
				for _, err := range []error{err1, err2, err3} {
					if !errors.Is(err, redoubt.ErrInvalidName) {
						t.Errorf("%q: %v", name, err)
					}
				}
			}
		}
	})
}
