// Package servertest serves in tests.
package servertest

import (
	"errors"
	"net"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/server"
)

// Serve has srv listen on a port of its own until the test ends, and returns its address.
func Serve(tb testing.TB, srv *server.Server) (addr string) {
	tb.Helper()
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ServeOn(tb, srv, l)
	return l.Addr().String()
}

// ServePool serves a new pool until the test ends, and returns it and its address.
func ServePool(tb testing.TB, o proxy.PoolOptions) (p *proxy.Pool, addr string) {
	tb.Helper()
	p, err := proxy.NewPool(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	srv, err := server.New(server.Options{Pool: p})
	if err != nil {
		tb.Fatal(err)
	}
	return p, Serve(tb, srv)
}

// ServeOn serves the clients that connect to l until the test ends.
func ServeOn(tb testing.TB, srv *server.Server, l net.Listener) {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	tb.Cleanup(func() {
		_ = srv.Close()
		if err := <-done; !errors.Is(err, server.ErrClosed) {
			tb.Errorf("Serve: %v, want ErrClosed", err)
		}
	})
}
