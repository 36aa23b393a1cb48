package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/redoubttest"
)

// wrap returns a Conn over a client with go-redis' own defaults, which are the
// dangerous ones: it resends and looks at no context.
func wrap(t *testing.T, opts *redis.Options) redoubt.Conn {
	t.Helper()
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return wrapped(t, rdb)
}

func wrapped(t *testing.T, rdb redis.UniversalClient) redoubt.Conn {
	t.Helper()
	c, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dial opens a Conn by URL.
func dial(t *testing.T, url string) *goredis.Client {
	t.Helper()
	c, err := goredis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestConformance(t *testing.T) {
	s := redistest.Start(t)
	t.Run("Wrap", func(t *testing.T) {
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return wrap(t, &redis.Options{Addr: s.Addr()}) })
	})
	t.Run("WrapRESP2", func(t *testing.T) {
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn {
			return wrap(t, &redis.Options{Addr: s.Addr(), Protocol: 2, PoolSize: 2})
		})
	})
	t.Run("Open", func(t *testing.T) {
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return dial(t, s.URL()) })
	})
	t.Run("OpenSocket", func(t *testing.T) {
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return dial(t, "unix://"+s.Socket()) })
	})
}

func TestConformanceCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	t.Run("Wrap", func(t *testing.T) {
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
			t.Cleanup(func() { _ = rdb.Close() })
			return wrapped(t, rdb)
		})
	})
	t.Run("Open", func(t *testing.T) { // by one node
		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return dial(t, "redis://"+cluster.Addrs()[0]) })
	})
}

func TestConformanceRedirects(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	redoubttest.RunCluster(t, func(t *testing.T) redoubt.Conn {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
		t.Cleanup(func() { _ = rdb.Close() })
		return wrapped(t, rdb)
	})
}
