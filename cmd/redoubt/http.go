package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A webServer serves /metrics and /healthz. The zero value serves nothing.
type webServer struct {
	listener net.Listener
	server   *http.Server
	draining atomic.Bool // /healthz says so, so that no new clients are sent
}

func (w *webServer) addr() string {
	if w.listener == nil {
		return "none"
	}
	return w.listener.Addr().String()
}

func (w *webServer) close() {
	if w.server != nil {
		_ = w.server.Close()
	}
}

// newHTTPServer bounds what a client can hold up: all answers are short.
func newHTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// healthTimeout is how long /healthz waits for the back end.
const healthTimeout = time.Second

func newHandler(stats func() server.Stats, back *backend, draining *atomic.Bool) (http.Handler, error) {
	return newHandlerOf(newCollector(stats), func(ctx context.Context) ([]string, error) { return nil, health(ctx, back) }, draining)
}

// newHandlerOf serves what a collector tells, and whether healthy returns no error. It may return
// what else is wrong, a line each.
func newHandlerOf(c prometheus.Collector, healthy func(ctx context.Context) ([]string, error), draining *atomic.Bool) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		c,
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		wrong, err := healthy(r.Context())
		if draining.Load() {
			err = errDraining
		}
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
		for _, line := range append([]string{"ok"}, wrong...) {
			_, _ = fmt.Fprintln(w, line)
		}
	})
	return mux, nil
}

var errDraining = errors.New("draining: this server is about to end")

// health asks the back end for a PING, and whether it takes writes.
func health(ctx context.Context, back *backend) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := back.client.Do(ctx, redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}).Err; err != nil {
		if refusesWrites(err) { // Redis then refuses PING too
			return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
		}
		return fmt.Errorf("back end %s does not answer: %w", back.name, err)
	}
	if back.saveErr != nil {
		if err := back.saveErr(); err != nil {
			return fmt.Errorf("writes are refused, because they can't be saved: %w", err)
		}
	}
	// To delete what is not there changes nothing, and is refused as other writes
	// are. What else stands in its way, like a user without DEL, is not about health.
	err := back.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{probeKey}, Flags: redoubt.Idempotent}).Err
	if _, replied := errors.AsType[redoubt.ServerError](err); err != nil && (!replied || refusesWrites(err)) {
		return fmt.Errorf("back end %s refuses writes: %w", back.name, err)
	}
	return nil
}

// refusesWrites says whether a server's error is one that all writes get.
func refusesWrites(err error) bool {
	reply, _ := errors.AsType[redoubt.ServerError](err)
	code, _, _ := strings.Cut(string(reply), " ")
	return code == "MISCONF" || code == "READONLY" || code == "NOREPLICAS"
}

// probeKey is never there: no key of Redoubt's has an empty name.
const probeKey = "redoubt:{}:healthz"
