package redistest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// SharedServers returns the addresses of three redis-servers that all tests of this binary share,
// as they do the one of [Each]. The first of them starts them.
func SharedServers(tb testing.TB) (addrs []string) {
	tb.Helper()
	return addrsOf(tb, sharedServers)
}

// SharedCluster returns the addresses of the three nodes of a cluster, like [SharedServers]. Tests of
// clusters are left to make test-all.
func SharedCluster(tb testing.TB) (addrs []string) {
	tb.Helper()
	slow.Test(tb, "it needs a cluster")
	return addrsOf(tb, sharedCluster)
}

var (
	sharedServers = sync.OnceValues(func() ([]*Server, error) { return startThree(nil) })
	sharedCluster = sync.OnceValues(func() ([]*Server, error) {
		nodes, err := startThree(nodeArgs)
		if err == nil {
			err = (&Cluster{nodes: nodes}).form(len(nodes))
		}
		return nodes, err
	})
)

// startThree starts servers that no test ends.
func startThree(args []string) ([]*Server, error) {
	servers, errs := make([]*Server, 3), make([]error, 3)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			p, err := startShared(slices.Clone(args))
			servers[i], errs[i] = &Server{p: p, shared: true}, err
		})
	}
	wg.Wait()
	return servers, errors.Join(errs...)
}

func addrsOf(tb testing.TB, start func() ([]*Server, error)) (addrs []string) {
	tb.Helper()
	servers, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}
