package lock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

func TestMain(m *testing.M) {
	faults.Main()
	faults.WorkIfHired(orders.work)
	os.Exit(doors.M{TestingM: exampleserver.M{M: m}}.Run())
}

var connect = exampleserver.Connect

// env is one back end with clients on it, each like a process of its own.
type env struct{ *testenv.Env }

// each runs a test on every back end, make test but for pools.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// everywhere is each, pools included in any case.
func everywhere(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.Each(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// eachServer is for tests that read what scripts publish: it comes with the reply, which it
// doesn't through a pool.
func eachServer(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachServer(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// in returns the same env for a subtest.
func (e *env) in(t *testing.T) *env { return &env{e.In(t)} }

// newClient returns a Client with its own connections.
func (e *env) newClient() *redoubt.Client { return e.ClientAt(e.Addr) }

// now is the time of the server that has a name's keys.
func (e *env) now(name string) time.Time {
	e.T.Helper()
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	us, err := e.Redis.Eval(e.T.Context(), script, []string{e.key(name)}).Int64()
	must(e.T, err)
	return time.UnixMicro(us)
}

func (e *env) mutex(c *redoubt.Client, opts lock.Options) *lock.Mutex {
	e.T.Helper()
	m, err := lock.New(c, opts)
	must(e.T, err)
	return m
}

// optionsOf returns opts as the options of another kind of lock.
func optionsOf[O lock.RWMutexOptions | lock.SemaphoreOptions | lock.MultiOptions | lock.QuorumOptions](opts lock.Options) O {
	return O(struct {
		TTL     time.Duration
		NoRenew bool
		Label   string
	}{opts.TTL, opts.NoRenew, opts.Label})
}

func (e *env) key(name string) string { return e.Key(name, "lock") }

// A taker is one kind of lock, or one way to take it.
type taker interface {
	TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error)
	Acquire(ctx context.Context, name string) (*lock.Lease, error)
}

// counting counts what a Conn is asked to send, renewals included.
type counting struct {
	clienttest.Counter
	redoubt.Subscriber
}

func newCounting(t *testing.T, rdb redis.UniversalClient) *counting {
	t.Helper()
	conn := clienttest.Wrap(t, rdb)
	c := &counting{Subscriber: conn}
	c.Conn = conn
	return c
}

var must, eventually = expect.Must, await.Soon

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

// keyOf returns the key of the lock called name.
func keyOf(client *redoubt.Client, name string) (string, error) {
	keys, err := wire.Keys(client, name)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}
