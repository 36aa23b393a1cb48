package tests

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/redoubt-go/redoubt/internal/memcachedtest"
	"github.com/redoubt-go/redoubt/proxy/memcached"
	"github.com/redoubt-go/redoubt/proxy/ring"
)

// TestGomemcache: a client of memcached works on a pool of three servers.
func TestGomemcache(t *testing.T) {
	opts := memcached.Options{Name: "test"}
	for i := range 3 {
		opts.Servers = append(opts.Servers, memcached.Server{
			Server: ring.Server{Name: fmt.Sprintf("s%d", i), Weight: 1}, Addr: memcachedtest.Start(t).Addr(),
		})
	}
	p, err := memcached.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	c := memcache.New(l.Addr().String())
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
