package server

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A client that is closed at any moment may just have sent a command. It would get no reply, and could not know whether
// the command ran. So a server that ends closes each client behind a reply: a client that waits for its reply sends
// nothing meanwhile. The reply and the end of the connection arrive together, so a client that looks before it sends
// again, as those with a pool of connections do, sees the end.
//
// A client that has many commands on their way at all times has no such moment. It is closed when all that have
// come are answered.

const (
	// farewell is how long clients may take to send their next command. After that they are closed as they are.
	farewell = time.Second
	// idle is how long a client sends nothing before nobody waits for its next command.
	idle = 2 * time.Second
	// lingering is how long the server waits for a client to close its side. Closing at once would reset the connection
	// if a command was on its way, and some systems then drop the replies that the client has not read.
	lingering = 100 * time.Millisecond
)

// retire stops accepting, and lets clients leave until farewell is over, or half of the time of ctx.
func (s *Server) retire(ctx context.Context) {
	patience := farewell
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.mu.Lock()
	s.retiring = !s.closed
	for _, c := range s.sessions {
		c.retirement.begun.Store(true)
		if s.clock.Load()-c.active.Load() < idle.Milliseconds() {
			c.retirement.awaited = true
			s.awaited++
		}
	}
	s.mu.Unlock()
	s.stopAccepting()
	accepted := make(chan struct{})
	go func() {
		s.accepting.Wait()
		close(accepted)
	}()
	select {
	case <-accepted: // the clients that came last have a session
	case <-ctx.Done():
	}
	for ctx.Err() == nil && s.awaiting() {
		select {
		case <-s.left:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.retiring = false
	s.mu.Unlock()
}

// awaiting reports whether clients are waited for.
func (s *Server) awaiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaited > 0
}

// preparing are commands behind which a client sends more: it has only just come, or has begun a transaction.
var preparing = map[string]bool{
	"hello": true, "auth": true, "client": true, "select": true, "reset": true, "readonly": true, "readwrite": true,
	"asking": true, "watch": true, "multi": true,
}

// A retirement is the end of a session behind its replies.
type retirement struct {
	begun   atomic.Bool // it ends with the replies to its next commands
	awaited bool        // until it has left; guarded by the server's mu
}

// possible reports whether the session may end behind the replies to its commands so far.
func (r *retirement) possible(c *session) bool {
	if !r.begun.Load() || c.draining.Load() || c.from != c.to || c.tx.active || c.carrier.watchesKeys() {
		return false
	}
	last := c.scanner.Args()
	return len(last) == 0 || !preparing[strings.ToLower(string(last[0]))]
}

// run ends the connection of c together with the replies to all commands so far. It reports false, and leaves the replies
// for answer, if the client has sent more meanwhile or the session ends anyway.
func (r *retirement) run(c *session) bool {
	c.out.keep(true)
	c.flush()
	c.count()
	answered := func() bool { return c.out.head.Load() == c.next }
	c.out.await(noDeadline, func() bool { return answered() || c.draining.Load() || len(c.out.buf) > maxIdleOutput })
	if !answered() && !c.draining.Load() { // these replies are too large to be kept
		c.out.keep(false)
		c.out.Flush()
		c.out.await(noDeadline, func() bool { return answered() || c.draining.Load() })
	}
	quiet := answered() && r.silent(c) && !c.out.failed()
	c.out.keep(false)
	if !quiet {
		return false
	}
	c.out.end(c.next)
	c.conn.Cork()
	c.out.Flush()
	written := func() bool { return len(c.out.buf) == 0 && !c.out.writing }
	if c.out.await(time.Now().Add(c.srv.opts.WriteTimeout), written) && c.conn.CloseWrite() == nil {
		r.linger(c)
	}
	return true
}

// keep has replies stay in the output, or ends that. The caller then calls Flush.
func (o *output) keep(on bool) { //nolint:revive // the parameter is the state
	o.mu.Lock()
	o.keeping = on
	o.mu.Unlock()
}

// silent reports whether nothing more has come from the client. The buffer has the bytes that have come.
func (*retirement) silent(c *session) bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(time.Millisecond)) // one in the past would not even look
	err := c.read()
	_ = c.conn.SetReadDeadline(time.Time{})
	if c.draining.Load() {
		_ = c.conn.SetReadDeadline(past)
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// linger reads until the client has closed its side too.
func (*retirement) linger(c *session) {
	end := time.Now().Add(lingering)
	buf := make([]byte, firstRead)
	for {
		_ = c.conn.SetReadDeadline(end)
		if _, err := c.conn.Read(buf); err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(end)) {
			return // drain may have set an earlier deadline meanwhile
		}
	}
}
