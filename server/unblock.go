package server

import (
	"bytes"
	"context"
	"time"

	"github.com/redoubt-go/redoubt/command"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// waiting is a handler that waits for its client.
type waiting struct {
	*command.Unblocker

	over chan struct{} // closed when the handler has returned
}

// waits reports whether the client waits for others: CLIENT LIST shows b.
func (c *session) waits() bool {
	if w := c.waiting.Load(); w != nil {
		return w.Waits()
	}
	return c.out.blocked()
}

// blocked reports whether the next reply is that of a command that may wait on the back end.
func (o *output) blocked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slot(o.head.Load()).blocks
}

// unblock ends what the client waits for, and reports whether it waited. Any goroutine may call it.
func (c *session) unblock(ctx context.Context, how proxy.Unblocking) (bool, error) {
	if w := c.waiting.Load(); w != nil {
		as := command.ErrTimedOut
		if how == proxy.UnblockError {
			as = command.ErrUnblocked
		}
		if !w.Unblock(as) {
			return false, nil
		}
		select {
		case <-w.over:
			return w.Ended(), nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return c.route.unblock(ctx, how)
}

// unblockPatience bounds how long CLIENT UNBLOCK waits until the other client is told.
const unblockPatience = 5 * time.Second

// clientUnblock answers CLIENT UNBLOCK id [TIMEOUT | ERROR].
func (c *session) clientUnblock(args [][]byte) {
	how := proxy.UnblockTimeout
	switch {
	case len(args) > 4:
		c.fail("ERR unknown subcommand or wrong number of arguments for '" + string(args[1]) + "'. Try CLIENT HELP.")
		return
	case len(args) == 3 || bytes.EqualFold(args[3], []byte("TIMEOUT")):
	case bytes.EqualFold(args[3], []byte("ERROR")):
		how = proxy.UnblockError
	default:
		c.fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	id, ok := resp.ParseInt(args[2])
	if !ok {
		c.fail("ERR value is not an integer or out of range")
		return
	}
	if !c.settle() { // what was sent before may be what the other waits for
		return
	}
	c.out.Flush() // it may take a while
	n := int64(0)
	if o := c.srv.client(id); o != nil {
		ctx, cancel := context.WithTimeout(c.ctx, unblockPatience)
		defer cancel()
		unblocked, err := o.unblock(ctx, how)
		if err != nil {
			c.fail("ERR redoubt: the client could not be unblocked: " + err.Error() + ": close it with CLIENT KILL ID instead")
			return
		}
		if unblocked {
			n = 1
		}
	}
	c.scratch = resp.AppendInt(c.scratch[:0], n)
	c.reply(c.scratch)
}

// client returns the session with an id, or nil.
func (s *Server) client(id int64) *session {
	if id <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[uint64(id)]
}
