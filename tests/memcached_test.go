package tests

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/redoubt-go/redoubt/internal/proxy/memcached"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/programs"
)

// A cachePool is a pool of three memcached servers, and where it listens.
type cachePool struct {
	*memcached.Pool
	servers []*memcachedtest.Server
	addr    string
	ring    *ring.Ring
}

func startCachePool(t *testing.T, timeout time.Duration) *cachePool {
	t.Helper()
	p := &cachePool{}
	opts := memcached.Options{Name: "test", Timeout: timeout, DialTimeout: timeout}
	var names []ring.Server
	for i := range 3 {
		s := memcachedtest.Start(t)
		p.servers = append(p.servers, s)
		names = append(names, ring.Server{Name: fmt.Sprintf("s%d", i), Weight: 1})
		opts.Servers = append(opts.Servers, memcached.Server{Server: names[i], Addr: s.Addr()})
	}
	var err error
	if p.ring, err = ring.New(ring.Options{Servers: names}); err != nil {
		t.Fatal(err)
	}
	if p.Pool, err = memcached.New(opts); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, memcached.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

// TestGomemcache: a client of memcached works on a pool of three servers.
func TestGomemcache(t *testing.T) {
	p := startCachePool(t, time.Minute)
	c := memcache.New(p.addr)
	c.Timeout = time.Minute
	t.Cleanup(func() { _ = c.Close() })
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			if err := use(c, fmt.Sprintf("user%d:", u)); err != nil {
				t.Errorf("user %d: %v", u, err)
			}
		})
	}
	users.Wait()
	if err := errors.Join(c.Ping(), c.FlushAll()); err != nil {
		t.Error(err)
	}
	if _, err := c.Get("user0:0"); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("after FlushAll: %v", err)
	}
}

// TestGomemcacheFaults: while a server is killed, started again and frozen, calls for
// keys of the others have no error and find what was set, and no call has a value of
// another key.
func TestGomemcacheFaults(t *testing.T) {
	t.Parallel()
	p := startCachePool(t, 5*time.Second) // what is well must not seem frozen on a machine that stands still
	const bad = 0
	var stop atomic.Bool
	var calls, faults atomic.Int64
	var users sync.WaitGroup
	for u := range 8 {
		c := memcache.New(p.addr)
		c.Timeout = time.Minute
		t.Cleanup(func() { _ = c.Close() })
		users.Go(func() {
			for i := 0; !stop.Load() && !t.Failed(); i++ {
				key := fmt.Sprintf("user%d:%d", u, i%50)
				weak := p.ring.Pick([]byte(key)) == bad
				value := key + " " + strconv.Itoa(i)
				err := c.Set(&memcache.Item{Key: key, Value: []byte(value)})
				var it *memcache.Item
				if err == nil {
					it, err = c.Get(key)
				}
				switch {
				case err != nil && !weak:
					t.Errorf("%s, of a server that is well: %v", key, err)
				case err != nil:
					faults.Add(1)
				case string(it.Value) != value:
					t.Errorf("%s is %q, want %q", key, it.Value, value)
				}
				calls.Add(1)
			}
		})
	}
	up := func(want bool) func() bool { return func() bool { return p.Stats().Servers[bad].Up == want } }
	more := func() {
		n := calls.Load()
		await.Until(t, time.Minute, "more calls", func() bool { return calls.Load() > n+200 || t.Failed() })
	}
	more()
	p.servers[bad].Kill()
	await.Until(t, time.Minute, "lost", up(false))
	more()
	p.servers[bad].Restart()
	await.Until(t, time.Minute, "connected again", up(true))
	more()
	late := p.Stats().Servers[bad].Timeouts
	p.servers[bad].Pause()
	await.Until(t, time.Minute, "late", func() bool { return p.Stats().Servers[bad].Timeouts > late })
	more()
	p.servers[bad].Resume()
	stop.Store(true)
	users.Wait()
	if t.Logf("%d calls, %d errors", calls.Load(), faults.Load()); faults.Load() == 0 {
		t.Error("no error: the faults were none")
	}
}

// TestPymemcache: the usual client of Python works on a pool of three servers.
func TestPymemcache(t *testing.T) {
	p := startCachePool(t, time.Minute)
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), programs.Python(t, "pymemcache"), "-", port) //nolint:gosec // one of two
	cmd.Stdin = strings.NewReader(pymemcacheScript)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "fine\n" {
		t.Errorf("%v: %s", err, out)
	}
}

