//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// writePools writes a file for --pools.
func writePools(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nutcracker.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// reload has the file of pools read again, with another text, until that is logged.
func (s *serving) reload(t *testing.T, file, text, logged string) {
	t.Helper()
	before := strings.Count(s.stderr.String(), logged)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	eventually(t, "it is read", func() bool { return strings.Count(s.stderr.String(), logged) > before })
}

// TestServePools: two pools in one process, one on a unix socket with a password
// and a database; a signal drains both.
func TestServePools(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", "s3cret")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	socket := filepath.Join(t.TempDir(), "s")
	s := startServing(t, "--pools", writePools(t, fmt.Sprintf(`alpha:
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
`, addr, one.Addr(), two.Addr(), socket, locked.Addr())))

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

	if status, body := s.get(t, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d, %q", status, body)
	}
	_, metrics := s.get(t, "/metrics")
	mustContain(t, "metrics", metrics, `redoubt_pool_server_up{pool="alpha",protocol="resp2",server="redis-1"} 1`,
		`redoubt_pool_ring_info{digest="`, `redoubt_pool_commands_total{pool="beta",way="passed"} `)
	health := func(code int, want string) {
		t.Helper()
		eventually(t, "/healthz is "+want, func() bool {
			status, body := s.get(t, "/healthz")
			return status == code && body == want
		})
	}
	two.Kill()
	health(http.StatusOK, "ok\npool alpha: server redis-2 is down\n")
	one.Kill()
	health(http.StatusServiceUnavailable, "pool alpha: no server answers\n")
	two.Restart()
	one.Restart()
	health(http.StatusOK, "ok\n")
	for _, server := range []string{`"server":"redis-1`, `"server":"redis-2`} {
		eventually(t, "both are logged", func() bool {
			return logged(s, "a server is lost", `"pool":"alpha"`, server) == 1 && logged(s, "a server is back", `"pool":"alpha"`, server) == 1
		})
	}
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
	if strings.Contains(s.stderr.String(), "s3cret") {
		t.Errorf("the log shows the password: %s", s.stderr.String())
	}
}

// TestPoolsRefused: what is wrong with a file is told with its line.
func TestPoolsRefused(t *testing.T) {
	const good = "a:\n  listen: 127.0.0.1:0\n"
	const rest = "  redis: true\n  servers:\n   - 127.0.0.1:1:1\n"
	for _, c := range []struct {
		name, text string
		args       []string
		code       int
		want       string
	}{
		{"good", "a:\n  listen: 127.0.0.1:22999\n" + rest, []string{"--test-conf"}, 0, "1 pools, nothing wrong\n"},
		{"hash", "a:\n  listen: 127.0.0.1:22999\n  hash: sha1\n" + rest, []string{"--test-conf"}, exitUsage, `nutcracker.yml:3: conf: directive "hash" is not a valid hash`},
		{"hash, served", "a:\n  listen: 127.0.0.1:22999\n  hash: sha1\n" + rest, nil, exitUsage, `nutcracker.yml:3: conf: directive "hash" is not a valid hash`},
		{"warning", "a:\n  listen: 127.0.0.1:22999\n  hash: crc32\n" + rest + "   - 127.0.0.1:2:1\n", []string{"--test-conf"}, 0, `warning: `},
		{"memcached", "a:\n  listen: 127.0.0.1:22999\n  servers:\n   - 127.0.0.1:1:1\n", []string{"--test-conf"}, 0, "1 pools, nothing wrong\n"},
		{"memcached's password", "a:\n  listen: 127.0.0.1:22999\n  redis_auth: x\n  servers:\n   - 127.0.0.1:1:1\n", nil, exitUsage, `nutcracker.yml:3: conf: directive "redis_auth" is only valid for a redis pool`},
		{"port 0", good + rest, nil, exitUsage, `nutcracker.yml:2: conf: directive "listen" has an invalid port`},
		{"exposed", "a:\n  listen: 0.0.0.0:22999\n" + rest, nil, exitUsage, `nutcracker.yml:1: pool "a": server: an address beyond this machine needs a password`},
		{"exposed, tested", "a:\n  listen: 0.0.0.0:22999\n" + rest, []string{"--test-conf"}, exitUsage, `nutcracker.yml:1: pool "a": server: an address beyond this machine needs a password`},
		{"guarded, tested", "a:\n  listen: 0.0.0.0:22999\n" + rest, []string{"--test-conf", "--password=x"}, 0, "1 pools, nothing wrong\n"},
		{"a flag, tested", "a:\n  listen: 127.0.0.1:22999\n" + rest, []string{"--test-conf", "--max-clients=-1"}, exitUsage, "max-clients"},
		{"listen", "a:\n  listen: 127.0.0.1:22999\n" + rest, []string{"--listen=127.0.0.1:1"}, exitUsage, "--listen and --pools exclude each other"},
		{"backend", "a:\n  listen: 127.0.0.1:22999\n" + rest, []string{"--backend=embedded:"}, exitUsage, "--backend and --pools exclude each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"serve", "--http=", "--pools", writePools(t, c.text)}, c.args...)
			code, _, stderr := runToEnd(t, nil, args...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, %q; want %d, %q", code, stderr, c.code, c.want)
			}
		})
	}
	if code, _, stderr := runToEnd(t, nil, "serve", "--test-conf"); code != exitUsage || !strings.Contains(stderr, "--pools FILE") {
		t.Errorf("--test-conf alone: exit %d, %q", code, stderr)
	}
	if code, _, stderr := runToEnd(t, nil, "serve", "--pools", "none.yml"); code != exitUsage || !strings.Contains(stderr, "none.yml: no such file") {
		t.Errorf("no file: exit %d, %q", code, stderr)
	}
}

