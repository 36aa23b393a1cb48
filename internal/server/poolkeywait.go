package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// These errors end the wait for keys, beside the end of the client or the server.
var (
	errMoved        = errors.New("the servers of the pool have changed")
	errMessagesLost = errors.New("a connection that the client listened on was lost")
)

// borrow takes a connection to a server for this client alone. It reports false when it has answered
// the command with an error instead.
func (c *pooled) borrow(n *proxy.Node) (*proxy.Exclusive, bool) {
	c.out.Flush() // connecting may take long
	ctx, cancel := context.WithTimeout(c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	x, err := n.Borrow(ctx, c.protocol)
	if err != nil {
		c.scratch = append(c.scratch[:0], c.notBorrowed(n, err)...)
		c.reply(c.scratch)
		return nil, false
	}
	x.CountBy(&c.out)
	c.srv.stats.dedicated.Add(1)
	return x, true
}

// notBorrowed is the reply to a command that got no connection.
func (c *pooled) notBorrowed(n *proxy.Node, err error) []byte {
	c.srv.stats.backendErrors.Add(1)
	if fault, ok := errors.AsType[*proxy.Fault](err); ok {
		return fault.Reply()
	}
	if refused, ok := errors.AsType[resp.Error](err); ok {
		return resp.AppendError(nil, string(refused)) // as the server put it
	}
	if refused, ok := errors.AsType[redoubt.ServerError](err); ok {
		return resp.AppendError(nil, string(refused))
	}
	return proxy.Unreachable(n.Backend().Name(), err).Reply()
}

// unasked is the reply to a command for which [pooled.ask] returned replies and an error. If replies is
// not empty, the command may have run.
func unasked(n *proxy.Node, replies []byte, err error) []byte {
	if len(replies) > 0 {
		return proxy.Lost(n.Backend().Name()).Reply()
	}
	return proxy.Unreachable(n.Backend().Name(), err).Reply()
}

// ask runs commands on a borrowed connection and waits for their replies, until the pool's time-out
// or the end of the client. The client has left the poller.
func (c *pooled) ask(x *proxy.Exclusive, n int, commands []byte) ([]byte, error) {
	ctx, stop := c.attended(c.srv.opts.WriteTimeout)
	defer stop()
	if d := cmp.Or(c.timeout, c.pool.Options().Timeout); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return x.Ask(ctx, n, commands)
}

// block runs a command that may wait for its keys, on its own connection. The connection is
// closed when the client goes away, which ends the wait on the server.
func (c *pooled) block(keys [][]byte, n *proxy.Node, raw []byte) {
	raw = bytes.Clone(raw) // more is read into the buffer meanwhile
	w := &keyWait{c: c, node: n, pool: c.pool, protocol: c.protocol}
	for _, k := range keys {
		w.keys = append(w.keys, bytes.Clone(k))
	}
	c.as(Passed)
	c.await(unmeasured, command.Plan{Wait: func(ctx context.Context) command.Outcome {
		c.waitFor(w.keys)
		reply := w.run(ctx, raw)
		if bytes.HasPrefix(reply, unblockedCode) || isNull(reply) {
			_ = command.Unblocked(ctx) // it is the answer
		}
		c.quit = c.quit || len(reply) == 0
		return command.Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return append(dst, reply...) }}
	}})
}

// A keyWait is a client that waits for keys of one server.
type keyWait struct {
	c        *pooled
	keys     [][]byte
	node     *proxy.Node
	pool     *proxy.Pool
	protocol resp.Protocol
	moved    func()
	seen     servers // when it was checked last; of the tick
}

// run runs the command and returns its reply. An empty reply closes the client.
func (w *keyWait) run(ctx context.Context, raw []byte) []byte {
	c := w.c
	// When the client is gone, the connection is closed. Any other cause ends the wait on the server
	// instead, so that no element is taken there and then lost.
	ended, end := context.WithCancelCause(ctx)
	defer end(nil)
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errGone) {
			kill()
		}
	})()
	c.asking.Store(&kill)
	defer c.asking.Store(nil)
	if c.killed.Load() {
		kill()
	}
	w.moved = func() { end(errMoved) }
	defer context.AfterFunc(command.Waiting(ctx), func() {
		if how := context.Cause(command.Waiting(ctx)); errors.Is(how, command.ErrTimedOut) {
			end(proxy.ErrTimeout)
		} else {
			end(how)
		}
	})()
	c.waitsFor.Store(w)
	defer c.waitsFor.Store(nil)
	t := w.node.Attempt()
	for {
		x, err := t.Borrow(ended, w.protocol)
		if err != nil {
			if ended.Err() != nil {
				return unblocked(context.Cause(ended), w.protocol)
			}
			return c.notBorrowed(t.Node(), err)
		}
		c.srv.stats.dedicated.Add(1)
		at := t.Node()
		reply, err := x.Block(life, ended, raw)
		x.Return()
		c.srv.stats.dedicated.Add(-1)
		if err == nil {
			again, disagreed := t.Follow(ended, reply)
			switch {
			case (again || disagreed != nil) && ended.Err() != nil: // it has run nowhere
				return unblocked(context.Cause(ended), w.protocol)
			case again:
				continue
			case disagreed != nil:
				return disagreed.Reply()
			}
		}
		return w.outcome(ended, at, reply, err)
	}
}

// outcome is the reply to a command that has waited on node n.
func (w *keyWait) outcome(ended context.Context, n *proxy.Node, reply []byte, err error) []byte {
	switch {
	case ended.Err() != nil && (err == nil && bytes.HasPrefix(reply, unblockedCode) || err != nil && !errors.Is(err, redoubt.ErrUnknownOutcome)):
		return unblocked(context.Cause(ended), w.protocol)
	case err == nil, len(reply) > 0:
		return reply
	}
	return w.c.notBorrowed(n, err)
}

var unblockedCode = []byte("-UNBLOCKED ")

// isNull reports whether a reply is a null of either protocol. A command whose time-out has passed
// replies null.
func isNull(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("*-1")) || bytes.HasPrefix(raw, []byte("$-1")) || bytes.HasPrefix(raw, []byte("_"))
}

// unblocked is the reply to a command whose wait has ended and that has changed nothing. When this
// server ends, there is no reply and the client is closed, as in Redis.
func unblocked(cause error, p resp.Protocol) []byte {
	switch {
	case errors.Is(cause, command.ErrUnblocked):
		return resp.AppendError(nil, command.UnblockedReply)
	case errors.Is(cause, proxy.ErrTimeout):
		return resp.AppendNullArray(nil, p)
	}
	for _, own := range []error{errMoved, errMessagesLost} {
		if errors.Is(cause, own) {
			return resp.AppendError(nil, "UNBLOCKED redoubt: "+own.Error()+": ask again")
		}
	}
	return nil
}
