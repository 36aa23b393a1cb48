package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestCluster(t *testing.T) {
	began := time.Now()
	c := redistest.StartCluster(t, 3, 1) // fails the test when it takes too long
	t.Logf("up in %v", time.Since(began))
	if n := len(c.Nodes()); n != 6 || len(c.Addrs()) != 6 {
		t.Fatalf("it has %d nodes and %d addresses, want 6", n, len(c.Addrs()))
	}
	for i, n := range c.Nodes() {
		role := n.CLI("INFO", "replication")
		if want := [...]string{"role:master", "role:slave"}[i/3]; !strings.Contains(role, want) {
			t.Errorf("node %d: want %s: %s", i, want, role)
		}
		if i < 3 && !strings.Contains(role, "connected_slaves:1") {
			t.Errorf("node %d: want one replica: %s", i, role)
		}
	}

	opts, err := redis.ParseClusterURL(c.URL())
	if err != nil || strings.Join(opts.Addrs, " ") != strings.Join(c.Addrs(), " ") {
		t.Fatalf("URL %s gives addresses %v, %v", c.URL(), opts, err)
	}
	rdb := redis.NewClusterClient(opts)
	defer rdb.Close()
	served := map[*redistest.Server]bool{}
	for _, key := range []string{"a", "b", "c", "{a}d"} { // slots 15495, 3300, 7365
		if err := rdb.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatalf("SET %s: %v", key, err)
		}
		p := c.Primary(key)
		if got := p.CLI("GET", key); got != key {
			t.Errorf("GET %s on its primary printed %q", key, got)
		}
		served[p] = true
	}
	if len(served) != 3 {
		t.Errorf("keys of all three ranges are on %d nodes", len(served))
	}
	if c.Primary("a") != c.Primary("{a}d") {
		t.Error("the hash tag does not count")
	}
}

func TestReplicaTakesOver(t *testing.T) {
	c := redistest.StartCluster(t, 3, 1)
	old := c.Primary("k")
	if got := old.CLI("SET", "k", "v"); got != "OK" {
		t.Fatalf("SET printed %q", got)
	}
	if got := old.CLI("WAIT", "1", "10000"); got != "1" {
		t.Fatalf("WAIT printed %q", got)
	}
	old.Kill()
	now := c.Primary("k")
	if now == old {
		t.Fatal("the killed node is still the primary")
	}
	if got := now.CLI("GET", "k"); got != "v" {
		t.Errorf("GET after the failover printed %q", got)
	}
}

func TestClusterOfOne(t *testing.T) {
	c := redistest.StartCluster(t, 1, 0)
	if c.Primary("k") != c.Nodes()[0] {
		t.Error("the one node is not the primary")
	}
	if strings.Contains(c.URL(), "?") {
		t.Errorf("URL is %s", c.URL())
	}
}
