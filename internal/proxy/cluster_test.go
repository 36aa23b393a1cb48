package proxy

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestForgottenNode: a node that has left the cluster is left alone, also while it can't be
// reached, and one that is used is not.
func TestForgottenNode(t *testing.T) {
	nodes := redistest.StartCluster(t, 1, 0)
	p, err := NewPool(PoolOptions{Name: "alpha", Cluster: &Cluster{
		Seeds: nodes.Addrs(), Backend: func(addr string) Backend { return &Redis{Addr: addr} },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	const down, used = "127.0.0.1:1", "127.0.0.1:2"
	age := func(addr string) {
		n := p.cluster.at(addr)
		if _, err := n.Upstream(resp.RESP2); err != nil { // which fails again and again
			t.Fatal(err)
		}
		p.cluster.mu.Lock()
		n.used = time.Now().Add(-time.Hour)
		p.cluster.mu.Unlock()
	}
	age(used)
	p.cluster.at(used)
	age(down)
	await.Soon(t, "it is forgotten", func() bool { return !p.cluster.knows(down) })
	if !p.cluster.knows(used) || !p.cluster.knows(nodes.Addrs()[0]) {
		t.Error("a node that is used is forgotten")
	}
}
