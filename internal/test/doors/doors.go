// Package doors runs tests of the primitives on every kind of back end that a client reaches
// as one server, those behind `redoubt serve` too: a pool of three servers, and a cluster.
package doors

import (
	"fmt"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Each is [redistest.Each], and runs a test behind pools too: as "pool" behind one of three
// servers, as "cluster pool" behind one in front of a cluster. All tests of a test binary share
// these, and no test can pause or kill their servers.
func Each(t *testing.T, run func(t *testing.T, b redistest.Backend)) {
	t.Helper()
	redistest.Each(t, run)
	for _, d := range []struct {
		name string
		open func(tb testing.TB) (addr string)
	}{{"pool", Pool}, {"cluster pool", ClusterPool}} {
		t.Run(d.name, func(t *testing.T) {
			addr := d.open(t)
			run(t, redistest.Backend{Name: d.name, URL: "redis://" + addr, Prefix: redistest.NewPrefix(), Addr: addr})
		})
	}
}

// EachInFull is Each, but for make test, which does without the pools. It is for most tests of a
// primitive: a few that show what pools could break run on Each.
func EachInFull(t *testing.T, run func(t *testing.T, b redistest.Backend)) {
	t.Helper()
	if testing.Short() {
		redistest.Each(t, run)
		return
	}
	Each(t, run)
}

// Pool returns the address of the pool of three servers.
func Pool(tb testing.TB) (addr string) {
	tb.Helper()
	return pool.serve(tb, func() proxy.PoolOptions {
		o := proxy.PoolOptions{Name: "servers", Hash: ring.MD5, Distribution: ring.Ketama, Tag: "{}"}
		for i, addr := range redistest.SharedServers(tb) {
			o.Servers = append(o.Servers, proxy.PoolServer{
				Server: ring.Server{Name: fmt.Sprint("redis-", i+1), Weight: 1}, Backend: &proxy.Redis{Addr: addr},
			})
		}
		return o
	})
}

// ClusterPool returns the address of the pool in front of a cluster.
func ClusterPool(tb testing.TB) (addr string) {
	tb.Helper()
	return clusterPool.serve(tb, func() proxy.PoolOptions {
		return proxy.PoolOptions{Name: "cluster", Cluster: &proxy.Cluster{
			Seeds: redistest.SharedCluster(tb), Backend: func(addr string) proxy.Backend { return &proxy.Redis{Addr: addr} },
		}}
	})
}

// M runs a package's tests and ends the pools that they have used.
type M struct{ TestingM }

// A TestingM is a testing.M, or what wraps one.
type TestingM interface{ Run() int }

// Run implements TestingM.
func (m M) Run() int {
	defer pool.close()
	defer clusterPool.close()
	return m.TestingM.Run()
}

// A door is a server that all tests share.
type door struct {
	mu    sync.Mutex
	addr  string
	srv   *server.Server
	ended chan struct{}
}

var pool, clusterPool door

func (d *door) close() {
	if d.srv != nil {
		_ = d.srv.Close()
		<-d.ended
	}
}

func (d *door) serve(tb testing.TB, options func() proxy.PoolOptions) (addr string) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.addr != "" {
		return d.addr
	}
	p, err := proxy.NewPool(options())
	if err != nil {
		tb.Fatal(err)
	}
	srv, err := server.New(server.Options{Pool: p})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	d.addr, d.srv, d.ended = l.Addr().String(), srv, make(chan struct{})
	go func() {
		defer close(d.ended)
		_ = srv.Serve(l)
	}()
	return d.addr
}
