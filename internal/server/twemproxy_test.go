package server_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestStrict: a strict server closes its clients where twemproxy does: without a reply, but
// not without those to what came before.
func TestStrict(t *testing.T) {
	p := startStrict(t, redistest.Start(t).Addr())
	w := dial(t, p.addr)
	w.write("*2\r\n$3\r\nGET\r\n$1\r\na\r\n" + "*1\r\n$4\r\nPING\r\n" + "*2\r\n$6\r\nCONFIG\r\n$1\r\na\r\n" + "*1\r\n$4\r\nPING\r\n")
	w.expect("$-1\r\n") // what came before has its reply
	w.expect("+PONG\r\n")
	w.expectClosed()
	inline := dial(t, p.addr)
	inline.write("PING\r\n")
	inline.expectClosed()
}

func startStrict(t *testing.T, backend string) *poolOf {
	t.Helper()
	pool := proxy.PoolOptions{Name: "alpha", Servers: []proxy.PoolServer{{
		Server: ring.Server{Name: "redis-1", Weight: 1}, Backend: &proxy.Redis{Addr: backend},
	}}}
	p := &poolOf{}
	p.serve(t, pool, func(o *server.Options) { o.Strict = true })
	return p
}

// TestStrictIsTwemproxys: every command of Redis with up to seven arguments is answered,
// or its client closed, as testdata/answered.txt has it of nutcracker 0.5.0: name, and a
// digit for each number of arguments. Where nutcracker is installed, it is asked as well.
func TestStrictIsTwemproxys(t *testing.T) {
	r := redistest.Start(t)
	addrs := map[string]string{"we": startStrict(t, r.Addr()).addr}
	if nutcracker, err := exec.LookPath("nutcracker"); err == nil {
		addrs["twemproxy"] = startNutcracker(t, nutcracker, r.Addr())
	}
	text, err := os.ReadFile("testdata/answered.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(text)) {
		name, answered, _ := strings.Cut(strings.TrimSpace(line), " ")
		commands++
		for n, want := range answered {
			args := []string{name, "k", "1", "1", "1", "1", "1", "1"}[:n+1]
			for who, addr := range addrs {
				w := dial(t, addr)
				w.sendQuietly(args...)
				_, err := w.next()
				_ = w.conn.Close()
				if got := err == nil; got != (want == '1') {
					t.Errorf("%v: %s answer: %t", args, who, got)
				}
			}
		}
	}
	if commands < 200 {
		t.Errorf("%d commands, want all of Redis but QUIT and AUTH", commands)
	}
}

// startNutcracker runs one in front of a server and returns where it listens.
func startNutcracker(t *testing.T, nutcracker, backend string) string {
	t.Helper()
	dir := t.TempDir()
	var ports [2]int
	for i := range ports {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
	}
	addr, file := fmt.Sprintf("127.0.0.1:%d", ports[0]), filepath.Join(dir, "n.yml")
	conf := fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1\n", addr, backend)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(nutcracker, "-c", file, "-s", fmt.Sprint(ports[1]), "-o", filepath.Join(dir, "log")) //nolint:gosec // the installed one
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "nutcracker listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr
}
