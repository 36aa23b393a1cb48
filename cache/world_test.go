package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// world is one back end for processes that share caches.
type world struct {
	prefix  string
	t       testing.TB
	addrs   []string
	cluster bool
	rdb     redis.UniversalClient // for looking at keys
	dial    func() redis.UniversalClient
}

// each runs a test on a server, on the engine, on a cluster, and make test-all behind pools too.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	t.Parallel()
	on(t, doors.EachInFull, run)
}

// everywhere is each, pools included in any case.
func everywhere(t *testing.T, run func(t *testing.T, w *world)) {
	t.Parallel()
	on(t, doors.Each, run)
}

func on(t *testing.T, backends func(*testing.T, func(*testing.T, redistest.Backend)), run func(t *testing.T, w *world)) {
	backends(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b.Prefix, b.Addr)) })
	t.Run("cluster", func(t *testing.T) { run(t, onCluster(t)) })
}

func onCluster(t *testing.T) *world {
	return newWorld(t, fmt.Sprint("c", prefixes.Add(1)), sharedCluster(t)...)
}

// newWorld is one on a server, or on a cluster where there are more.
func newWorld(t *testing.T, prefix string, addrs ...string) *world {
	w := &world{prefix: prefix, t: t, addrs: addrs, cluster: len(addrs) > 1}
	w.dial = func() redis.UniversalClient {
		rdb := dial(w.addrs, w.cluster)
		clienttest.Watch(t, rdb)
		return rdb
	}
	w.rdb = w.connect()
	return w
}

// dial returns connections to a server or a cluster that may take its time: what a cache
// gives up on is not kept.
func dial(addrs []string, cluster bool) redis.UniversalClient {
	o := &redis.UniversalOptions{Addrs: addrs, IsClusterMode: cluster, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	if cluster {
		o.MaxRetries = 0
	}
	return redis.NewUniversalClient(o)
}

var prefixes atomic.Int64

// connect returns connections of its own.
func (w *world) connect() redis.UniversalClient {
	rdb := w.dial()
	w.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// client returns the Client of another process.
func (w *world) client() *redoubt.Client {
	return w.clientOn(clienttest.Wrap(w.t, w.connect()))
}

func (w *world) clientOn(conn redoubt.Conn) *redoubt.Client {
	w.t.Helper()
	return clienttest.New(w.t, conn, w.prefix)
}

// A timed cache is one of another process, on a server whose clock is set.
type timed struct {
	*cache.Cache[string, string]
	clock *frozenclock.Conn
}

func (w *world) timed(change ...func(o *options)) timed {
	clock := frozenclock.New(clienttest.Wrap(w.t, w.connect()), wire.Scripts(), nil)
	return timed{w.usersOn(w.clientOn(clock), change...), clock}
}

// at sets the clock to a time since its start.
func (c timed) at(d time.Duration) {
	c.clock.Set(time.Unix(1_760_000_000, 0).Add(d))
	c.Resync()
}

type options = cache.Options[string, string]

// patient are the options of users that a slow machine doesn't try.
var patient = options{Name: "users", TTL: time.Hour, Timeout: time.Minute, Lease: time.Minute, LoadTimeout: 2 * time.Minute}

// users returns the cache of another process.
func (w *world) users(change ...func(o *options)) *cache.Cache[string, string] {
	w.t.Helper()
	return w.usersOn(w.client(), change...)
}

func (w *world) usersOn(client *redoubt.Client, change ...func(o *options)) *cache.Cache[string, string] {
	w.t.Helper()
	o := patient
	for _, c := range change {
		c(&o)
	}
	c, err := cache.New(client, o)
	must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// key is where an entry is.
func (w *world) key(text string) string { return w.prefix + ":{users:" + text + "}:cache" }

// A source counts what it is asked.
type source struct {
	loads atomic.Int64
	value atomic.Value // string; "" is none
	err   atomic.Pointer[error]
}

func newSource(value string) *source {
	s := &source{}
	s.value.Store(value)
	return s
}

func (s *source) load(context.Context, string) (string, bool, error) {
	s.loads.Add(1)
	if err := s.err.Load(); err != nil {
		return "", false, *err
	}
	v := s.value.Load().(string)
	return v, v != "", nil
}

func (s *source) fail(err error) {
	if err == nil {
		s.err.Store(nil)
	} else {
		s.err.Store(&err)
	}
}

// asked fails the test unless the source was asked n times.
func (s *source) asked(t testing.TB, n int64) {
	t.Helper()
	if got := s.loads.Load(); got != n {
		t.Fatalf("the source was asked %d times, want %d", got, n)
	}
}

// gets fails the test unless Get has the value; "" is none.
func gets(t testing.TB, c *cache.Cache[string, string], key, want string, load cache.Loader[string, string]) {
	t.Helper()
	v, found, err := c.Get(t.Context(), key, load)
	must(t, err)
	if v != want || found != (want != "") {
		t.Fatalf("got %q, %v; want %q", v, found, want)
	}
}

// never is a load that must not be called.
func never(t testing.TB) cache.Loader[string, string] {
	return func(_ context.Context, key string) (string, bool, error) {
		t.Errorf("%s was loaded", key)
		return "", false, errors.New("not to be asked")
	}
}

var must, is, says, eventually = expect.Must, expect.Is, expect.Says, await.Soon
