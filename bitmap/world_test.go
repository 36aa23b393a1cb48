package bitmap_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/redistest"
)

// world is one back end with bitmaps on it.
type world struct {
	redistest.Backend
	t      testing.TB
	rdb    *redis.Client // for looking at keys
	conn   *counter
	client *redoubt.Client
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

func newWorld(t testing.TB, b redistest.Backend) *world {
	w := &world{Backend: b, t: t, rdb: redis.NewClient(&redis.Options{Addr: b.Addr, MaxRetries: -1})}
	t.Cleanup(func() { _ = w.rdb.Close() })
	conn, err := goredis.Wrap(w.rdb)
	must(t, err)
	w.conn = &counter{Conn: conn}
	w.client = w.on(w.conn)
	return w
}

// on returns the client of another process.
func (w *world) on(conn redoubt.Conn) *redoubt.Client {
	client, err := redoubt.New(conn, redoubt.Options{Prefix: w.Prefix})
	must(w.t, err)
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *world) calendars(opts bitmap.CalendarOptions) *bitmap.Calendars {
	w.t.Helper()
	cs, err := bitmap.NewCalendars(w.client, opts)
	must(w.t, err)
	return cs
}

// key returns the key of a name.
func (w *world) key(name, part string) string { return w.Prefix + ":{" + name + "}:" + part }

// keys counts the keys of the test.
func (w *world) keys() (n int) {
	w.t.Helper()
	it := w.rdb.Scan(w.t.Context(), 0, w.Prefix+":*", 1000).Iterator()
	for it.Next(w.t.Context()) {
		n++
	}
	must(w.t, it.Err())
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails the test unless err matches want.
func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want %v", err, want)
	}
}

// says fails the test unless err says all of parts.
func says(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error is %v; want one with %q", err, p)
		}
	}
}

// A counter counts round trips, and commands.
type counter struct {
	redoubt.Conn
	trips, cmds atomic.Int64
}

func (c *counter) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.trips.Add(1)
	c.cmds.Add(1)
	return c.Conn.Do(ctx, cmd)
}

func (c *counter) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	c.trips.Add(1)
	c.cmds.Add(int64(len(cmds)))
	return c.Conn.Pipeline(ctx, cmds)
}

// tripsOf returns how many round trips f takes.
func (w *world) tripsOf(f func()) int64 {
	before := w.conn.trips.Load()
	f()
	return w.conn.trips.Load() - before
}
