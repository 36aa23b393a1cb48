//go:build unix

package main

import (
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

// freeAddr returns an address that no process listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestServePools: /readyz names the servers of pools that are down, the stats port tells statistics,
// SIGHUP reads the file again, and SIGTERM drains. Package poolhost has the rest.
func TestServePools(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	socket := filepath.Join(t.TempDir(), "s")
	_, port, _ := net.SplitHostPort(freeAddr(t))
	conf := fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1 redis-1\n   - %s:1 redis-2\n", socket, one.Addr(), two.Addr())
	file := writePools(t, conf)
	s := startServing(t, "--stats-port", port, "--pools", file)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, metrics := s.get(t, "/metrics")
	mustContain(t, "metrics", metrics, `redoubt_pool_clients{pool="alpha"} 1`, "go_goroutines ", "process_open_fds ")
	stats, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stats.Close() }()
	_ = stats.SetDeadline(time.Now().Add(20 * time.Second))
	text, err := io.ReadAll(stats)
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, "stats", string(text), `{"service":"redoubt", `, `"alpha": {`)
	asks := func(path string, code int, want string) {
		t.Helper()
		eventually(t, path+" is "+want, func() bool {
			status, body := s.get(t, path)
			return status == code && body == want
		})
	}
	health := func(code int, want string) {
		t.Helper()
		asks("/readyz", code, want)
	}
	health(http.StatusOK, "ok\n")
	two.Kill()
	health(http.StatusOK, "ok\npool alpha: server redis-2 is down\n")
	one.Kill()
	health(http.StatusServiceUnavailable, "pool alpha: no server answers\n")
	asks("/readyz?verbose", http.StatusServiceUnavailable, "[-]pool:alpha failed: pool alpha: no server answers\n[+]shutdown ok\nreadyz check failed\n")
	asks("/readyz?exclude=pool:alpha", http.StatusOK, "ok\n")
	asks("/livez", http.StatusOK, "ok\n")
	one.Restart()
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(conf, "redis-2", "redis-3")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	health(http.StatusOK, "ok\npool alpha: server redis-3 is down\n")
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
	mustContain(t, "log", s.stderr.String(), `"msg":"draining","signal":"terminated","clients":`, `"msg":"ended","clients_left":0,"commands_cut":0,"took_seconds":`)
}

// TestPoolsRefused: serve and --test-conf print the errors of a file with their lines.
func TestPoolsRefused(t *testing.T) {
	const good = "a:\n  listen: 127.0.0.1:0\n"
	const rest = "  redis: true\n  servers:\n   - 127.0.0.1:1:1\n"
	for _, c := range []struct {
		name, text string
		args       []string
		code       int
		want       string
	}{
		{"good", "a:\n  listen: 127.0.0.1:22999\n" + rest, []string{"--test-conf"}, 0, "is valid: 1 pool\n"},
		{"hash", "a:\n  listen: 127.0.0.1:22999\n  hash: sha1\n" + rest, []string{"--test-conf"}, exitUsage, `nutcracker.yml:3: conf: directive "hash" is not a valid hash`},
		{"hash, served", "a:\n  listen: 127.0.0.1:22999\n  hash: sha1\n" + rest, nil, exitUsage, `nutcracker.yml:3: conf: directive "hash" is not a valid hash`},
		{"warning", "a:\n  listen: 127.0.0.1:22999\n  hash: crc32\n" + rest + "   - 127.0.0.1:2:1\n", []string{"--test-conf"}, 0, `warning: `},
		{"memcached", "a:\n  listen: 127.0.0.1:22999\n  servers:\n   - 127.0.0.1:1:1\n", []string{"--test-conf"}, 0, "is valid: 1 pool\n"},
		{"memcached's password", "a:\n  listen: 127.0.0.1:22999\n  redis_auth: x\n  servers:\n   - 127.0.0.1:1:1\n", nil, exitUsage, `nutcracker.yml:3: conf: directive "redis_auth" is only valid for a redis pool`},
		{"port 0", good + rest, nil, exitUsage, `nutcracker.yml:2: conf: directive "listen" has an invalid port`},
		{"exposed", "a:\n  listen: 0.0.0.0:22999\n" + rest, nil, exitUsage, `nutcracker.yml:1: pool "a": server: an address beyond this machine needs a password`},
		{"exposed, tested", "a:\n  listen: 0.0.0.0:22999\n" + rest, []string{"--test-conf"}, exitUsage, `nutcracker.yml:1: pool "a": server: an address beyond this machine needs a password`},
		{"guarded, tested", "a:\n  listen: 0.0.0.0:22999\n" + rest, []string{"--test-conf", "--password=x"}, 0, "is valid: 1 pool\n"},
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

// TestStatsFlags: serve refuses invalid flags of pools.
func TestStatsFlags(t *testing.T) {
	file := writePools(t, "a:\n  listen: 127.0.0.1:22999\n  redis: true\n  servers:\n   - 127.0.0.1:1:1\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--stats-port=22222"}, "the --stats flags need --pools"},
		{[]string{"--slowlog-max-len=1"}, "the --slowlog and the --stats flags need --pools"},
		{[]string{"--pools", file, "--slowlog-max-len=0"}, "--slowlog-max-len is 0; want at least 1"},
		{[]string{"--pools", file, "--stats-addr=127.0.0.1"}, "--stats-addr and --stats-interval need --stats-port"},
		{[]string{"--pools", file, "--stats-port=70000"}, "stats-port is 70000; want 1 to 65535, or 0 for none"},
		{[]string{"--pools", file, "--stats-port=1", "--stats-interval=-1"}, "stats-interval is -1; want at least 0"},
	} {
		code, _, stderr := runToEnd(t, nil, append([]string{"serve", "--http="}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q; want %q", c.args, code, stderr, c.want)
		}
	}
}
