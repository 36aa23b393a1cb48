package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A server closes a connection for a bulk beyond its proto-max-bulk-len, or replies beyond its
// client-output-buffer-limit. On the shared connection that would lose the replies of all
// clients. So commands that may be too large are isolated: on a connection of the upstream that
// has nothing else under way. While a large reply arrives on the shared connection, all other
// commands are isolated too: they would wait behind it.
//
// Rejected: sending again what was lost with the shared connection, since writes may have run.

// LargeCommand is the greatest length of a command on the shared connection. Every server
// accepts that length: Redis' proto-max-bulk-len is at least 1 MiB.
const LargeCommand = 1 << 20

// maxIsolated is how many commands of an upstream are isolated at once. Each takes a connection to
// the server. Further commands wait.
const maxIsolated = 64

// An isolation is the isolated connections of an upstream. At most maxIsolated are busy. A
// new one is made only when none is idle, so there are never more than maxIsolated.
type isolation struct {
	mu      sync.Mutex
	all     map[*conn]bool // whether it is busy
	permits permits        // one for each connection that is busy or being made
	ration  permits        // one for each of them that has a rationed command
	idle    []idleConn
	trimmer *time.Timer
	closed  bool
	huge    atomic.Int64 // connections on which a reply of more than hugeReply arrives
	running sync.WaitGroup
}

// An idleConn is an isolated connection without commands.
type idleConn struct {
	conn  *conn
	since time.Time
}

const firstIsolatedRead = 4 << 10

// release returns a permit.
func (s *isolation) release(rationed bool) { //nolint:revive // the parameter is whose permit it was
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(rationed)
}

func (s *isolation) releaseLocked(rationed bool) { //nolint:revive // the parameter is whose permit it was
	s.permits.release()
	if rationed {
		s.ration.release()
	}
}

// take returns the connection that was used last, or nil.
func (s *isolation) take(ration bool) *conn { //nolint:revive // the parameter is what the conn is for
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n-- {
		l := s.idle[n-1].conn
		s.idle = s.idle[:n-1]
		if l.usable() {
			s.all[l], l.rationed = true, ration
			return l
		}
	}
	return nil
}

// add reports false when the upstream is closed.
func (s *isolation) add(l *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*conn]bool{}
	}
	s.all[l] = true
	s.running.Add(1)
	return true
}

// forget follows the end of a connection.
func (s *isolation) forget(l *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[l] {
		s.releaseLocked(l.rationed)
	}
	delete(s.all, l)
	s.idle = slices.DeleteFunc(s.idle, func(i idleConn) bool { return i.conn == l })
}

// put takes back a connection that has nothing under way.
func (s *isolation) put(l *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[l] = false
	s.idle = append(s.idle, idleConn{l, time.Now()})
	s.releaseLocked(l.rationed)
	if s.trimmer == nil && !s.closed {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// trim closes the connections that nobody has needed for a while.
func (s *isolation) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0 // the front: those used last are taken first
	for old < len(s.idle) && time.Since(s.idle[old].since) >= idleTime {
		_ = s.idle[old].conn.socket.Close()
		old++
	}
	s.idle = slices.Delete(s.idle, 0, old)
	s.trimmer = nil
	if len(s.idle) > 0 {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// busy reports whether somebody waits for a reply.
func (s *isolation) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken > 0
}

// roomy reports whether at least half of all permits are free.
func (s *isolation) roomy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken < maxIsolated/2
}

// counts returns how many connections are with commands, and how many commands wait for one.
func (s *isolation) counts() (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken, len(s.permits.waiting) + len(s.ration.waiting)
}

// close ends all, and waits until every pending command has an error.
func (s *isolation) close() {
	s.mu.Lock()
	s.closed = true
	if s.trimmer != nil {
		s.trimmer.Stop()
	}
	for l := range s.all {
		_ = l.socket.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// protocolError begins the reply that a server sends before it closes a connection.
var protocolError = []byte("-ERR Protocol error")

// The server is asked for its limits when the shared connection is made, before anything is sent
// on it. They may change at any time, so it is asked again and again, while commands are sent.

// limitsEvery is how often the server is asked.
const limitsEvery = time.Second

var configLimits = resp.AppendCommand(nil, "CONFIG", "GET", "client-output-buffer-limit")

// begin reports whether a goroutine may start. close waits for it.
func (s *isolation) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}
