package fence_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// world is one back end.
type world struct {
	redistest.Backend
	t   *testing.T
	rdb *redis.Client // for looking at keys
}

func each(t *testing.T, run func(t *testing.T, w *world)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		run(t, &world{Backend: b, t: t, rdb: clienttest.Dial(t, b.Addr)})
	})
}

// guard returns a Guard with connections of its own, like that of another
// process.
func (w *world) guard(opts fence.Options) *fence.Guard { return w.guardOn(w.rdb, opts) }

func (w *world) guardOn(rdb *redis.Client, opts fence.Options) *fence.Guard {
	w.t.Helper()
	g, err := fence.New(clienttest.New(w.t, clienttest.Wrap(w.t, rdb), w.Prefix), opts)
	must(w.t, err)
	return g
}

var must = expect.Must

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
