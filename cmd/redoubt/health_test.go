package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A prober asks the handler of a server's --http address.
type prober struct {
	t *testing.T
	http.Handler

	draining atomic.Bool
}

// newProber opens a back end.
func newProber(t *testing.T, url string, s storage) (*prober, *backend) {
	t.Helper()
	back, err := openBackend(t.Context(), url, s, "rd", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := back.close(); err != nil {
			t.Error(err)
		}
	})
	p := &prober{t: t}
	p.Handler, err = newHandler(prometheus.NewRegistry(), back, &p.draining)
	if err != nil {
		t.Fatal(err)
	}
	return p, back
}

func (p *prober) get(path string) (code int, body string) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// wants asks until the answer has a code, and checks that it begins with a text.
func (p *prober) wants(path string, code int, begins string) {
	p.t.Helper()
	var body string
	eventually(p.t, path+" is "+http.StatusText(code), func() bool {
		var now int
		now, body = p.get(path)
		return now == code
	})
	if !strings.HasPrefix(body, begins) {
		p.t.Errorf("%s says %q; want it to begin with %q", path, body, begins)
	}
}

// TestReadyOfRedis: /readyz fails if the back end answers but refuses writes.
//
// Promise: The probes of health write nothing to the back end.
func TestReadyOfRedis(t *testing.T) {
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.Mkdir(lost, 0o700); err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t, "--save", "900 1000", "--enable-protected-configs", "yes")
	p, _ := newProber(t, r.URL(), storage{})
	refuses := "back end " + r.Addr() + " refuses "
	r.CLI("CONFIG", "RESETSTAT")
	p.wants("/readyz", http.StatusOK, "ok\n")
	r.CLI("CONFIG", "SET", "dir", lost)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	r.CLI("BGSAVE")
	p.wants("/readyz", http.StatusServiceUnavailable, refuses+"writes: MISCONF")
	p.wants("/readyz?exclude=writes", http.StatusOK, "ok\n")
	r.CLI("CONFIG", "SET", "dir", t.TempDir())
	r.CLI("BGSAVE")
	p.wants("/readyz", http.StatusOK, "ok\n")
	r.CLI("CONFIG", "SET", "min-replicas-to-write", "1")
	p.wants("/readyz", http.StatusServiceUnavailable, refuses+"writes: NOREPLICAS: it has 0 good replicas, and min-replicas-to-write is 1\n")
	r.CLI("CONFIG", "SET", "min-replicas-to-write", "0")
	r.CLI("CONFIG", "SET", "maxmemory", "1")
	if code, body := p.get("/readyz"); code != http.StatusOK || !strings.HasPrefix(body, "ok\n"+refuses+"commands that need memory: used_memory is ") || !strings.HasSuffix(body, ", maxmemory 1\n") {
		t.Errorf("with a full memory /readyz is %d, %q", code, body)
	}
	r.CLI("CONFIG", "SET", "maxmemory", "0")
	r.CLI("REPLICAOF", "127.0.0.1", "1")
	p.wants("/readyz", http.StatusServiceUnavailable, refuses+"writes: READONLY: it is a replica of 127.0.0.1:1, whose link is down\n")
	p.wants("/readyz?verbose", http.StatusServiceUnavailable, "[+]backend ok\n[-]writes failed: "+refuses)
	p.wants("/livez", http.StatusOK, "ok\n")
	for _, path := range []string{"/livez?verbose", "/readyz?verbose", "/healthz"} {
		_, _ = p.get(path)
	}
	for line := range strings.Lines(r.CLI("INFO", "commandstats")) {
		stat, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		switch stat {
		case "ping", "info", "config|get", "": // of the probes
		case "config|set", "config|resetstat", "bgsave", "replicaof", "# Commandstats\n": // of this test
		case "hello", "auth", "select", "client|setinfo", "client|setname", "client|maint_notifications": // of new connections
		default:
			if line = strings.TrimSpace(line); line != "# Commandstats" {
				t.Errorf("the back end got %s", line)
			}
		}
	}
}

