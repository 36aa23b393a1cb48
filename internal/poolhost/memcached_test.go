package poolhost

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestServeMemcachedPool: a pool of memcached and a pool of Redis in one file, with its
// limit, metrics and health; Shutdown waits for the replies to commands in flight.
func TestServeMemcachedPool(t *testing.T) {
	one, two := memcachedtest.Start(t), memcachedtest.Start(t)
	addr := freeAddr(t)
	s := serve(t, fmt.Sprintf(`cache:
  listen: %s
  distribution: modula
  client_connections: 2
  servers:
   - %s:1 server-1
   - %s:1 server-2

beside:
  listen: %s
  redis: true
  servers:
   - %s:1
`, addr, one.Addr(), two.Addr(), filepath.Join(t.TempDir(), "s"), redistest.Start(t).Addr()))

	u, idle := dialRaw(t, "tcp", addr), dialRaw(t, "tcp", addr)
	for _, k := range []string{"a", "b", "c", "d"} {
		if got := u.ask("set " + k + " 0 0 1\r\n" + k); got != "STORED" {
			t.Fatal(got)
		}
	}
	// As in twemproxy.
	for k, on := range map[string]*memcachedtest.Server{"a": one, "b": two, "c": one, "d": two} {
		if !has(t, on, k) {
			t.Errorf("%s is on the other server", k)
		}
	}
	if got := idle.ask("get d"); got != "VALUE d 0 1" {
		t.Error(got)
	}
	if got := dialRaw(t, "tcp", addr).line(); got != "ERROR Too many open connections" {
		t.Errorf("the third client: %q", got)
	}
	if got := u.ask("stats proxy"); got != "STAT pool cache" {
		t.Errorf("stats proxy: %q", got)
	}
	for u.line() != "END" {
	}
	if wrong := s.health(t); wrong != "" {
		t.Errorf("health: %s", wrong)
	}
	metrics := s.metrics(t)
	mustContain(t, "metrics", metrics,
		`redoubt_pool_server_up{pool="cache",protocol="memcached",server="server-1"} 1`, `redoubt_pool_ring_info{digest="`,
		`redoubt_pool_clients{pool="cache"} 2`, `redoubt_pool_clients_refused_total{pool="cache"} 1`,
		`redoubt_pool_commands_total{pool="cache",way="passed"} 6`, `redoubt_pool_server_ejected{pool="cache",server="server-2"} 0`,
		`redoubt_pool_server_timeouts_total{pool="cache",server="server-1"} 0`, `redoubt_pool_server_up{pool="beside",`)

	two.Kill()
	eventually(t, "an error", func() bool {
		return strings.HasPrefix(u.ask("touch b 0"), "SERVER_ERROR redoubt: server server-2 is unreachable: ")
	})
	if wrong := s.health(t); !strings.Contains(wrong, "pool cache: server server-2 is down") {
		t.Errorf("health with one of two servers: %q", wrong)
	}
	eventually(t, "the loss is logged", func() bool {
		return logged(s, "a server is lost", `"pool":"cache"`, `"server":"server-2"`, `"error":`) == 1
	})
	two.Restart()
	eventually(t, "the return is logged", func() bool {
		return logged(s, "a server is back", `"pool":"cache"`, `"server":"server-2"`, `"away":`) == 1
	})
	two.Kill()
	one.Kill()
	eventually(t, "it is not healthy", func() bool {
		return strings.Contains(s.health(t), "pool cache: server all is down")
	})
	one.Restart()
	eventually(t, "it is healthy", func() bool { return !strings.Contains(s.health(t), "all is down") })

	one.Pause()
	if _, err := io.WriteString(u.conn, "get a\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a command is in flight", func() bool {
		return strings.Contains(s.metrics(t), `redoubt_pool_server_waiting{pool="cache",protocol="memcached",server="server-1"} 1`)
	})
	done := s.shutdown(t)
	if rest, err := io.ReadAll(idle.r); len(rest) != len("d\r\nEND\r\n") || err != nil {
		t.Errorf("the idle client gets %q, %v", rest, err)
	}
	one.Resume()
	if got := u.line(); got != "END" {
		t.Errorf("what was in flight: %q", got)
	}
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// TestMemcachedPoolEjects: with auto_eject_hosts, the other servers get the keys of a lost server after
// server_failure_limit failures, until it answers after server_retry_timeout.
func TestMemcachedPoolEjects(t *testing.T) {
	one, two := memcachedtest.Start(t), memcachedtest.Start(t)
	socket := filepath.Join(t.TempDir(), "s")
	s := serve(t, fmt.Sprintf(`cache:
  listen: %s 0600
  hash_tag: "{}"
  distribution: modula
  timeout: 20000
  auto_eject_hosts: true
  server_retry_timeout: 300
  server_failure_limit: 3
  servers:
   - %s:1 server-1
   - %s:1 server-2
`, socket, one.Addr(), two.Addr()))
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st, err)
	}
	u := dialRaw(t, "unix", socket)
	set := func() string { return u.ask("set x{b}y 0 0 1\r\nx") } // as b
	if got := set(); got != "STORED" || !has(t, two, "x{b}y") {
		t.Fatalf("%q, or not on server-2", got)
	}
	two.Kill()
	eventually(t, "it is ejected", func() bool { return set() == "STORED" })
	if !has(t, one, "x{b}y") {
		t.Error("not on server-1")
	}
	metrics := s.metrics(t)
	mustContain(t, "metrics", metrics, `redoubt_pool_server_ejections_total{pool="cache",server="server-2"} 1`)
	two.Restart()
	eventually(t, "it is back", func() bool { return set() == "STORED" && has(t, two, "x{b}y") })
	for _, words := range []string{"a server was taken out of the ring", "a server is in the ring again"} {
		eventually(t, words, func() bool { return logged(s, words, `"server":"server-2"`) == 1 })
	}
}

