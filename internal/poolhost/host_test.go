package poolhost

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestHost: two pools in one process, one on a unix socket with a password and a database; Shutdown
// closes the clients of both.
func TestHost(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", "s3cret")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	socket := filepath.Join(t.TempDir(), "s")
	s := serve(t, fmt.Sprintf(`alpha:
  listen: %s
  hash: fnv1a_64
  distribution: modula
  redis: true
  preconnect: true
  client_connections: 1
  servers:
   - %s:1 redis-1
   - %s:1 redis-2

beta:
  listen: %s 0600
  redis: true
  redis_auth: s3cret
  redis_db: 3
  servers:
   - %s:1
`, addr, one.Addr(), two.Addr(), socket, locked.Addr()))

	alpha := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer func() { _ = alpha.Close() }()
	for _, k := range []string{"a", "b", "c", "d"} {
		if err := alpha.Set(t.Context(), k, k, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := one.CLI("EXISTS", "a", "c"), two.CLI("EXISTS", "b", "d"); a != "2" || b != "2" {
		t.Errorf("redis-1 has %s of a and c, redis-2 %s of b and d", a, b)
	}
	another, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = another.Close() }()
	_ = another.SetReadDeadline(time.Now().Add(20 * time.Second))
	if told, err := io.ReadAll(another); !strings.HasPrefix(string(told), "-ERR max number of clients reached") {
		t.Errorf("the second client: %q, %v", told, err)
	}

	beta := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Password: "s3cret", DB: 3, MaxRetries: -1})
	defer func() { _ = beta.Close() }()
	if err := beta.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := locked.CLI("-a", "s3cret", "--no-auth-warning", "-n", "3", "GET", "k"); got != "v" {
		t.Errorf("k in database 3 is %q", got)
	}
	without := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = without.Close() }()
	if err := without.Get(t.Context(), "k").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st, err)
	}

	if wrong := s.health(t); wrong != "" {
		t.Errorf("health: %s", wrong)
	}
	metrics := s.metrics(t)
	mustContain(t, "metrics", metrics, `redoubt_pool_server_up{pool="alpha",protocol="resp2",server="redis-1"} 1`,
		`redoubt_pool_ring_info{digest="`, `redoubt_pool_commands_total{pool="beta",way="passed"} `)
	health := func(want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("health is %q", want), func() bool { return s.health(t) == want })
	}
	two.Kill()
	health("pool alpha: server redis-2 is down")
	one.Kill()
	health("pool alpha: server all is down")
	two.Restart()
	one.Restart()
	health("")
	for _, server := range []string{`"server":"redis-1`, `"server":"redis-2`} {
		eventually(t, "both are logged", func() bool {
			return logged(s, "a server is lost", `"pool":"alpha"`, server) == 1 && logged(s, "a server is back", `"pool":"alpha"`, server) == 1
		})
	}
	if n := s.host.Clients(); n == 0 {
		t.Error("no clients")
	}
	if err := <-s.shutdown(t); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if n := s.host.Clients(); n != 0 {
		t.Errorf("%d clients after the shutdown", n)
	}
	if strings.Contains(s.log.String(), "s3cret") {
		t.Errorf("the log shows the password: %s", s.log.String())
	}
}
