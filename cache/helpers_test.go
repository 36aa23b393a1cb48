package cache_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// A mainTB is a testing.TB for what all tests of the package share.
type mainTB struct {
	testing.TB
	cleanups []func()
}

func (m *mainTB) Helper()          {}
func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }
func (m *mainTB) Name() string     { return "TestMain" }
func (m *mainTB) TempDir() string  { return os.TempDir() }

func (m *mainTB) end() {
	for _, f := range slices.Backward(m.cleanups) {
		f()
	}
}

var shared struct {
	mainTB
	sync.Mutex
	addrs []string
}

// sharedCluster starts a cluster for all tests when the first asks for it.
func sharedCluster(t *testing.T) []string {
	shared.Lock()
	defer shared.Unlock()
	if shared.addrs == nil {
		shared.TB = t // for what it reports while it starts
		shared.addrs = redistest.StartCluster(&shared.mainTB, 3, 0).Addrs()
	}
	return shared.addrs
}

func TestMain(m *testing.M) {
	faults.WorkIfHired(coldOrders.work)
	code := doors.M{TestingM: exampleserver.M{M: m}}.Run()
	shared.end()
	os.Exit(code)
}

// full says that the tests of guarantees run at their full length: CACHE=full.
func full() bool { return os.Getenv("CACHE") == "full" }

// newLocalClient returns a Client on an embedded engine.
func newLocalClient(t testing.TB) *redoubt.Client {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	c, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// env is one back end for processes that share caches.
type env struct {
	*testenv.Env
	dial  func() redis.UniversalClient
	addrs []string // what dial connects to, if a test needs it
}

// each runs a test on a server, on the engine, on a cluster, and make test-all behind pools too.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	t.Parallel()
	on(t, doors.EachInFull, run)
}

// everywhere is each, pools included in any case.
func everywhere(t *testing.T, run func(t *testing.T, e *env)) {
	t.Parallel()
	on(t, doors.Each, run)
}

func on(t *testing.T, backends func(*testing.T, func(*testing.T, redistest.Backend)), run func(t *testing.T, e *env)) {
	backends(t, func(t *testing.T, b redistest.Backend) { run(t, onAddrs(t, b.Prefix, b.Addr)) })
	t.Run("cluster", func(t *testing.T) { run(t, onCluster(t)) })
}

func onCluster(t *testing.T) *env {
	return onAddrs(t, redistest.NewPrefix(), sharedCluster(t)...)
}

// onAddrs returns an env on a server, or on a cluster if there are several addresses.
func onAddrs(t *testing.T, prefix string, addrs ...string) *env {
	e := newEnv(t, prefix, func() redis.UniversalClient {
		rdb := dial(addrs, len(addrs) > 1)
		clienttest.Watch(t, rdb)
		return rdb
	})
	e.addrs = addrs
	return e
}

func newEnv(tb testing.TB, prefix string, dial func() redis.UniversalClient) *env {
	rdb := dial()
	tb.Cleanup(func() { _ = rdb.Close() })
	return &env{testenv.On(tb, redistest.Backend{Prefix: prefix}, rdb), dial, nil}
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

// connect returns connections of its own.
func (e *env) connect() redis.UniversalClient {
	rdb := e.dial()
	e.T.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newClient returns the Client of another process.
func (e *env) newClient() *redoubt.Client {
	return e.ClientOn(clienttest.Wrap(e.T, e.connect()))
}

// A timed cache is one of another process, on a server whose clock is set.
type timed struct {
	*cache.Cache[string, string]
	clock *frozenclock.Conn
}

func (e *env) timed(change ...func(o *options)) timed {
	clock := frozenclock.New(clienttest.Wrap(e.T, e.connect()), wire.Scripts(), nil)
	return timed{e.usersOn(e.ClientOn(clock), change...), clock}
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
func (e *env) users(change ...func(o *options)) *cache.Cache[string, string] {
	e.T.Helper()
	return e.usersOn(e.newClient(), change...)
}

func (e *env) usersOn(client *redoubt.Client, change ...func(o *options)) *cache.Cache[string, string] {
	e.T.Helper()
	o := patient
	for _, c := range change {
		c(&o)
	}
	c, err := cache.New(client, o)
	must(e.T, err)
	e.T.Cleanup(func() { _ = c.Close() })
	return c
}

// key is where an entry is.
func (e *env) key(text string) string { return e.Key("users:"+text, "cache") }

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
