package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

const (
	// maxResends bounds the resending of ReadOnly and Idempotent commands whose replies were lost.
	maxResends = 3
	// maxClosed is how many closed connections a command may be led to before the client is taken to be
	// closed: with Sentinel and on a cluster rueidis closes the connections to servers that have left.
	maxClosed = 5
)

// A verdict is what is to be done with an item after an attempt.
type verdict int

const (
	finished  verdict = iota
	sendNow           // after a redirect or a script load
	sendLater         // after a pause
)

// run gives every item a reply. It returns early only when ctx ends between two attempts.
func (c *Conn) run(ctx context.Context, f *flight) {
	items := make([]*item, 0, len(f.items))
	for i := range f.items {
		it := &f.items[i]
		if !it.sendable() {
			f.fail(it, fmt.Errorf("rueidisconn: %q can't be sent as a command", it.words[0]))
			continue
		}
		items = append(items, it)
	}
	var p conn.Pauses
	for len(items) > 0 {
		items = c.attempt(ctx, f, items, &p)
		if len(items) == 0 {
			return
		}
		err := ctx.Err()
		if err == nil && p.Due {
			err = p.Wait(ctx)
		}
		if err != nil {
			for _, it := range items {
				f.fail(it, conn.Stopped(err, it.err))
			}
			return
		}
	}
}

// attempt sends the items, settles what it can, loads the scripts that were missed, and returns the items to
// be sent again. p.Due is set when a pause must come first.
func (c *Conn) attempt(ctx context.Context, f *flight, items []*item, p *conn.Pauses) (again []*item) {
	p.Due = false
	missed := false
	for _, v := range c.send(ctx, f, items) {
		switch v.verdict {
		case finished:
			continue
		case sendLater:
			p.Due = true
		case sendNow:
			missed = missed || v.item.missed
		}
		again = append(again, v.item)
	}
	if missed {
		c.loadMissed(ctx, again)
	}
	return again
}

// judged is an item after an attempt.
type judged struct {
	*item
	verdict verdict
}

// send makes one attempt for all items, at once on every node concerned.
func (c *Conn) send(ctx context.Context, f *flight, items []*item) []judged {
	if c.slots == nil || len(items) == 1 {
		client, alone := c.client, items
		if c.slots != nil {
			client = c.route(items[0])
		}
		return c.sendTo(ctx, f, client, alone)
	}
	groups := make(map[*node][]*item)
	var parts [][]*item
	for _, it := range items {
		c.route(it)
		if it.node == nil {
			parts = append(parts, []*item{it})
			continue
		}
		groups[it.node] = append(groups[it.node], it)
	}
	for _, group := range groups {
		parts = append(parts, group)
	}
	all := make([][]judged, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		client := c.client
		if n := part[0].node; n != nil {
			client = n.client
		}
		wg.Go(func() { all[i] = c.sendTo(ctx, f, client, part) })
	}
	wg.Wait()
	var flat []judged
	for _, part := range all {
		flat = append(flat, part...)
	}
	return flat
}

func (c *Conn) sendTo(ctx context.Context, f *flight, client rueidis.Client, items []*item) []judged {
	g := &gate{Context: ctx, flight: f, items: items}
	verdicts := make([]judged, len(items))
	built := func(it *item) rueidis.Completed {
		it.missed = false
		cmd := it.build(client.B())
		if c.slots != nil && it.keyPos == 0 {
			cmd = cmd.SetSlot(it.route) // rueidis would send it to any node, also to a replica
		}
		return cmd
	}
	if len(items) == 1 {
		verdicts[0] = judged{items[0], c.judge(ctx, g, items[0], client.Do(g, built(items[0])))}
		return verdicts
	}
	cmds := make([]rueidis.Completed, len(items))
	for i, it := range items {
		cmds[i] = built(it)
	}
	for i, r := range client.DoMulti(g, cmds...) {
		verdicts[i] = judged{items[i], c.judge(ctx, g, items[i], r)}
	}
	return verdicts
}

