package server

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// await runs a handler that waits. Meanwhile it reads the connection, so that the handler's ctx ends when
// the client goes away.
func (c *session) await(family uint8, p command.Plan) {
	if !c.quiesce() {
		return
	}
	if why := c.carrier.cannotWait(); why != "" {
		if p.Whole {
			c.plan(nil, nil, p.Instead())
		} else {
			c.fail(why)
		}
		return
	}
	c.waitFor(nil) // p may know better
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	c.count()
	c.sent.Store(c.next + 1) // not idle
	gone, stop := c.watchConn(func(error) { cancel(errGone) })
	work := ctx
	if p.Whole {
		var finished func()
		work, finished = command.Finishing(ctx)
		defer finished()
	}
	if !p.Whole && family != unmeasured {
		defer c.waitsIn(family)()
	}
	outcome, ok := unblockable(work, c, p)
	stop()
	if !ok {
		c.fail("ERR redoubt: internal error")
		return
	}
	if gone() && !p.Whole { // what is Whole is done, and a client that has only ended its side hears so
		if outcome.Undo != nil {
			outcome.Undo()
		}
		c.out.fail(errGone)
		return
	}
	c.scratch = outcome.Append(c.scratch[:0], c.protocol)
	c.reply(c.scratch)
	c.out.Flush()
	if outcome.Undo != nil && c.out.failed() {
		outcome.Undo()
	}
}

// mayWrite reports whether a command of Redis or of the server's own may change keys or publish a message.
func mayWrite(c *session, args [][]byte) bool {
	if h := c.srv.lookup(args[0]); h != nil && h.command != nil {
		return !h.rights.Reads()
	}
	return c.counter.MayWrite(args)
}

// awaitPause waits while CLIENT PAUSE holds the command at hand back. It reports false when the session is to end: then
// the command has not run.
func awaitPause(c *session, args [][]byte) bool {
	h := c.srv.lookup(args[0])
	var asked [][]byte // of Redis
	writes := false
	switch {
	case !c.authed:
		return true
	case h != nil && h.command != nil:
		writes = !h.rights.Reads()
	default:
		asked = args
		writes = c.tx.writes && h != nil && h.name == "exec"
	}
	if !c.counter.Held(asked, writes) {
		return true
	}
	if !c.quiesce() {
		return false
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	gone, stop := c.watchConn(func(error) { cancel(errGone) })
	over := c.counter.AwaitPause(ctx, asked, writes)
	stop()
	if gone() {
		c.out.fail(errGone)
	}
	return over && !gone()
}

// waitsIn counts a client that waits for others in a command of a family, until over is called. The latency of
// the command says nothing then.
func (c *session) waitsIn(family uint8) (over func()) {
	st, began := &c.srv.stats, latency.Now()
	st.waiting[family].Add(1)
	return func() {
		st.waiting[family].Add(-1)
		st.waits.observe(family, time.Duration(latency.Now()-began), 1)
		c.out.askedAt(c.next, began, unmeasured)
	}
}

// unblockable is outcome while others may unblock the client.
func unblockable(ctx context.Context, c *session, p command.Plan) (o command.Outcome, ok bool) {
	ctx, u, stop := command.WithUnblocker(ctx)
	defer stop()
	w := &waiting{Unblocker: u, over: make(chan struct{})}
	c.waiting.Store(w)
	defer close(w.over)
	defer c.waiting.Store(nil)
	return outcomeOf(ctx, c, p)
}

// outcomeOf runs what waits. A panic becomes ok = false.
func outcomeOf(ctx context.Context, c *session, p command.Plan) (o command.Outcome, ok bool) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
	}()
	return p.Wait(ctx), true
}

func (o *output) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// slowAnswer is how long a server may take before the session checks that the client is still connected.
// The check costs as much as a request.
const slowAnswer = 50 * time.Millisecond

// attended returns a context that ends when the client is gone, until stop is called. A client that has
// closed only its sending side keeps it for a while longer. The client has left the poller.
func (c *session) attended(while time.Duration) (ctx context.Context, stop func()) {
	c.out.Flush() // what was answered before doesn't wait
	// It may go on while the session drains.
	ctx, over := context.WithCancelCause(context.WithoutCancel(c.ctx))
	cancel := context.CancelFunc(func() { over(errGone) })
	c.asking.Store(&cancel)
	if c.out.failed() {
		cancel() // killed meanwhile
	}
	var later *time.Timer
	var unwatch func()
	watches := make(chan struct{})
	watch := time.AfterFunc(slowAnswer, func() {
		defer close(watches)
		_, unwatch = c.watchConn(func(err error) {
			if !errors.Is(err, io.EOF) {
				cancel()
				return
			}
			later = time.AfterFunc(while, cancel)
		})
	})
	return ctx, func() {
		if !watch.Stop() {
			<-watches
			unwatch()
			if later != nil {
				later.Stop()
			}
		}
		c.asking.Store(nil)
		cancel()
	}
}

// maxAhead is how many bytes a client may send ahead while a handler waits. Beyond it the connection is
// not read, so the end of the client goes unnoticed.
const maxAhead = 1 << 20

// watchConn reads what the client sends ahead into c.buf until stop is called,
// and calls over with the reason when the connection ends. Between the two only stop may
// touch the buffer.
func (c *session) watchConn(over func(err error)) (gone func() bool, stop func()) {
	done := make(chan struct{})
	ended := false
	go func() {
		defer close(done)
		for c.to-c.from < maxAhead {
			if c.to == len(c.buf) {
				c.buf = socket.Grow(c.buf, 2*len(c.buf))
			}
			n, err := c.conn.Read(c.buf[c.to:])
			c.to += n
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					ended = true
					over(err)
				}
				return
			}
		}
	}()
	stop = func() {
		_ = c.conn.SetReadDeadline(past)
		<-done
		_ = c.conn.SetReadDeadline(time.Time{})
		if c.draining.Load() {
			_ = c.conn.SetReadDeadline(past)
		}
	}
	return func() bool { return ended }, stop
}

// waiting is a handler that waits for its client.
type waiting struct {
	*command.Unblocker

	over chan struct{} // closed when the handler has returned
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

// waitFor notes which marker of a queue a client is about to wait for, if any, in a command on these keys.
func (c *session) waitFor(keys [][]byte) {
	var marker *string
	if len(keys) > 0 && command.IsMarker(keys[0]) {
		key := string(keys[0])
		marker = &key
	}
	c.marker.Store(marker)
}
