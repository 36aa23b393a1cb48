package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestClusterSwitch: a master that gives its place to a replica, and answers still, has its
// say: what is watched there has changed, which is no error.
func TestClusterSwitch(t *testing.T) {
	slow.Test(t, "a replica of a cluster takes seconds to be ready for the place of its master")
	p := startCluster(t, 1)
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprintf("k%d", i); p.at(t, k) == p.nodes[0] {
			key = k
		}
	}
	w, other := dial(t, p.addr), dial(t, p.addr)
	w.want("+OK\r\n", "SET "+key+" v")
	w.want("+OK\r\n", "WATCH "+key)
	eventually(t, "the replica has it", func() bool { return p.nodes[3].CLI("DBSIZE") == "1" })
	if got := p.nodes[3].CLI("CLUSTER", "FAILOVER"); got != "OK" {
		t.Fatal(got)
	}
	eventually(t, "the slots are elsewhere", func() bool { return p.at(t, key) == p.nodes[3] })
	// A silent one would be given up meanwhile.
	await.Always(t, 2500*time.Millisecond, "others go on", func() bool { return other.do("GET", key) == bulk("v") })
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET "+key+" w")
	w.want("*-1\r\n", "EXEC")
	w.want(bulk("v"), "GET "+key)
}
