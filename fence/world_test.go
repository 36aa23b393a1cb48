package fence_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/redistest"
)

// world is one back end.
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

// guard returns a Guard with connections of its own, like that of another
// process.
func (w *world) guard(opts fence.Options) *fence.Guard { return w.guardOn(w.rdb, opts) }

func (w *world) guardOn(rdb *redis.Client, opts fence.Options) *fence.Guard {
	w.t.Helper()
	conn, err := goredis.Wrap(rdb)
	must(w.t, err)
	client, err := redoubt.New(conn, redoubt.Options{Prefix: w.Prefix})
	must(w.t, err)
	w.t.Cleanup(func() { _ = client.Close() })
	g, err := fence.New(client, opts)
	must(w.t, err)
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stale fails the test unless err says that the resource has seen largest.
func stale(t testing.TB, err error, largest int64) {
	t.Helper()
	se, ok := errors.AsType[*fence.StaleError](err)
	if !ok || !errors.Is(err, fence.ErrStale) || se.Largest != largest {
		t.Errorf("error %v, want that %d has been seen", err, largest)
	}
}

func set(key, value string) redoubt.Cmd {
	return redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{value}, Flags: redoubt.Idempotent}
}
