package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// world is one back end with a client on it.
type world struct {
	redistest.Backend
	rdb    *redis.Client // for looking at keys
	client *redoubt.Client
	clock  *clock // nil when time runs
}

// each runs a test on every back end, on its own clock.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		rdb := dial(t, b.Addr)
		run(t, &world{Backend: b, rdb: rdb, client: newClient(t, wrap(t, rdb), b.Prefix)})
	})
}

// eachFrozen runs a test on every back end, with a clock that the test sets.
func eachFrozen(t *testing.T, run func(t *testing.T, w *world)) {
	each(t, func(t *testing.T, w *world) {
		w.clock = &clock{Conn: wrap(t, w.rdb)}
		w.clock.set(time.Unix(1_760_000_000, 123_456_000))
		w.client = newClient(t, w.clock, w.Prefix)
		run(t, w)
	})
}

func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func wrap(t testing.TB, rdb *redis.Client) redoubt.Conn {
	t.Helper()
	conn, err := goredis.Wrap(rdb)
	must(t, err)
	return conn
}

func newClient(t testing.TB, conn redoubt.Conn, prefix string) *redoubt.Client {
	t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{Prefix: prefix})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) limiter(t *testing.T, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(w.client, ratelimit.Options{Limit: limit})
	must(t, err)
	return l
}

func (w *world) key(name string) string { return w.Prefix + ":{" + name + "}:gcra" }

// clock is a Conn that runs the package's scripts with a time of its own, which
// stands still until it is set. Keys don't expire under it, since the server's
// clock goes on: to the algorithms a key past its time is the same as no key.
type clock struct {
	redoubt.Conn
	µs atomic.Int64
}

func (c *clock) set(t time.Time) { c.µs.Store(t.UnixMicro()) }

func (c *clock) advance(d time.Duration) { c.µs.Add(d.Microseconds()) }

// expiry is how the scripts let a key expire.
var expiry = regexp.MustCompile(`, 'PX', string.format\('%.0f', px\)|redis.call\('PEXPIRE', [^\n]*\)`)

// frozen are the scripts with the time as their last two keys.
var frozen = func() map[*redoubt.Script]*redoubt.Script {
	scripts := map[*redoubt.Script]*redoubt.Script{}
	for _, s := range ratelimit.Scripts() {
		source := s.Source()
		if strings.Count(source, `redis.call('TIME')`) != 1 {
			continue
		}
		source = strings.Replace(source, `redis.call('TIME')`, `{KEYS[#KEYS - 1], KEYS[#KEYS]}`, 1)
		scripts[s] = redoubt.NewScript("frozen."+s.Name(), expiry.ReplaceAllString(source, ""))
	}
	return scripts
}()

func (c *clock) freeze(cmd redoubt.Cmd) redoubt.Cmd {
	if s := frozen[cmd.Script]; s != nil {
		µs := c.µs.Load()
		cmd.Script = s
		cmd.Keys = append(slices.Clip(cmd.Keys),
			strconv.FormatInt(µs/1_000_000, 10), strconv.FormatInt(µs%1_000_000, 10))
	}
	return cmd
}

func (c *clock) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return c.Conn.Do(ctx, c.freeze(cmd))
}

func (c *clock) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	frozen := make([]redoubt.Cmd, len(cmds))
	for i, cmd := range cmds {
		frozen[i] = c.freeze(cmd)
	}
	return c.Conn.Pipeline(ctx, frozen)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dice returns random numbers that can be had again by the seed it logs.
func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func allow(t *testing.T, l *ratelimit.Limiter, name string, n int) ratelimit.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), name, n)
	must(t, err)
	return d
}

func peek(t *testing.T, l *ratelimit.Limiter, name string) ratelimit.Decision {
	t.Helper()
	d, err := l.Peek(t.Context(), name)
	must(t, err)
	return d
}

func show(d ratelimit.Decision) string {
	verdict := "refused"
	if d.Allowed {
		verdict = "allowed"
	}
	retry := d.RetryAfter.String()
	if d.RetryAfter == ratelimit.Never {
		retry = "never"
	}
	return fmt.Sprintf("%s remaining=%d retry=%s reset=%s", verdict, d.Remaining, retry, d.ResetAfter)
}

// flusher is a Conn whose pipelines lose the server's scripts half way.
type flusher struct {
	redoubt.Conn
	flushed int
}

func (c *flusher) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	half := len(cmds) / 2
	c.flushed++
	all := slices.Insert(slices.Clone(cmds), half, redoubt.Cmd{Name: "SCRIPT FLUSH"})
	return slices.Delete(c.Conn.Pipeline(ctx, all), half, half+1)
}
