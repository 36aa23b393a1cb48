package proxy

import (
	"sync"
	"time"
)

// A gate holds back commands for a server that is back, until a function has run. Subscribers learn by it
// that they may have missed messages. The gate opens for both shared connections together, because these
// clients then send commands by either version of RESP.
type gate struct {
	mu     sync.Mutex
	before func()                 // nil: nothing has to happen
	here   map[*Upstream]struct{} // connected, and no command may be sent yet
	opened chan struct{}          // closed when before has returned; nil: no connection waits for that
	soon   chan struct{}          // closed when no connection waits here; nil: before has not been called for the waiting ones
}

// gatePatience is how long a shared connection waits for the other. A server without RESP3 never
// gets its RESP3 connection back.
const gatePatience = time.Second

// BeforeReturn sets a function that runs once, before a server without a shared connection gets its next
// command. nil means none. f must not block.
func (n *Node) BeforeReturn(f func()) {
	g := &n.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = f
	if f == nil && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// Returning reports whether the server is back but may not get commands yet.
func (n *Node) Returning() bool {
	n.gate.mu.Lock()
	defer n.gate.mu.Unlock()
	return len(n.gate.here) > 0
}

// returned is closed once commands may be sent. It is nil if the server is not back, or has to wait
// for its other shared connection.
func (n *Node) returned() <-chan struct{} {
	n.gate.mu.Lock()
	defer n.gate.mu.Unlock()
	return n.gate.soon
}

// pass is called with a new connection of u, and returns once commands may be sent on it.
func (n *Node) pass(u *Upstream) {
	g := &n.gate
	g.mu.Lock()
	if g.here == nil {
		g.here = make(map[*Upstream]struct{})
	}
	g.here[u] = struct{}{}
	all := true
	for i := range n.upstreams {
		if o := n.upstreams[i].Load(); o != nil && o != u {
			_, here := g.here[o]
			all = all && (here || o.up())
			o.ReconnectNow()
		}
	}
	if g.before == nil {
		g.mu.Unlock()
		return
	}
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	opened := g.opened
	g.mu.Unlock()
	if !all {
		patience := time.NewTimer(gatePatience)
		defer patience.Stop()
		select {
		case <-opened:
			return
		case <-u.ctx.Done():
			return
		case <-patience.C:
		}
	}
	g.mu.Lock()
	if g.opened != opened { // the other connection opens it
		g.mu.Unlock()
		<-opened
		return
	}
	before := g.before
	g.before, g.opened = nil, nil
	if g.soon == nil {
		g.soon = make(chan struct{})
	}
	g.mu.Unlock()
	before() // not nil: BeforeReturn(nil) takes opened away
	close(opened)
}

// passed is called when commands can be sent on the connection that has passed.
func (n *Node) passed(u *Upstream) {
	g := &n.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.here, u)
	if len(g.here) == 0 && g.soon != nil {
		close(g.soon)
		g.soon = nil
	}
}
