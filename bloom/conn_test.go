package bloom_test

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
)

// A hooked is a Conn that calls before with each command before it sends the command. It may lose
// replies to commands that are sent alone.
type hooked struct {
	redoubt.Conn
	before func(cmd redoubt.Cmd)
	loses  func(cmd redoubt.Cmd) bool // nil: none
}

func (h *hooked) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	h.before(cmd)
	r := h.Conn.Do(ctx, cmd)
	if h.loses != nil && h.loses(cmd) {
		return redoubt.Reply{Err: errCut}
	}
	return r
}

func (h *hooked) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	for _, cmd := range cmds {
		h.before(cmd)
	}
	return h.Conn.Pipeline(ctx, cmds)
}

// listed gives items to a rebuild.
func listed(items []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, i := range items {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// A cut is a Conn that loses everything from some moment on.
type cut struct {
	redoubt.Conn
	cut   atomic.Bool
	armed atomic.Bool
	after string // a script after which it cuts itself, once it is armed
}

var errCut = redoubt.UnknownOutcome(context.DeadlineExceeded)

func (c *cut) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.cut.Load() {
		return redoubt.Reply{Err: errCut}
	}
	if c.armed.Load() && cmd.Script != nil && cmd.Script.Name() == c.after {
		defer c.cut.Store(true)
	}
	return c.Conn.Do(ctx, cmd)
}

func (c *cut) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if c.cut.Load() {
		replies := make([]redoubt.Reply, len(cmds))
		for i := range replies {
			replies[i].Err = errCut
		}
		return replies
	}
	return c.Conn.Pipeline(ctx, cmds)
}
