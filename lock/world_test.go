package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/await"
	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// world is one back end with clients on it, each like a process of its own.
type world struct {
	redistest.Backend
	t   *testing.T
	rdb *redis.Client // for looking at keys
}

func each(t *testing.T, run func(t *testing.T, w *world)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		w := &world{Backend: b, t: t}
		w.rdb = w.dial(b.Addr)
		run(t, w)
	})
}

func (w *world) dial(addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	w.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// client returns a Client with connections of its own.
func (w *world) client() *redoubt.Client { return w.clientAt(w.Addr) }

func (w *world) clientAt(addr string) *redoubt.Client {
	w.t.Helper()
	conn, err := goredis.Wrap(w.dial(addr))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.clientOn(conn)
}

func (w *world) clientOn(conn redoubt.Conn) *redoubt.Client {
	w.t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{Prefix: w.Prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) mutex(c *redoubt.Client, opts lock.Options) *lock.Mutex {
	w.t.Helper()
	m, err := lock.New(c, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) key(name string) string { return w.Prefix + ":{" + name + "}:lock" }

// A taker is one kind of lock, or one way to take it.
type taker interface {
	TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error)
	Acquire(ctx context.Context, name string) (*lock.Lease, error)
}

// counting counts the commands of a Conn, renewals included.
type counting struct {
	redoubt.Conn
	redoubt.Subscriber

	n atomic.Int64
}

func newCounting(t *testing.T, rdb *redis.Client) *counting {
	t.Helper()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Conn: conn, Subscriber: conn}
}

func (c *counting) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.n.Add(1)
	return c.Conn.Do(ctx, cmd)
}

func (c *counting) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	c.n.Add(int64(len(cmds)))
	return c.Conn.Pipeline(ctx, cmds)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func try(t *testing.T, m taker, name string) *lock.Lease {
	t.Helper()
	lease, busy, err := m.TryAcquire(t.Context(), name)
	must(t, err)
	if busy != nil {
		t.Fatalf("lock %q is busy for %v", name, busy.Remaining)
	}
	return lease
}

// take acquires with a TTL so short that the first lease may be over when its
// reply comes.
func take(t *testing.T, m taker, name string) *lock.Lease {
	t.Helper()
	lease, err := m.Acquire(t.Context(), name)
	must(t, err)
	return lease
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 30*time.Second, what, ok)
}