const pymemcacheScript = `
import sys, threading
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

def use(prefix):
    c = Client(("127.0.0.1", int(sys.argv[1])), timeout=60, no_delay=True, encoding="utf-8")
    keys = [prefix + str(i) for i in range(100)]
    assert c.set_many({k: "is " + k for k in keys}, noreply=False) == []
    assert c.get_many(keys + [prefix + "none"]) == {k: ("is " + k).encode() for k in keys}
    k = keys[0]
    for i in range(50):  # without answers
        c.set(k, str(i), noreply=True)
    assert c.get(k) == b"49", c.get(k)
    value, unique = c.gets(k)
    assert c.cas(k, "10", unique) is True and c.cas(k, "11", unique) is False
    assert c.incr(k, 5) == 15 and c.decr(k, 20) == 0 and c.incr(prefix + "none", 1) is None
    assert c.add(k, "x", noreply=False) is False and c.replace(k, "b", noreply=False) is True
    assert c.append(k, "c", noreply=False) and c.prepend(k, "a", noreply=False)
    assert c.get(k) == b"abc" and c.touch(k, 100, noreply=False) is True
    assert set(c.gets_many(keys)) == set(keys)
    assert c.delete(k, noreply=False) is True and c.delete(k, noreply=False) is False
    c.set(k, "v" * 500000)
    assert len(c.get(k)) == 500000
    try:
        c.get("k" * 251)
        assert False
    except MemcacheClientError:
        pass
    c.close()
    done.append(prefix)

done = []
users = [threading.Thread(target=use, args=("user%d:" % u,)) for u in range(4)]
for u in users: u.start()
for u in users: u.join()
assert len(done) == 4
c = Client(("127.0.0.1", int(sys.argv[1])), timeout=60)
assert c.version() and c.stats()[b"curr_items"] == 400
assert c.flush_all(noreply=False) and c.get("user0:1") is None
print("fine")
`

// use does all that the client can do, to a hundred keys.
func use(c *memcache.Client, prefix string) error {
	var keys []string
	for i := range 100 {
		k := fmt.Sprintf("%s%d", prefix, i)
		keys = append(keys, k)
		if err := c.Set(&memcache.Item{Key: k, Value: []byte(k), Flags: 7}); err != nil {
			return err
		}
	}
	all, err := c.GetMulti(append(keys, prefix+"none"))
	if err != nil || len(all) != len(keys) {
		return fmt.Errorf("GetMulti: %d values, %w", len(all), err)
	}
	for k, it := range all {
		if it.Key != k || string(it.Value) != k || it.Flags != 7 {
			return fmt.Errorf("%s: %+v", k, it)
		}
	}
	k := keys[0]
	first, err := c.Get(k)
	if err != nil {
		return err
	}
	second := *first
	second.Value = []byte("10")
	if err := c.CompareAndSwap(&second); err != nil {
		return err
	}
	if err := c.CompareAndSwap(first); !errors.Is(err, memcache.ErrCASConflict) {
		return fmt.Errorf("CompareAndSwap: %w", err)
	}
	if n, err := c.Increment(k, 5); n != 15 || err != nil {
		return fmt.Errorf("Increment: %d, %w", n, err)
	}
	if n, err := c.Decrement(k, 20); n != 0 || err != nil {
		return fmt.Errorf("Decrement: %d, %w", n, err)
	}
	if err := c.Add(&memcache.Item{Key: k}); !errors.Is(err, memcache.ErrNotStored) {
		return fmt.Errorf("Add: %w", err)
	}
	err = errors.Join(
		c.Replace(&memcache.Item{Key: k, Value: []byte("b")}), c.Append(&memcache.Item{Key: k, Value: []byte("c")}),
		c.Prepend(&memcache.Item{Key: k, Value: []byte("a")}), c.Touch(k, 100),
	)
	if err != nil {
		return err
	}
	if it, err := c.GetAndTouch(k, 100); err != nil || string(it.Value) != "abc" {
		return fmt.Errorf("GetAndTouch: %+v, %w", it, err)
	}
	if err := c.Delete(k); err != nil {
		return err
	}
	if err := c.Delete(k); !errors.Is(err, memcache.ErrCacheMiss) {
		return fmt.Errorf("Delete: %w", err)
	}
	return nil
}