// judge finishes an item or says when it is to be sent again.
func (c *Conn) judge(ctx context.Context, g *gate, it *item, r rueidis.RedisResult) verdict {
	asked, queued := g.state()
	if asked {
		c.asks.Store(true)
	}
	sent := queued || !c.asks.Load()
	if err := r.NonRedisError(); err != nil {
		it.err = err
		if se, ok := errors.AsType[*rueidis.RedisError](err); ok && !queued { // the server refused the connection
			return c.judgeServerError(ctx, g.flight, it, greeting(se))
		}
		if !sent || isDial(err) {
			return c.judgeUnsent(ctx, g.flight, it)
		}
		return c.judgeLost(ctx, g.flight, it)
	}
	m, err := r.ToMessage()
	if err != nil && !m.IsNil() {
		return c.judgeServerError(ctx, g.flight, it, serverError(m))
	}
	g.flight.finish(it, redoubt.Reply{Val: shaped(it.words, m)})
	return finished
}

// isDial reports whether no connection could be opened.
func isDial(err error) bool {
	oe, ok := errors.AsType[*net.OpError](err)
	return ok && oe.Op == "dial"
}

// judgeLost is for an attempt whose reply is lost.
func (c *Conn) judgeLost(ctx context.Context, f *flight, it *item) verdict {
	f.lost(it)
	if err := conn.Ended(ctx); err != nil {
		f.fail(it, err)
		return finished
	}
	c.refresh()
	if it.flags.Resendable() && it.resends < maxResends && !errors.Is(it.err, rueidis.ErrClosing) {
		it.resends++
		return sendLater
	}
	f.fail(it, it.err)
	return finished
}

func (c *Conn) judgeServerError(ctx context.Context, f *flight, it *item, se redoubt.ServerError) verdict {
	it.err = se
	switch se.Code() {
	case "NOSCRIPT":
		if it.script == nil {
			break
		}
		f.notRun(it)
		it.missed = true
		return sendNow
	case "MOVED", "ASK":
		if c.slots == nil {
			break
		}
		f.notRun(it)
		c.refresh()
		if it.redirected {
			return sendLater // rueidis followed it as far as it does
		}
		it.redirected = true
		return sendNow
	case "LOADING", "TRYAGAIN", "MASTERDOWN":
		f.notRun(it)
		return sendLater
	case "READONLY", "CLUSTERDOWN":
		f.notRun(it)
		c.refresh()
		return sendLater
	case "ERR":
		switch {
		// Redis before 7 wraps what a script's first write met. A server with too many clients says so
		// instead of accepting the connection.
		case strings.Contains(string(se), "-READONLY ") || se == "ERR max number of clients reached":
			f.notRun(it)
			c.refresh()
			return sendLater
		case conn.ReplyLost(se):
			return c.judgeLost(ctx, f, it)
		case conn.NotSent(se) && it.several:
			return c.judgeLost(ctx, f, it) // other parts of it may have run
		case conn.NotSent(se):
			f.notRun(it)
			return sendLater
		case conn.BackendDown(se):
			if it.several {
				f.lost(it)
			}
			f.fail(it, fmt.Errorf("%w: %w", redoubt.ErrUnavailable, se))
			return finished
		}
	}
	// The server's word on a resent command is about the last sending only: an earlier one may have run.
	f.fail(it, se)
	return finished
}

// judgeUnsent is for an attempt that reached no server.
func (c *Conn) judgeUnsent(ctx context.Context, f *flight, it *item) verdict {
	f.notRun(it)
	if err := conn.Ended(ctx); err != nil {
		f.fail(it, conn.Stopped(err, it.err))
		return finished
	}
	if errors.Is(it.err, rueidis.ErrClosing) {
		if it.closed++; c.client.Mode() == rueidis.ClientModeStandalone || it.closed > maxClosed {
			f.fail(it, it.err)
			return finished
		}
	}
	c.refresh() // the node may have died, and a replica have followed it
	return sendLater
}
