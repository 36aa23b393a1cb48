package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// world is one back end with clients on it, each like a process of its own.
type world struct {
	redistest.Backend
	t   *testing.T
	rdb *redis.Client // for looking at keys
}

// each runs a test on every back end, make test but for pools.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

// everywhere is each, pools included in any case.
func everywhere(t *testing.T, run func(t *testing.T, w *world)) {
	doors.Each(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

// eachServer is for tests that read what scripts publish: it comes with the reply, which it
// doesn't through a pool.
func eachServer(t *testing.T, run func(t *testing.T, w *world)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

func newWorld(t *testing.T, b redistest.Backend) *world {
	return &world{Backend: b, t: t, rdb: clienttest.Dial(t, b.Addr)}
}

// now is the time of the server that has a name's keys.
func (w *world) now(name string) time.Time {
	w.t.Helper()
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	us, err := w.rdb.Eval(w.t.Context(), script, []string{w.key(name)}).Int64()
	must(w.t, err)
	return time.UnixMicro(us)
}

func (w *world) dial(addr string) *redis.Client { return clienttest.Dial(w.t, addr) }

// client returns a Client with connections of its own.
func (w *world) client() *redoubt.Client { return w.clientAt(w.Addr) }

func (w *world) clientAt(addr string) *redoubt.Client {
	w.t.Helper()
	return w.clientOn(clienttest.Wrap(w.t, w.dial(addr)))
}

func (w *world) clientOn(conn redoubt.Conn) *redoubt.Client {
	w.t.Helper()
	return clienttest.New(w.t, conn, w.Prefix)
}

func (w *world) mutex(c *redoubt.Client, opts lock.Options) *lock.Mutex {
	w.t.Helper()
	m, err := lock.New(c, opts)
	must(w.t, err)
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

func (w *world) key(name string) string { return w.Prefix + ":{" + name + "}:lock" }

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

func newCounting(t *testing.T, rdb *redis.Client) *counting {
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
