package cache_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

// withLocal keeps entries in the process for so long that only a message ends them.
func withLocal(o *options) { o.Local, o.LocalTTL = 1000, time.Hour }

// kept loads a key into the local level of c, once that listens.
func kept(t *testing.T, c *cache.Cache[string, string], key string, load cache.Loader[string, string]) {
	t.Helper()
	eventually(t, "it is kept", func() bool {
		was := c.Stats().LocalHits
		_, _, err := c.Get(t.Context(), key, load)
		must(t, err)
		_, _, err = c.Get(t.Context(), key, load)
		must(t, err)
		return c.Stats().LocalHits > was
	})
}

// An invalidation anywhere reaches all local levels in 100 ms.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestLocalLevelsHear(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		a, b, s := e.users(withLocal), e.users(withLocal), newSource("0")
		times, p := 20, e.pulse()
		if full() {
			times = 1000
		}
		for i := range times {
			kept(t, a, "1", s.load)
			kept(t, b, "1", s.load)
			want := strconv.Itoa(i + 1)
			s.value.Store(want)
			if i%2 == 0 {
				must(t, a.Invalidate(t.Context(), "1"))
			} else {
				must(t, a.Set(t.Context(), "1", want))
			}
			began := p.Now()
			gets(t, a, "1", want, s.load)
			eventually(t, "b sees it", func() bool {
				v, _, err := b.Get(t.Context(), "1", s.load)
				must(t, err)
				return v == want
			})
			if late := p.Now() - began; late > bound {
				t.Errorf("b saw it after %v", late)
			}
		}
		if n := b.Stats().LocalEntries; n == 0 {
			t.Error("nothing is kept")
		}
	})
}

// Entries that enter the local level together are not asked for again together.
func TestLocalJitter(t *testing.T) {
	t.Parallel()
	c, err := cache.New(newLocalClient(t), options{Name: "users", TTL: 1000 * time.Hour, Local: 1000, LocalTTL: 100 * time.Hour, NoEarlyRefresh: true})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "it listens", c.Heard)
	var tenths [10]int
	for i := range 500 {
		key := strconv.Itoa(i)
		gets(t, c, key, "v", newSource("v").load)
		left := c.LocalFresh(key)
		if left > 100*time.Hour || left < 89*time.Hour {
			t.Fatalf("one is kept for %v", left)
		}
		tenths[min(max(int(left/time.Hour)-90, 0), 9)]++
	}
	for _, n := range tenths {
		if n < 20 || n > 100 {
			t.Errorf("of 500, so many in each tenth of the window: %v", tenths)
		}
	}
}

// A process that was cut off during an invalidation drops all entries when it is connected again;
// until then it drops entries older than LocalTTL.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestLocalLevelCutOff(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		proxy := faultnet.New(t, b.Addr)
		direct := newEnv(t, b.Prefix, func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: b.Addr, MaxRetries: -1})
		})
		far := newEnv(t, b.Prefix, func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, DialTimeout: time.Second})
		})
		for what, ttl := range map[string]time.Duration{"reconnects": time.Hour, "waits": 300 * time.Millisecond} {
			s := newSource("old")
			a := direct.users(withLocal)
			b := far.users(withLocal, func(o *options) { o.LocalTTL, o.Timeout, o.Lease = ttl, time.Second, time.Second })
			kept(t, b, what, s.load)
			proxy.Refuse()
			proxy.Cut()
			s.value.Store("new")
			must(t, a.Invalidate(t.Context(), what))
			if what == "reconnects" {
				if v, _, err := b.Get(t.Context(), what, s.load); v != "old" || err != nil {
					t.Errorf("got %q, %v: what was to be tested did not happen", v, err)
				}
				proxy.Accept()
			}
			eventually(t, "b sees it", func() bool {
				v, _, err := b.Get(t.Context(), what, s.load)
				must(t, err)
				return v == "new"
			})
			proxy.Accept()
		}
	})
}

