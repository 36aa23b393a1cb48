package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestHealthOfRedis: /healthz fails if the back end answers but refuses writes.
func TestHealthOfRedis(t *testing.T) {
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.Mkdir(lost, 0o700); err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t, "--save", "900 1000", "--enable-protected-configs", "yes")
	back, err := openBackend(t.Context(), r.URL(), storage{}, "rd", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = back.close() }()
	var draining atomic.Bool
	h, err := newHandler(func() server.Stats { return server.Stats{} }, back, &draining)
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(code int, words ...string) {
		t.Helper()
		var w *httptest.ResponseRecorder
		eventually(t, "/healthz is "+http.StatusText(code), func() bool {
			w = httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
			return w.Code == code
		})
		mustContain(t, "/healthz", w.Body.String(), words...)
	}
	becomes(http.StatusOK)
	r.CLI("CONFIG", "SET", "dir", lost)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	r.CLI("BGSAVE")
	becomes(http.StatusServiceUnavailable, "back end "+r.Addr()+" refuses writes", "MISCONF")
	r.CLI("CONFIG", "SET", "dir", t.TempDir())
	r.CLI("BGSAVE")
	becomes(http.StatusOK)
	r.CLI("CONFIG", "SET", "min-replicas-to-write", "1")
	becomes(http.StatusServiceUnavailable, "NOREPLICAS")
	r.CLI("CONFIG", "SET", "min-replicas-to-write", "0")
	r.CLI("REPLICAOF", "127.0.0.1", "1")
	becomes(http.StatusServiceUnavailable, "refuses writes")
	if n := r.CLI("DBSIZE"); n != "0" {
		t.Errorf("%s keys", n)
	}
}

// TestHealthOfADirectory: /healthz fails while the engine answers but can't save data, and recovers with the
// disk.
func TestHealthOfADirectory(t *testing.T) {
	back, err := openEmbedded(t.Context(), storage{dir: t.TempDir()}, "rd", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := back.close(); err != nil {
			t.Error(err)
		}
	}()
	var draining atomic.Bool
	h, err := newHandler(func() server.Stats { return server.Stats{} }, back, &draining)
	if err != nil {
		t.Fatal(err)
	}
	saves := back.saveErr
	full := errors.New("no space left on device")
	for _, step := range []struct {
		err  func() error
		code int
		text string
	}{
		{saves, http.StatusOK, "ok"},
		{func() error { return full }, http.StatusServiceUnavailable, "writes are refused because they can't be saved: no space left"},
		{saves, http.StatusOK, "ok"},
	} {
		back.saveErr = step.err
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
		if w.Code != step.code || !strings.HasPrefix(w.Body.String(), step.text) {
			t.Errorf("/healthz is %d, %q; want %d, %q", w.Code, w.Body, step.code, step.text)
		}
	}
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
