package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/server"
)

// TestHealthOfADirectory wants /healthz to say so when the data can't be saved,
// although the engine answers, and to be well again with the disk.
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
		{func() error { return full }, http.StatusServiceUnavailable, "writes are refused, because they can't be saved: no space left"},
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
