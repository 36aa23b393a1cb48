package poolhost

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestServePoolReplicas: a reload adds a replica under the clients, and their reads go to it.
func TestServePoolReplicas(t *testing.T) {
	srv := redistest.Start(t)
	host, port, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port, "--replica-read-only", "no")
	srv.CLI("SET", "k", "server")
	eventually(t, "it is replicated", func() bool { return replica.CLI("GET", "k") == "server" })
	replica.CLI("SET", "k", "replica")

	addr := freeAddr(t)
	conf := fmt.Sprintf("a:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1 redis-1\n", addr, srv.Addr())
	s := serve(t, conf)
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	if got, err := c.Get(t.Context(), "k").Result(); got != "server" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	s.reload(t, conf+fmt.Sprintf("  replicas:\n   - %s redis-1\n", replica.Addr()), "changed a pool")
	eventually(t, "the replica answers", func() bool { return c.Get(t.Context(), "k").Val() == "replica" })
	if err := c.Set(t.Context(), "other", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := srv.CLI("GET", "other"); got != "v" {
		t.Errorf("the server has %q", got)
	}
	metrics := s.metrics(t)
	if want := fmt.Sprintf(`redoubt_pool_server_up{pool="a",protocol="resp3",server="redis-1 replica %s"} 1`, replica.Addr()); !strings.Contains(metrics, want) {
		t.Errorf("metrics are without %s", want)
	}
}
