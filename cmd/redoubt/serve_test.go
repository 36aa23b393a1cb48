//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A serving is a running `redoubt serve`.
type serving struct {
	*program
	addr, http string
	line       map[string]any // its log line "serving"
}

// startServe starts `redoubt serve` on free ports.
func startServe(t *testing.T, args ...string) *serving {
	t.Helper()
	return startServing(t, append([]string{"--listen=127.0.0.1:0"}, args...)...)
}

// startServing starts `redoubt serve` with these arguments.
func startServing(t *testing.T, args ...string) *serving {
	t.Helper()
	return startServingAs(t, binary, args...)
}

func startServingAs(t *testing.T, by string, args ...string) *serving {
	t.Helper()
	s := &serving{}
	s.program = startAs(t, by, nil, append([]string{"serve", "--http=127.0.0.1:0", "--log-format=json"}, args...)...)
	eventually(t, "it serves", func() bool {
		select {
		case <-s.ended:
			t.Fatalf("serve ended: %s", s.stderr.String())
		default:
		}
		for line := range strings.Lines(s.stderr.String()) {
			if json.Unmarshal([]byte(line), &s.line) == nil && s.line["msg"] == "serving" {
				return true
			}
		}
		return false
	})
	s.addr, _ = s.line["listen"].(string)
	s.http, _ = s.line["http"].(string)
	return s
}