// TestPoolsReload: SIGHUP gives a pool another server under its clients, who notice
// nothing; a file with an error changes nothing; pools come and go.
func TestPoolsReload(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	dir := t.TempDir()
	pool := func(name string, servers ...string) string {
		text := fmt.Sprintf("%s:\n  listen: %s\n  distribution: modula\n  redis: true\n  servers:\n", name, filepath.Join(dir, name))
		for _, s := range servers {
			text += "   - " + s + "\n"
		}
		return text
	}
	first, second := one.Addr()+":1 redis-1", two.Addr()+":1 redis-2"
	file := writePools(t, pool("alpha", first))
	s := startServing(t, "--pools", file)
	const done = "the file of pools was read again"
	open := func(name string) *redis.Client {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(dir, name), PoolSize: 1, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	alpha := open("alpha")
	if err := alpha.Set(t.Context(), "b", "first", 0).Err(); err != nil {
		t.Fatal(err)
	}
	id := alpha.ClientID(t.Context()).Val()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { // b is on redis-1 and then on redis-2
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
				if err := alpha.Set(context.Background(), "b", "v", 0).Err(); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	s.reload(t, file, pool("alpha", first, second), done)
	eventually(t, "b is on redis-2", func() bool { return two.CLI("EXISTS", "b") == "1" })
	s.reload(t, file, pool("alpha", "nonsense"), "the file of pools is not taken")
	s.reload(t, file, pool("alpha", first, second)+pool("beta", second), done)
	if err := open("beta").Set(t.Context(), "k", "v", 0).Err(); err != nil || two.CLI("GET", "k") != "v" {
		t.Errorf("the new pool: %v", err)
	}
	eventually(t, "the connections of the first pool are closed", func() bool {
		return !strings.Contains(one.CLI("CLIENT", "LIST"), "cmd=set ")
	})
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("a command failed: %v", err)
	}
	if again := alpha.ClientID(t.Context()).Val(); again != id {
		t.Errorf("the client was closed: its id was %d and is %d", id, again)
	}
	s.reload(t, file, pool("beta", second), done)
	eventually(t, "alpha is gone", func() bool { return alpha.Ping(t.Context()).Err() != nil })
}