// TestLiveness: /livez never asks the back end, /readyz waits for it for a second.
func TestLiveness(t *testing.T) {
	r := redistest.Start(t)
	p, _ := newProber(t, r.URL(), storage{})
	p.wants("/livez?verbose", http.StatusOK, "[+]process ok\nlivez check passed\n")
	p.wants("/readyz?verbose", http.StatusOK, "[+]backend ok\n[+]writes ok\n[+]memory ok\n[+]shutdown ok\nreadyz check passed\n")
	p.wants("/readyz?verbose&exclude=memory&exclude=writes", http.StatusOK, "[+]backend ok\n[+]writes excluded: ok\n[+]memory excluded: ok\n")
	p.wants("/readyz?exclude=disk", http.StatusOK, "ok\nexclude is \"disk\"; want one of backend, writes, memory, shutdown\n")
	r.Kill()
	silent := "back end " + r.Addr() + " does not answer: "
	p.wants("/readyz", http.StatusServiceUnavailable, silent)
	if _, body := p.get("/readyz"); strings.Count(body, "\n") != 1 {
		t.Errorf("the reason is told more than once: %q", body)
	}
	p.wants("/readyz?verbose", http.StatusServiceUnavailable, "[-]backend failed: "+silent)
	p.wants("/readyz?exclude=backend&exclude=writes&exclude=memory", http.StatusOK, "ok\n")
	p.wants("/livez", http.StatusOK, "ok\n")
	p.draining.Store(true)
	p.wants("/livez", http.StatusOK, "ok\n")
}

// TestReadyOfARestrictedUser: serve may be ready although its user of the back end may not read INFO.
func TestReadyOfARestrictedUser(t *testing.T) {
	r := redistest.Start(t)
	r.CLI("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@read", "+@write", "+@connection", "-info")
	p, _ := newProber(t, "redis://app:secret@"+r.Addr(), storage{})
	p.wants("/readyz", http.StatusOK, "ok\nit is unknown whether back end "+r.Addr()+" takes writes: it refuses INFO\n")
}

// TestUnreadyBeforeTheListenerCloses: balancers learn of a drain before clients are refused.
func TestUnreadyBeforeTheListenerCloses(t *testing.T) {
	p, _ := newProber(t, "embedded:", storage{})
	web := &webServer{}
	h, err := newHandlerOf(prometheus.NewRegistry(), func() []healthCheck { return nil }, &web.draining)
	if err != nil {
		t.Fatal(err)
	}
	p.Handler = h
	p.wants("/readyz", http.StatusOK, "ok\n")
	shut := false
	drain(drainFunc(func() {
		p.wants("/readyz", http.StatusServiceUnavailable, "draining: this server is shutting down\n")
		p.wants("/readyz?exclude=shutdown", http.StatusOK, "ok\n")
		shut = true
	}), web, time.Minute, "interrupt", nil, slog.New(slog.DiscardHandler))
	if !shut {
		t.Error("it was not shut down")
	}
}

// A drainFunc is called by Shutdown, which closes the listener.
type drainFunc func()

func (drainFunc) Clients() int            { return 0 }
func (drainFunc) Drained() server.Drained { return server.Drained{} }
func (f drainFunc) Shutdown(context.Context) error {
	f()
	return nil
}

// TestReadyOfADirectory: /readyz fails while the engine answers but can't save data, and recovers with the
// disk.
func TestReadyOfADirectory(t *testing.T) {
	p, back := newProber(t, "embedded:", storage{dir: t.TempDir()})
	p.wants("/readyz?verbose", http.StatusOK, "[+]backend ok\n[+]writes ok\n[+]memory ok\n[+]disk ok\n[+]shutdown ok\n")
	saves := back.saveErr
	back.saveErr = func() error { return errors.New("no space left on device") }
	p.wants("/readyz", http.StatusServiceUnavailable, "writes are refused because they can't be saved: no space left")
	p.wants("/readyz?exclude=disk", http.StatusOK, "ok\n")
	back.saveErr = saves
	p.wants("/readyz", http.StatusOK, "ok\n")
}

// TestClientLinesAreLogged: the log of serve has go-redis' lines about a lost back end, in the log's format.
func TestClientLinesAreLogged(t *testing.T) {
	r := redistest.Start(t)
	s := startServe(t, "--backend", r.URL(), "--log-level=debug")
	r.Kill()
	eventually(t, "go-redis says so", func() bool {
		_, _ = s.get(t, "/healthz")
		return strings.Contains(s.stderr.String(), `"level":"DEBUG","msg":"go-redis","message":"`)
	})
}
