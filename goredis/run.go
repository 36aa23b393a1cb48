package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

const (
	// maxResends bounds the resending of ReadOnly and Idempotent commands whose
	// replies were lost.
	maxResends = 3
	// maxClosed is how many closed clients a command may be led to on a
	// cluster before the whole client is taken to be closed.
	maxClosed = 5
)

// A verdict is what is to be done with an item after an attempt.
type verdict int

const (
	finished  verdict = iota
	sendNow           // after a redirect or a script load
	sendLater         // after a pause
)

// run gives every item a reply. It returns early only when ctx ends between two
// attempts; while go-redis waits for a reply it waits too.
func (c *Conn) run(ctx context.Context, items ...*item) {
	var p conn.Pauses
	for {
		c.send(ctx, items)
		items = c.judgeAll(ctx, items, &p)
		if len(items) == 0 {
			return
		}
		err := ctx.Err()
		if err == nil && p.Due {
			err = p.Wait(ctx)
		}
		if err != nil {
			for _, it := range items {
				it.fail(conn.Stopped(err, it.err))
			}
			return
		}
	}
}

// judgeAll settles what it can, loads the scripts that were missed, and returns
// the items to be sent again. p.Due is set when a pause must come first.
func (c *Conn) judgeAll(ctx context.Context, items []*item, p *conn.Pauses) []*item {
	p.Due = false
	again := items[:0:0]
	missed := false
	for _, it := range items {
		switch c.judge(ctx, it) {
		case finished:
			continue
		case sendLater:
			p.Due = true
		case sendNow:
			missed = missed || it.missed
		}
		again = append(again, it)
	}
	if missed {
		c.loadMissed(ctx, again)
	}
	return again
}

// judge finishes an item or says when it is to be sent again.
func (c *Conn) judge(ctx context.Context, it *item) verdict {
	if it.err == nil {
		it.finish(redoubt.Reply{Val: shaped(it.args, it.Val())})
		return finished
	}
	if errors.Is(it.err, redis.Nil) {
		it.finish(redoubt.Reply{})
		return finished
	}
	if se, ok := errors.AsType[redis.Error](it.err); ok {
		return c.judgeServerError(ctx, it, redoubt.ServerError(se.Error()))
	}
	if !it.written.Load() {
		return c.judgeUnsent(ctx, it)
	}
	return c.judgeLost(ctx, it)
}

// judgeLost is for an attempt whose reply is lost.
func (c *Conn) judgeLost(ctx context.Context, it *item) verdict {
	if err := conn.Ended(ctx); err != nil {
		it.mayHaveRun = true
		it.fail(err)
		return finished
	}
	it.mayHaveRun = true
	if it.flags.Resendable() && it.resends < maxResends && !errors.Is(it.err, redis.ErrClosed) {
		it.resends++
		c.refresh()
		return sendLater
	}
	c.refresh()
	it.fail(it.err)
	return finished
}

func (c *Conn) judgeServerError(ctx context.Context, it *item, se redoubt.ServerError) verdict {
	it.err = se
	switch se.Code() {
	case "NOSCRIPT":
		if it.script == nil {
			break
		}
		it.notRun()
		it.missed = true
		return sendNow
	case "MOVED", "ASK":
		if c.cluster == nil {
			break
		}
		it.notRun()
		if it.redirected {
			return sendLater // the ClusterClient followed it as far as it does
		}
		it.redirected = true
		return sendNow
	case "LOADING", "TRYAGAIN", "MASTERDOWN":
		it.notRun()
		return sendLater
	case "READONLY", "CLUSTERDOWN":
		it.notRun()
		c.refresh()
		return sendLater
	case "ERR":
		switch {
		// Redis before 7 wraps what a script's first write met. A server with
		// too many clients says so instead of accepting the connection.
		case strings.Contains(string(se), "-READONLY ") || se == "ERR max number of clients reached":
			it.notRun()
			c.refresh()
			return sendLater
		case conn.ReplyLost(se):
			return c.judgeLost(ctx, it)
		case conn.NotSent(se) && it.several:
			return c.judgeLost(ctx, it) // other parts of it may have run
		case conn.NotSent(se):
			it.notRun()
			return sendLater
		case conn.BackendDown(se):
			it.mayHaveRun = it.mayHaveRun || it.several
			it.notRun()
			it.fail(fmt.Errorf("%w: %w", redoubt.ErrUnavailable, se))
			return finished
		}
	}
	// The server's word on a resent command is about the last sending only: an
	// earlier one may have run.
	it.fail(se)
	return finished
}

// judgeUnsent is for an attempt in which go-redis never asked for the bytes: no
// connection could be had.
func (c *Conn) judgeUnsent(ctx context.Context, it *item) verdict {
	it.notRun()
	if err := conn.Ended(ctx); err != nil {
		it.fail(conn.Stopped(err, it.err))
		return finished
	}
	if errors.Is(it.err, redis.ErrClosed) {
		// The ClusterClient closes the client of a node that has left: another
		// look at the slots leads elsewhere. Else the owner closed the client.
		if it.closed++; c.single != nil || it.fatal || it.closed > maxClosed {
			it.fail(it.err)
			return finished
		}
	}
	c.refresh() // the node may have died, and a replica have followed it
	return sendLater
}

// refresh has the ClusterClient look up the slots again, in the background and
// at most a few times a second.
func (c *Conn) refresh() {
	if c.cluster != nil {
		c.cluster.ReloadState(context.Background())
	}
}
