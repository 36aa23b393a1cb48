package poolhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestServePoolCluster: clients use a cluster as one server, INFO and the metrics show its masters, and reloading
// an unchanged file does not disturb subscribers.
func TestServePoolCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	addr := freeAddr(t)
	conf := fmt.Sprintf("a:\n  listen: %s\n  redis: true\n  cluster:\n   - %s\n", addr, cluster.Addrs()[1])
	s := serve(t, conf)
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 2, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	for i := range 30 {
		if err := c.Set(t.Context(), fmt.Sprint("k", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	info := c.Info(t.Context(), "all").Val()
	metrics := s.metrics(t)
	for i, n := range cluster.Nodes() {
		if n.CLI("DBSIZE") == "0" {
			t.Errorf("node %d has no keys", i)
		}
		mustContain(t, "INFO", info, fmt.Sprintf("name=%s,up=true,slots=546", n.Addr()))
		mustContain(t, "metrics", metrics, fmt.Sprintf(`redoubt_pool_server_up{pool="a",protocol="resp3",server=%q} 1`, n.Addr()))
	}
	sub := c.Subscribe(t.Context(), "news")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.reload(t, "# the same\n"+conf, "reloaded the file of pools")
	if strings.Contains(s.log.String(), "changed a pool") {
		t.Errorf("changed a pool: %s", s.log.String())
	}
	if err := c.Publish(t.Context(), "news", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.ReceiveMessage(t.Context()); err != nil || m.Payload != "x" {
		t.Errorf("%v, %v", m, err)
	}
	s.reload(t, conf+fmt.Sprintf("   - %s\n", cluster.Addrs()[0]), "changed a pool")
	if got, err := c.Get(t.Context(), "k7").Result(); got != "v" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// Subscribers of a cluster would miss messages of single servers, so the pool is opened anew.
	one := redistest.Start(t)
	s.reload(t, fmt.Sprintf("a:\n  listen: %s\n  redis: true\n  hash_tag: \"{}\"\n  servers:\n   - %s:1\n", addr, one.Addr()), `"msg":"closing a pool"`)
	eventually(t, "the server is served", func() bool { return c.Set(t.Context(), "k", "v", 0).Err() == nil && one.CLI("GET", "k") == "v" })
}
