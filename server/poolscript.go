package server

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/resp"
)

// braces is the hash tag that the keys of extension commands are made for.
const braces = "{}"

// unsafeWhenEjected are the groups of extension commands that promise something
// which a key in two places breaks.
var unsafeWhenEjected = map[string]bool{"lock": true, "semaphore": true, "queue": true, "stock": true, "fence": true}

// extensionPooled runs a command of the table on the server that has its keys.
func (c *session) extensionPooled(h *handler, args [][]byte, raw []byte) {
	e, o := h.command, c.srv.pool.Load().Options()
	switch {
	case o.Tag != braces:
		c.fail("ERR redoubt: " + e.Name + " needs a pool with hash_tag: \"{}\", so that the keys which it uses have one server")
		return
	case o.Eject && unsafeWhenEjected[e.Group]:
		c.fail("ERR redoubt: " + e.Name + " is refused where auto_eject_hosts is true: while a server is out of the ring, what it holds would be there twice")
		return
	}
	if fault := e.CheckArity(len(args)); fault != "" {
		c.fail(fault)
		return
	}
	c.srv.stats.extension[h.index].Add(1)
	if at := e.Keys(len(args)); e.Module && len(at) > 0 && c.srv.module(c.ctx) {
		c.toServer(e.Name, c.oneNode(at, args), raw)
		return
	}
	p := e.Plan(c.srv.env, args)
	switch {
	case p.Err != "":
		c.fail(p.Err)
	case p.Wait != nil:
		c.fail("ERR redoubt: " + e.Name + " is not supported through a pool with these arguments: only what doesn't wait, and runs in one step")
	default:
		keys := make([][]byte, len(p.Cmd.Keys))
		at := make([]int, len(keys))
		for i, k := range p.Cmd.Keys {
			keys[i], at[i] = []byte(k), i
		}
		node := c.oneNode(at, keys)
		if node == nil {
			c.fail("ERR redoubt: the keys of " + e.Name + " belong to several servers of the pool" + c.srv.tagHint())
			return
		}
		if c.routeTo(node) {
			c.commands[Local]--
			c.commands[Rewritten]++
			c.rewrite(p)
		}
	}
}

// poolClient returns the client that extension commands take things back with, or
// nil where they are refused.
func poolClient(s *Server, o Options) (*redoubt.Client, error) {
	if o.Pool.Options().Tag != braces {
		return nil, nil //nolint:nilnil // there need not be one
	}
	return redoubt.New(poolConn{s}, redoubt.Options{})
}

// poolConn runs scripts on the server of their keys. What it is for is safe to be run
// twice or not at all.
type poolConn struct{ s *Server }

// Do implements redoubt.Conn.
func (p poolConn) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	if len(c.Keys) == 0 || c.Script == nil {
		return redoubt.Reply{Err: errors.New("server: only scripts with keys are run through a pool")}
	}
	u, err := p.s.pool.Load().Pick([]byte(c.Keys[0])).Upstream(resp.RESP2)
	if err != nil {
		return redoubt.Reply{Err: err}
	}
	a := &asker{raw: make(chan []byte, 1)}
	if err := u.SendScript(a, 0, &c); err != nil {
		return redoubt.Reply{Err: err}
	}
	u.Flush()
	select {
	case raw := <-a.raw:
		return scriptReply(raw)
	case <-ctx.Done():
		return redoubt.Reply{Err: errors.Join(redoubt.ErrUnknownOutcome, ctx.Err())}
	}
}

// Pipeline implements redoubt.Conn.
func (p poolConn) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, c := range cs {
		replies[i] = p.Do(ctx, c)
	}
	return replies
}

var _ redoubt.Conn = poolConn{}
