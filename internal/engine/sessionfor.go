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

// Quick reports whether a command takes microseconds, unless it has to wait or
// replies with a large value.
func (s *Session) Quick(args [][]byte) bool {
	if len(args) > 64 {
		return false
	}
	cmd := s.find(args[0])
	switch {
	case cmd == nil: // an error
		return true
	case cmd.flags&flagPops != 0 && len(args) > 2:
		return len(args[2]) <= 2 // digits
	case cmd.flags&(flagQuick|flagQuickIfShort) != 0:
		return true
	case cmd.flags&flagScript != 0:
		return len(args) > 1 && s.e.opts.Natives[text(args[1])] != nil
	}
	return false
}

// TryRun is [Session.Run] for those who can't wait, neither for the reply nor
// for others who hold the keys: then nothing is run or appended, and ran is
// false.
func (s *Session) TryRun(dst []byte, args [][]byte) (out []byte, ran bool) {
	out, w, ran := s.do(dst, args, true)
	if w == nil {
		return out, ran
	}
	if w.Cancel() {
		return out, false
	}
	<-w.Done() // it has just come
	return w.Append(out), true
}

// Synced reports whether [Session.Sync] would return at once.
func (s *Session) Synced() bool { return s.seen == 0 || s.e.log.Saved(s.seen) }
