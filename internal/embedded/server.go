// Package embedded is the server behind "embedded:" URLs: an in-memory Redis
// inside this process, on a loopback port.
//
// It stands on miniredis, with a clock that runs. The embedded engine of the
// next release replaces it. Until then, what it can't do:
//
//   - It keeps nothing: the data is gone when the process ends.
//   - It is one server with one lock, and scripts cost about ten times what
//     they cost on Redis. It is for trying things out and for tests.
//   - It knows no inline commands, no SPUBLISH, no CLIENT TRACKING, no MONITOR, no FUNCTION, no
//     SCRIPT KILL and no ACL; a script that doesn't end stops the server, and
//     there are scripts and requests that end the process. Let only trusted
//     programs reach its port.
//   - A key may expire up to one tick of the clock (5 ms, more with tens of
//     thousands of keys) before its time, and PTTL is as coarse as that. What
//     a script reads by TIME is exact.
//   - Lua's tostring and '..' keep all digits of an integer, where Redis keeps
//     14: test scripts on a real Redis too.
package embedded

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often keys are checked for expiry.
const tick = 5 * time.Millisecond

// A Server is one in-memory server. Make it with [Start], end it with Close.
type Server struct {
	redis *miniredis.Miniredis
	addr  string

	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// Start starts an empty server on a free port of 127.0.0.1, without a
// password. It is ready when Start returns and runs until Close.
func Start() (*Server, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s := &Server{redis: m, addr: m.Addr(), stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.runClock()
	return s, nil
}

// Addr returns the address that the server listens on, as host:port. It stays
// the same after Close.
func (s *Server) Addr() string { return s.addr }

// Close ends the server, drops its data and closes its connections. It returns
// when all its goroutines have ended, and may be called more than once.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.stop)
		<-s.stopped
		s.redis.Close()
	})
	<-s.stopped
	return nil
}

// runClock lets the time-to-live of keys run down as time passes, which
// miniredis doesn't do by itself. Its own ClockTTL walks all keys on each
// command instead: with 10,000 keys that leaves 300 commands a second.
func (s *Server) runClock() {
	defer close(s.stopped)
	wait := time.NewTimer(tick)
	defer wait.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-wait.C:
		}
		now := time.Now()
		s.redis.FastForward(now.Sub(last))
		last = now
		// A walk over very many keys holds the server's lock for long: leave
		// most of the time to commands.
		wait.Reset(max(tick, 10*time.Since(now)))
	}
}