// TestMemcachedPoolReload: a reload gives a pool another server under its clients, and turns it into a
// pool of Redis for new ones.
func TestMemcachedPoolReload(t *testing.T) {
	one, two := memcachedtest.Start(t), memcachedtest.Start(t)
	addr := freeAddr(t)
	const pool = "cache:\n  listen: %s\n  distribution: modula\n  redis: %t\n  servers:\n%s"
	first := fmt.Sprintf("   - %s:1 server-1\n", one.Addr())
	both := first + fmt.Sprintf("   - %s:1 server-2\n", two.Addr())
	s := serve(t, fmt.Sprintf(pool, addr, false, first))
	const done = "reloaded the file of pools"
	u := dialRaw(t, "tcp", addr)
	if got := u.ask("set b 0 0 1\r\nx"); got != "STORED" || !has(t, one, "b") {
		t.Fatalf("%q, or not on server-1", got)
	}
	s.reload(t, fmt.Sprintf(pool, addr, false, both), done)
	if got := u.ask("get b"); got != "END" {
		t.Errorf("b, which is on server-2 now: %q", got)
	}
	s.reload(t, fmt.Sprintf(pool, addr, false, "   - nonsense\n"), "reload failed")
	if got := u.ask("set b 0 0 1\r\nx"); got != "STORED" || !has(t, two, "b") {
		t.Errorf("%q, or not on server-2", got)
	}
	s.reload(t, fmt.Sprintf(pool, addr, true, fmt.Sprintf("   - %s:1\n", redistest.Start(t).Addr())), done)
	if rest, err := io.ReadAll(u.r); len(rest) > 0 || err != nil {
		t.Errorf("the client of memcached gets %q, %v", rest, err)
	}
	if got := dialRaw(t, "tcp", addr).ask("PING"); got != "+PONG" {
		t.Errorf("PING: %q", got)
	}
}
