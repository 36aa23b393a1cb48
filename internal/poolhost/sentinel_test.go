package poolhost

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestServePoolSentinels: a reload makes a pool of fixed servers use a Sentinel, with a password and over TLS, and
// read the replicas that it names. Clients see only errors at a failover.
func TestServePoolSentinels(t *testing.T) {
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port)
	ours := certtest.New(t)
	ours.Sign("sentinel")
	encrypted := freeAddr(t)
	_, tlsPort, _ := net.SplitHostPort(encrypted)
	sentinel := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "orders", Master: master, Replicas: []*redistest.Server{replica}}},
		"tls-port "+tlsPort, "tls-cert-file "+ours.File("sentinel.crt"), "tls-key-file "+ours.File("sentinel.key"),
		"tls-ca-cert-file "+ours.File("ca.crt"), "tls-auth-clients no",
		"user pool on >s3cret +@all ~* &*")[0]

	addr := freeAddr(t)
	conf := fmt.Sprintf("a:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1\n", addr, master.Addr())
	s := serve(t, conf)
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	ring := func() string {
		for line := range strings.Lines(c.Info(t.Context(), "pool").Val()) {
			if strings.HasPrefix(line, "ring_digest:") {
				return line
			}
		}
		return ""
	}
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica has it", func() bool { return replica.CLI("EXISTS", "k") == "1" })
	before := ring()
	s.reload(t, conf+fmt.Sprintf(`  sentinels:
   - %s
  sentinel_user: pool
  sentinel_password: s3cret
  sentinel_tls: true
  server_tls_ca: %s
  sentinel_masters:
   - orders %s
  replicas: sentinel
`, encrypted, ours.File("ca.crt"), master.Addr()), "changed a pool")
	if got := ring(); got != before || got == "" {
		t.Errorf("the ring was %q and is %q", before, got)
	}
	reads := func(s *redistest.Server) bool {
		if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		return strings.Contains(s.CLI("INFO", "commandstats"), "cmdstat_get:")
	}
	eventually(t, "the replica is read", func() bool { return reads(replica) })
	metrics := s.metrics(t)
	mustContain(t, "metrics", metrics, fmt.Sprintf(`redoubt_pool_server_up{pool="a",protocol="resp3",server="%s replica"} 1`, master.Addr()))

	if got := sentinel.CLI("SENTINEL", "FAILOVER", "orders"); got != "OK" {
		t.Fatal(got)
	}
	moved := fmt.Sprintf(`"msg":"a server's master has changed","pool":"a","server":%q,"master":"orders","from":%q,"to":%q}`, master.Addr(), master.Addr(), replica.Addr())
	eventually(t, "the switch is logged", func() bool { return strings.Contains(s.log.String(), moved) })
	eventually(t, "the new master is written to", func() bool { return c.Set(t.Context(), "k", "w", 0).Err() == nil })
	if got := replica.CLI("GET", "k"); got != "w" {
		t.Errorf("the new master has %q", got)
	}
	s.reload(t, conf, "changed a pool")
	eventually(t, "the first is the server again", func() bool {
		_, err := c.Get(t.Context(), "k").Result()
		return err == nil && strings.Contains(master.CLI("CLIENT", "LIST"), "cmd=get")
	})
}
