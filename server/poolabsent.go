package server

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// absences are the servers that clients listen to in vain, because they can't be reached.
// What such a server publishes before it is listened to again is missed. So once it answers
// these clients are closed: they subscribe anew, and count on having missed something.
type absences struct {
	mu    sync.Mutex
	of    map[*proxy.Node]map[*session]struct{} // clients without a server
	usual map[*proxy.Node]time.Duration         // how long a server took to answer that was absent before
}

const (
	confirmPatience = 500 * time.Millisecond // that servers have to confirm what others have confirmed
	absentPause     = 50 * time.Millisecond  // between two probes of a server; they cost nothing while it is known to be down
	// sharedPatience is how long a server that answers has until the connections that clients
	// share stand again: a client that is closed sends commands at once, and they are to reach it.
	// A server that doesn't speak RESP3 never has that one.
	sharedPatience = time.Second
)

// patience is how long a server has to confirm what others have confirmed. One that is
// merely slow gets more time than it took last, or its clients would be closed for ever.
func (a *absences) patience(n *proxy.Node) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(confirmPatience, 2*a.usual[n]), proxy.DefaultDialTimeout)
}

// absent reports whether a server is known not to answer.
func (a *absences) absent(n *proxy.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[n] != nil
}

// missed has a client closed once a server answers.
func (s *Server) missed(n *proxy.Node, c *session) {
	a := &s.absences
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[n] == nil {
		if a.of == nil {
			a.of, a.usual = make(map[*proxy.Node]map[*session]struct{}), make(map[*proxy.Node]time.Duration)
		}
		a.of[n] = make(map[*session]struct{})
		s.wg.Go(func() { s.awaitReturn(n) }) // c is counted in wg: it is not over
	}
	a.of[n][c] = struct{}{}
}

// forget is for a client that listens no more.
func (a *absences) forget(c *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, clients := range a.of {
		delete(clients, c)
	}
}

// awaitReturn probes a server until it answers, or nobody listens to it.
func (s *Server) awaitReturn(n *proxy.Node) {
	a := &s.absences
	var answered time.Time
	for {
		took, err := s.probe(n)
		if err == nil && took > confirmPatience/2 {
			took, err = s.probe(n) // the time that passed before it was back doesn't count
		}
		switch {
		case err != nil:
			answered = time.Time{}
		case answered.IsZero():
			answered = time.Now()
		}
		a.mu.Lock()
		clients := a.of[n]
		isBack := err == nil && (n.AllUp() || time.Since(answered) > sharedPatience)
		over := isBack || len(clients) == 0 || s.ctx.Err() != nil || !slices.Contains(s.pool.Load().Nodes(), n)
		if over {
			delete(a.of, n)
			maps.DeleteFunc(a.usual, func(o *proxy.Node, _ time.Duration) bool { return o == n || !slices.Contains(s.pool.Load().Nodes(), o) })
		}
		if err == nil && took > confirmPatience/2 {
			a.usual[n] = took
		}
		a.mu.Unlock()
		if over {
			for c := range clients {
				s.opts.Logger.Info("a subscriber is closed: a server of the pool is back, and it is to subscribe anew", "client", c.id, "server", n.Name())
				c.drain(errUnheard)
			}
			return
		}
		select {
		case <-time.After(absentPause):
		case <-s.ctx.Done():
		}
	}
}

// probe asks a server for a sign of life on a connection of its own.
func (s *Server) probe(n *proxy.Node) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	begun := time.Now()
	l := &prober{answered: make(chan struct{}), gone: make(chan error, 1)}
	d, err := n.Dedicate(ctx, resp.RESP2, l)
	if err != nil {
		return 0, err
	}
	defer func() {
		d.Close()
		<-d.Done()
	}()
	if err = d.Send(0, 1, pingRaw); err != nil {
		return 0, err
	}
	d.Flush()
	select {
	case <-l.answered:
		return time.Since(begun), nil
	case err = <-l.gone:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// A prober waits for a reply.
type prober struct {
	once     sync.Once
	answered chan struct{}
	gone     chan error
}

// Reply implements proxy.Caller.
func (l *prober) Reply(_ uint64, raw []byte) bool {
	if !bytes.HasPrefix(raw, []byte("-ERR redoubt: ")) { // else it was made here
		l.once.Do(func() { close(l.answered) })
	}
	return false
}

// Flush implements proxy.Caller.
func (*prober) Flush() {}

// Push implements proxy.Listener.
func (*prober) Push([]byte) bool { return false }

// Gone implements proxy.Listener.
func (l *prober) Gone(err error) { l.gone <- err }