func (s *serving) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestServeSaysWhatItIs(t *testing.T) {
	s := startServe(t)
	if s.line["backend"] != "embedded" || !strings.Contains(s.line["durability"].(string), "in memory") {
		t.Errorf("it says %v", s.line)
	}
	r := redistest.Start(t)
	for _, c := range []struct{ set, want string }{
		{"save|", "none: "},
		{"save|3600 1", "periodic snapshots (save 3600 1)"},
		{"appendonly|yes", "append-only file, fsync everysec"},
	} {
		name, value, _ := strings.Cut(c.set, "|")
		r.CLI("CONFIG", "SET", name, value)
		s := startServe(t, "--backend", r.URL())
		if s.line["backend"] != r.Addr() || !strings.HasPrefix(s.line["durability"].(string), c.want) {
			t.Errorf("with %q it says %v; want %q", c.set, s.line, c.want)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	r := redistest.Start(t)
	gone := redistest.Start(t)
	gone.Kill()
	locked := redistest.Start(t, "--requirepass", "s3cret")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--listen 0.0.0.0:0", exitUsage, "an address beyond this machine needs a password"},
		{"--listen " + r.Addr(), exitUnavailable, "address already in use"},
		{"--listen 127.0.0.1:0 --http " + r.Addr(), exitUnavailable, "address already in use"},
		{"--backend redis://me:s3cret@" + gone.Addr(), exitUnavailable, "back end " + gone.Addr() + " does not answer"},
		{"--backend redis://:s3cret2@" + locked.Addr(), exitUnavailable, "back end " + locked.Addr() + " refuses us: WRONGPASS"},
		{"--backend redis://" + locked.Addr(), exitUnavailable, "back end " + locked.Addr() + " refuses us: NOAUTH"},
	} {
		code, _, stderr := runToEnd(t, nil, append([]string{"serve", "--http", ""}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "s3cret") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("serve %s: exit %d, %q; want %d, %q in one line", c.args, code, stderr, c.code, c.want)
		}
	}
}

func TestPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServing(t, "--listen=0.0.0.0:0", "--password-file", file)
	_, port, _ := net.SplitHostPort(s.addr)
	url := "redis://127.0.0.1:" + port
	code, _, stderr := runToEnd(t, nil, "lock", "x", "--backend", url, "--", "true")
	if code != exitUnavailable || !strings.Contains(stderr, "refuses us: NOAUTH") {
		t.Errorf("without: exit %d, %q", code, stderr)
	}
	if code, _, stderr := runToEnd(t, []string{"REDOUBT_PASSWORD=s3cret"}, "lock", "x", "--backend", url, "--", "true"); code != 0 {
		t.Errorf("with: exit %d, %q", code, stderr)
	}
	if strings.Contains(s.stderr.String(), "s3cret") {
		t.Errorf("the log shows the password: %s", s.stderr.String())
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	startServing(t, "--listen", "unix:"+socket)
	if code, _, stderr := runToEnd(t, nil, "lock", "x", "--backend", "unix://"+socket, "--", "true"); code != 0 {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestDrain: after SIGTERM the server finishes a pipeline in flight and accepts no more clients.
func TestDrain(t *testing.T) {
	r := redistest.Start(t)
	s := startServe(t, "--backend", r.URL())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	ask := func(n int) {
		if _, err := io.WriteString(conn, strings.Repeat("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n", n)); err != nil {
			t.Fatal(err)
		}
	}
	ask(1)
	if line, err := in.ReadString('\n'); line != ":1\r\n" {
		t.Fatalf("the first reply is %q, %v", line, err)
	}
	r.Pause()
	const n = 16 // as many as a new client may have in flight
	ask(n)
	eventually(t, "the pipeline is on its way", func() bool {
		_, metrics := s.get(t, "/metrics")
		return metricIs(metrics, `redoubt_commands_total{way="passed"}`, n+1)
	})
	s.signal(syscall.SIGTERM)
	// The log counts the clients: another one would be among them before.
	eventually(t, "it drains", func() bool { return strings.Contains(s.stderr.String(), `"msg":"draining"`) })
	eventually(t, "no more clients are taken", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	if status, body := s.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("while draining /readyz is %d, %q", status, body)
	}
	if status, body := s.get(t, "/livez"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("while draining /livez is %d, %q", status, body)
	}
	r.Resume()
	for i := 2; i <= n+1; i++ {
		if line, err := in.ReadString('\n'); line != fmt.Sprintf(":%d\r\n", i) {
			t.Fatalf("reply %d is %q, %v", i, line, err)
		}
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("after the replies came %q, %v", rest, err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
	mustContain(t, "log", s.stderr.String(), `"msg":"draining","signal":"terminated","clients":1,"timeout_seconds":10}`,
		`"msg":"ended","clients_left":0,"commands_cut":0,"took_seconds":`)
}

// TestSecondSignal: a second signal ends a drain at once.
func TestSecondSignal(t *testing.T) {
	r := redistest.Start(t)
	s := startServe(t, "--backend", r.URL(), "--drain-timeout=1h")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const ask = "*1\r\n$6\r\nDBSIZE\r\n"
	if _, err := io.WriteString(conn, ask); err != nil {
		t.Fatal(err)
	}
	// The answer proves that there is a connection that can hang.
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != ":0\r\n" {
		t.Fatalf("the first reply is %q, %v", line, err)
	}
	r.Pause()
	if _, err := io.WriteString(conn, ask); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command is on its way", func() bool {
		_, metrics := s.get(t, "/metrics")
		return metricIs(metrics, `redoubt_commands_total{way="passed"}`, 2)
	})
	s.signal(syscall.SIGTERM)
	eventually(t, "it drains", func() bool { return strings.Contains(s.stderr.String(), `"msg":"draining"`) })
	s.signal(syscall.SIGINT)
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
	mustContain(t, "log", s.stderr.String(), `"msg":"ended at once by a second signal","clients_left":1,"commands_cut":1,"took_seconds":`)
	r.Resume()
}

// TestSecondSignalEndsWhatever: a second signal ends a process in a transaction of minutes at once, although an orderly
// shutdown waits for the locks of its keys.
func TestSecondSignalEndsWhatever(t *testing.T) {
	s := startServe(t, "--drain-timeout=10ms")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	long := strings.Repeat("x", 11_000) // each LCS of two of them takes a third of a second
	slow := "SET {t}a " + long + "\r\nSET {t}b " + long + "\r\nMULTI\r\n" + strings.Repeat("LCS {t}a {t}b LEN\r\n", 1000)
	if _, err := io.WriteString(conn, slow); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for range 2 + 1 + 1000 {
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" && line != "+QUEUED\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if _, err := io.WriteString(conn, "EXEC\r\n"); err != nil {
		t.Fatal(err)
	}
	other := dial(t, s.addr)
	eventually(t, "the transaction holds its keys", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return other.StrLen(ctx, "{t}a").Err() != nil
	})
	s.signal(syscall.SIGTERM)
	eventually(t, "it drains", func() bool { return strings.Contains(s.stderr.String(), `"msg":"draining"`) })
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != exitFault {
		t.Errorf("exit %d", code)
	}
	mustContain(t, "log", s.stderr.String(), "ended by a second signal before clients were closed and data was saved")
}

// TestDrainStopsScripts: endless scripts, on the shared connection and on one of their own, don't delay the shutdown,
// nor does DEBUG SLEEP.
func TestDrainStopsScripts(t *testing.T) {
	s := startServe(t, "--drain-timeout=100ms")
	endless := strings.Repeat("EVAL 'while true do end' 0\r\n", 4)
	sent := 0
	// No script counts as busy, or commands behind it would be answered BUSY.
	for _, all := range []string{"CONFIG SET busy-reply-threshold 3600000\r\n" + endless, "WATCH k\r\n" + endless, "DEBUG SLEEP 3600\r\n"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, all); err != nil {
			t.Fatal(err)
		}
		sent += len(all)
		eventually(t, "the server has it", func() bool {
			_, metrics := s.get(t, "/metrics")
			return metricIs(metrics, "redoubt_received_bytes_total", sent)
		})
	}
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
	mustContain(t, "log", s.stderr.String(), `"msg":"closed clients before all replies were sent","clients_left":3,"commands_cut":`)
}

// metricIs reports whether a sample has a value.
func metricIs(text, sample string, want int) bool {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			got, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && got == float64(want)
		}
	}
	return false
}

