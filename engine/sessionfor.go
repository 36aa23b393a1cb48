package engine

import (
	"context"
	"net"
)

// SessionFor opens a session for a client on a connection that somebody else
// reads and writes; MONITOR and CLIENT LIST show its addresses. Its caller
// promises what [Session.SyncLater] says. Close it after use.
func (e *Engine) SessionFor(client net.Conn) *Session {
	s := e.Session()
	s.SyncLater()
	s.about.set(client.RemoteAddr().String(), client.LocalAddr().String(), nil)
	return s
}

// Run is [Session.Do] for those who can wait: a command that waits is waited
// for. When ctx ends first the command is given up, and nothing is appended.
func (s *Session) Run(ctx context.Context, dst []byte, args [][]byte) []byte {
	out, w := s.Do(dst, args)
	if w == nil {
		return out
	}
	select {
	case <-w.Done():
	case <-ctx.Done():
		if w.Cancel() {
			return out
		}
		<-w.Done()
	}
	return w.Append(out)
}
