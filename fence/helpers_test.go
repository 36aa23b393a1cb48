package fence_test

import (
	"errors"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(exampleserver.M{M: m}.Run()) }

var connect = exampleserver.Connect

// env is one back end.
type env struct{ *testenv.Env }

func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachServer(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// guard returns a Guard with its own connections, like that of another
// process.
func (e *env) guard(opts fence.Options) *fence.Guard { return e.guardOn(e.Redis, opts) }

func (e *env) guardOn(rdb redis.UniversalClient, opts fence.Options) *fence.Guard {
	e.T.Helper()
	g, err := fence.New(e.ClientOn(clienttest.Wrap(e.T, rdb)), opts)
	must(e.T, err)
	return g
}

var must = expect.Must

// stale fails the test unless err says that the resource has seen largest.
func stale(t testing.TB, err error, largest int64) {
	t.Helper()
	se, ok := errors.AsType[*fence.StaleError](err)
	if !ok || !errors.Is(err, fence.ErrStale) || se.Current != largest {
		t.Errorf("error %v, want that %d has been seen", err, largest)
	}
}

func set(key, value string) redoubt.Cmd {
	return redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{value}, Flags: redoubt.Idempotent}
}
