package ratelimit_test

import (
	"context"
	"sync"

	"github.com/redoubt-go/redoubt"
)

// gate is a Conn that holds commands until it is let go.
type gate struct {
	redoubt.Conn
	mu   sync.Mutex
	cmds []redoubt.Cmd
	hold chan struct{} // what the next commands wait for; nil lets them through
}

func (g *gate) Pipelines() bool { return true }

func (g *gate) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	g.mu.Lock()
	g.cmds = append(g.cmds, cmd)
	hold := g.hold
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return redoubt.Reply{Err: redoubt.UnknownOutcome(ctx.Err())}
		}
	}
	return g.Conn.Do(ctx, cmd)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold, g.cmds = make(chan struct{}), nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.hold)
	g.hold = nil
}

// sent are the names of the scripts that were run.
func (g *gate) sent() (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.cmds {
		names = append(names, c.Script.Name())
	}
	return names
}
