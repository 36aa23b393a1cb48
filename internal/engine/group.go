package engine

import (
	"context"
	"net"
)

// A Group is sessions whose scripts can be stopped together, while the scripts of other sessions go on.
// It opens sessions as its engine does.
type Group struct {
	e    *Engine
	over chan struct{} // closed by StopScripts, with scriptRuns.mu held
}

// Group returns a group without sessions.
func (e *Engine) Group() *Group { return &Group{e: e, over: make(chan struct{})} }

// Open is [Engine.Open] for a session of the group, which is a server's own and no client in INFO.
func (g *Group) Open(context.Context) (net.Conn, error) {
	return g.e.connect(localAddr{}, localAddr{}, g, false)
}

// OpenFor is [Engine.OpenFor] for a session of the group.
func (g *Group) OpenFor(_ context.Context, client net.Conn, l Limits, o OuterSettings) (net.Conn, error) {
	return g.e.openFor(client, g, l, o)
}

// Name is [Engine.Name].
func (g *Group) Name() string { return g.e.Name() }

// Database is [Engine.Database].
func (g *Group) Database() int { return g.e.Database() }

// SessionFor is [Engine.SessionFor] for a session of the group.
func (g *Group) SessionFor(client net.Conn) *Session {
	s := g.e.SessionFor(client)
	s.group = g
	return s
}

// StopScripts is [Engine.StopScripts] for the sessions of the group.
func (g *Group) StopScripts() {
	rs := &g.e.scripts
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !g.stopped() {
		close(g.over)
	}
	for r := range rs.runs {
		if r.group == g {
			r.interrupt.Set()
		}
	}
}

// ended is closed by StopScripts. It is nil without a group.
func (g *Group) ended() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.over
}

func (g *Group) stopped() bool {
	select {
	case <-g.ended():
		return true
	default:
		return false
	}
}