func TestMetrics(t *testing.T) {
	s := startServe(t, "--password=s3cret")
	rdb := redis.NewClient(&redis.Options{Addr: s.addr, Password: "s3cret", Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ctx := t.Context()
	for range 3 {
		if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.Do(ctx, "LOCK.ACQUIRE", "a", 1000).Err(); err != nil {
		t.Fatal(err)
	}
	wrong := redis.NewClient(&redis.Options{Addr: s.addr, Password: "no", MaxRetries: -1})
	defer func() { _ = wrong.Close() }()
	if err := wrong.Ping(ctx).Err(); err == nil {
		t.Fatal("a wrong password was accepted")
	}
	var text string
	await.Soon(t, "all is counted, soon after the replies", func() bool {
		status, now := s.get(t, "/metrics")
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		text = now
		for sample, want := range map[string]int{
			`redoubt_commands_total{way="passed"}`:                     3,
			`redoubt_commands_total{way="rewritten"}`:                  1,
			`redoubt_extension_commands_total{command="lock.acquire"}`: 1,
			`redoubt_backend_up{protocol="resp2"}`:                     1,
			`redoubt_clients_refused_total`:                            0,
		} {
			if !metricIs(text, sample, want) {
				t.Logf("%s is not %d", sample, want)
				return false
			}
		}
		return true
	})
	mustContain(t, "metrics", text, "redoubt_clients ", "redoubt_auth_failures_total ", "redoubt_received_bytes_total ",
		"go_goroutines ", "process_open_fds ")
	if metricIs(text, "redoubt_auth_failures_total", 0) {
		t.Error("the wrong password was not counted")
	}
}

func TestHealth(t *testing.T) {
	r := redistest.Start(t)
	s := startServe(t, "--backend", r.URL())
	if status, body := s.get(t, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthy: %d, %q", status, body)
	}
	r.Pause()
	began := time.Now()
	if status, body := s.get(t, "/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(body, r.Addr()) {
		t.Errorf("paused: %d, %q", status, body)
	}
	if took := time.Since(began); took > 15*time.Second { // else it waits until it is resumed
		t.Errorf("a paused back end was found out after %v", took)
	}
	r.Resume()
	r.Kill()
	if status, body := s.get(t, "/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "does not answer") {
		t.Errorf("killed: %d, %q", status, body)
	}
	r.Restart()
	eventually(t, "it is healthy again", func() bool {
		status, _ := s.get(t, "/healthz")
		return status == http.StatusOK
	})
	if status, _ := s.get(t, "/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: %d", status)
	}
}

func TestWithoutHTTP(t *testing.T) {
	s := startServe(t, "--http=")
	if s.http != "none" {
		t.Errorf("http is %q", s.http)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

// TestServeKeepsSecrets: no log or answer has a password of the server, its clients or its back end.
//
// Promise: Redoubt shows no password in a log, an error, INFO or a metric, even if a URL or a file is malformed.
func TestServeKeepsSecrets(t *testing.T) {
	const secret = "s3cr3tw0rd"
	r := redistest.Start(t, "--requirepass", secret)
	for _, backend := range []string{"embedded:", "redis://:" + secret + "@" + r.Addr()} {
		p := startServing(t, "--listen=127.0.0.1:0", "--log-level=debug", "--backend", backend, "--password", secret)
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		told := &await.Buffer{}
		copied := make(chan struct{})
		go func() {
			_, _ = io.Copy(told, conn)
			close(copied)
		}()
		send := func(lines ...string) {
			if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
				t.Error(err)
			}
		}
		send("AUTH wrong-"+secret, "AUTH "+secret, "AUTH nobody "+secret+"x", "HELLO 3 AUTH default "+secret, "HELLO 9 AUTH default "+secret, "AUTH "+secret+" a b", "CLIENT LIST", "CLIENT INFO", "INFO", "INFO all", "INFO server", "LOCK.INFO x", "MONITOR")
		other := dial(t, p.addr)
		if err := other.Do(t.Context(), "AUTH", secret).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "MONITOR tells", func() bool {
			return other.Do(t.Context(), "GET", "end").Err() != nil && strings.Contains(told.String(), `"end"`)
		})
		_, metrics := p.get(t, "/metrics")
		_, health := p.get(t, "/healthz")
		p.signal(syscall.SIGTERM)
		p.wait()
		_ = conn.Close()
		<-copied
		for what, text := range map[string]string{"the log": p.stderr.String(), "the client": told.String(), "/metrics": metrics, "/healthz": health} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s has it: %s", backend, what, text[max(0, strings.Index(text, secret)-200):])
			}
		}
	}
}
