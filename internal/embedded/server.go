// Package embedded is the server behind "embedded:" URLs: an engine inside this
// process, in memory, on a loopback port. Programs that are in the process
// themselves use the [engine.Engine] without the port.
package embedded

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
)

// A Server is one engine that listens. Make it with [Start], end it with Close.
type Server struct {
	engine   *engine.Engine
	listener net.Listener

	mu      sync.Mutex
	closed  bool
	clients map[net.Conn]struct{}
	wg      sync.WaitGroup
}

// Start starts an empty engine that listens on a free port of 127.0.0.1,
// without a password. It is ready when Start returns and runs until Close.
func Start() (*Server, error) {
	e, err := engine.New(engine.Options{Natives: native.All()})
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s := &Server{engine: e, listener: l, clients: make(map[net.Conn]struct{})}
	s.wg.Go(s.accept)
	return s, nil
}

// Addr returns the address that the server listens on, as host:port. It stays
// the same after Close.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Engine returns the engine that listens, for callers in the process. Close
// ends it too.
func (s *Server) Engine() *engine.Engine { return s.engine }

// Close ends the server, drops its data and closes its connections. It returns
// when all its goroutines have ended, and may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	_ = s.listener.Close()
	for c := range s.clients {
		_ = c.Close()
	}
	s.mu.Unlock()
	err := s.engine.Close()
	s.wg.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.clients[c] = struct{}{}
		s.wg.Go(func() {
			_ = s.engine.ServeConn(c) // how a client left is of no interest
			s.mu.Lock()
			delete(s.clients, c)
			s.mu.Unlock()
		})
		s.mu.Unlock()
	}
}
