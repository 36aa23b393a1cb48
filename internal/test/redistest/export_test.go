package redistest

import (
	"errors"
	"path/filepath"
	"testing"
)

// For returns s as another test would have it.
func (s *Server) For(tb testing.TB) *Server { return &Server{tb: tb, p: s.p, shared: s.shared} }

// PortIsTaken reports whether starting another server on the port of s is
// found out as that.
func (s *Server) PortIsTaken(tb testing.TB) bool {
	dir := tb.TempDir()
	second := &process{binary: s.p.binary, dir: dir, socket: filepath.Join(dir, "s"), port: s.p.port}
	tb.Cleanup(second.remove)
	return errors.Is(second.start(), errPortTaken)
}
