package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redoubt-go/redoubt/internal/dashboard"
)

// A webServer serves the dashboard, /metrics and the probes. The zero value serves nothing.
type webServer struct {
	listener  net.Listener
	server    *http.Server
	dashboard *dashboard.Handler // nil: none
	closers   []func() error     // after the dashboard
	draining  atomic.Bool        // /readyz then fails, so that balancers send no new clients
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
	if w.dashboard != nil {
		_ = w.dashboard.Close()
	}
	for _, c := range w.closers {
		_ = c()
	}
}

// leave stops accepting, and answers the requests that have come.
func (w *webServer) leave(patience time.Duration) {
	if w.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		defer cancel()
		_ = w.server.Shutdown(ctx) // close follows
	}()
}

// A listenFunc opens a listening socket.
type listenFunc func(ctx context.Context, network, address string) (net.Listener, error)

// maxHTTPConns is how many connections of HTTP may be open, so that they leave files for the clients of Redis.
const maxHTTPConns = 1000

var tooManyHTTPConns = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nredoubt: too many connections\n")

// newHTTPServer returns a server with short time-outs: every answer is short.
func newHTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	var open atomic.Int64
	return &http.Server{
		Handler: handler,
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state { //nolint:exhaustive // the others are between these
			case http.StateNew: // before the goroutine of the connection begins
				if open.Add(1) > maxHTTPConns {
					_, _ = conn.Write(tooManyHTTPConns)
					_ = conn.Close()
				}
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

func newHandler(c prometheus.Collector, back *backend, draining *atomic.Bool, more ...prometheus.Collector) (*http.ServeMux, error) {
	return newHandlerOf(c, func() []healthCheck { return backendChecks(back) }, draining, more...)
}

// newHandlerOf serves the metrics of c and more, and the probes. /readyz makes the checks anew for each request.
func newHandlerOf(c prometheus.Collector, checks func() []healthCheck, draining *atomic.Bool, more ...prometheus.Collector) (*http.ServeMux, error) {
	registry := prometheus.NewRegistry()
	for _, c := range append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBuildInfo(),
		c,
	}, more...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /livez", live())
	ready := ready(checks, draining)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /healthz", ready)
	return mux, nil
}

// listenHTTP starts the web server, or none when address is empty.
func listenHTTP(address string, listen listenFunc, handler func(w *webServer) (http.Handler, error), log *slog.Logger) (*webServer, error) {
	if address == "" {
		return &webServer{}, nil
	}
	l, err := listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, failf(exitUnavailable, "http: %w (--http '' switches it off, --http 127.0.0.1:0 takes a free port)", err)
	}
	w := &webServer{listener: l}
	h, err := handler(w)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	w.server = newHTTPServer(h, log)
	go func() {
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the http server ended", slog.Any("error", err))
		}
	}()
	return w, nil
}
