package clienttest

import (
	"context"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
)

// A Counter is a Conn that counts what it is asked to send, but for HELLO, which a Client asks
// once. It can't subscribe, so a Client on it doesn't.
type Counter struct {
	redoubt.Conn

	Trips    atomic.Int64 // calls: a pipeline is one
	Commands atomic.Int64
	Scripts  atomic.Int64 // commands that run a script
}

// Do counts one command.
func (c *Counter) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Name != "HELLO" {
		c.count(cmd)
	}
	return c.Conn.Do(ctx, cmd)
}

// Pipeline counts several.
func (c *Counter) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	c.count(cmds...)
	return c.Conn.Pipeline(ctx, cmds)
}

func (c *Counter) count(cmds ...redoubt.Cmd) {
	c.Trips.Add(1)
	c.Commands.Add(int64(len(cmds)))
	for _, cmd := range cmds {
		if cmd.Script != nil {
			c.Scripts.Add(1)
		}
	}
}