// A negative hit does not allocate either.
//
// Promise: a hit of the local level does not allocate.
func TestLocalHitAllocatesNothing(t *testing.T) {
	client := newLocalClient(t)
	type user struct {
		ID   int64
		Name string
	}
	c, err := cache.New(client, cache.Options[int64, user]{Name: "users", TTL: time.Hour, Local: 100, LocalTTL: time.Hour})
	must(t, err)
	defer func() { _ = c.Close() }()
	load := func(_ context.Context, id int64) (user, bool, error) { return user{id, "ann"}, id != 2, nil }
	for _, id := range []int64{1, 2} {
		get := func() bool {
			u, found, err := c.Get(t.Context(), id, load)
			return err == nil && found == (id == 1) && (!found || u.ID == id)
		}
		eventually(t, "it is kept", func() bool {
			was := c.Stats().LocalHits
			get()
			return get() && c.Stats().LocalHits > was
		})
		was := c.Stats().LocalHits
		ctx, all := t.Context(), true
		if n := testing.AllocsPerRun(1000, func() {
			_, found, err := c.Get(ctx, id, load)
			all = all && err == nil && found == (id == 1)
		}); n != 0 && !slow.Race || !all {
			t.Errorf("%v allocations, all right: %v", n, all)
		}
		if n := c.Stats().LocalHits - was; n != 1001 {
			t.Errorf("%d of 1001 were hits", n)
		}
	}
}

// A server that is down gets no calls for a while. The source is asked, or a stale value is served.
//
// Promise: Get does not fail because the server is down: it asks the source.
func TestServerDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := newEnv(t, "p", func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialTimeout: time.Second})
	})
	quick := func(o *options) { o.Timeout, o.Lease = 200*time.Millisecond, time.Second }
	c, s := e.users(quick), newSource("ann")
	stale := e.users(quick, func(o *options) {
		o.Name, o.Local, o.LocalTTL, o.StaleIfError = "stale", 100, time.Millisecond, time.Hour
	})
	slow := e.users(quick, func(o *options) { o.Name, o.Local, o.LocalTTL = "slow", 100, 200*time.Millisecond })
	eventually(t, "it listens", slow.Heard)
	gets(t, c, "1", "ann", s.load)
	keptOnce(t, stale, "1", s.load)
	server.Kill()
	s.value.Store("bob")
	for range 50 {
		gets(t, c, "1", "bob", s.load)
	}
	gets(t, stale, "1", "ann", never(t))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Invalidate(ctx, "1"); err == nil {
		t.Error("an invalidation that nobody heard is no error")
	}
	if n := c.Stats().ServerErrors; n == 0 || n > 60 {
		t.Errorf("%d serverErrors: the server is to be left alone for a while", n)
	}
	// A value that was loaded without the server is as old as its load was long.
	was := s.loads.Load()
	for range 2 {
		gets(t, slow, "1", "bob", func(ctx context.Context, key string) (string, bool, error) {
			<-time.After(250 * time.Millisecond)
			return s.load(ctx, key)
		})
	}
	s.asked(t, was+2)
	many, err := c.GetMany(t.Context(), []string{"1", "2"}, func(_ context.Context, keys []string) (map[string]string, error) {
		return map[string]string{keys[0]: "x", keys[1]: "y"}, nil
	})
	if len(many) != 2 || err != nil {
		t.Errorf("%v, %v", many, err)
	}
}

// keptOnce puts a key into a local level that keeps it for a moment only.
func keptOnce(t *testing.T, c *cache.Cache[string, string], key string, load cache.Loader[string, string]) {
	t.Helper()
	eventually(t, "it is kept", func() bool {
		_, _, err := c.Get(t.Context(), key, load)
		must(t, err)
		return c.Stats().LocalEntries == 1
	})
}

// A server that comes back is used again, and the local level drops its earlier values.
//
// Promise: Get does not fail because the server is down: it asks the source.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn, err := goredis.Open(t.Context(), server.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	e := &env{Env: &testenv.Env{Backend: redistest.Backend{Prefix: "p"}, T: t}}
	quick := func(o *options) { o.Timeout, o.Lease = 200*time.Millisecond, time.Second }
	b, s := e.usersOn(e.ClientOn(conn), withLocal, quick), newSource("old")
	kept(t, b, "1", s.load)
	server.Kill()
	s.value.Store("new") // nobody can tell
	server.Restart()
	eventually(t, "b sees it", func() bool {
		v, _, err := b.Get(t.Context(), "1", s.load)
		must(t, err)
		return v == "new"
	})
	eventually(t, "the server is used", func() bool {
		other := e.usersOn(e.ClientOn(conn), quick)
		defer func() { _ = other.Close() }()
		gets(t, b, "2", "new", s.load)
		gets(t, other, "2", "new", s.load)
		return other.Stats().Hits == 1
	})
}
