package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A poolConn is the Conn of the extension commands that wait: it runs commands on the
// server of their keys, over the connections that all clients share.
type poolConn struct {
	t *poolTarget

	mu    sync.Mutex // guards wakes
	wakes map[*wake]struct{}
}

// Do implements redoubt.Conn.
func (p *poolConn) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	return p.node(c).Do(ctx, c)
}

// Pipeline implements redoubt.Conn.
func (p *poolConn) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	asked := make([]*asker, len(cs))
	replies := make([]redoubt.Reply, len(cs))
	if slices.ContainsFunc(cs, func(c redoubt.Cmd) bool { return p.node(c).isolates(&c) }) {
		for i, c := range cs { // one after the other keeps their order
			replies[i] = p.Do(ctx, c)
		}
		return replies
	}
	var touched []*proxy.Upstream
	for i := range cs {
		var u *proxy.Upstream
		if asked[i], u, replies[i].Err = p.node(cs[i]).send(ctx, cs[i], false); replies[i].Err == nil {
			touched = append(touched, u)
		}
	}
	for _, u := range touched {
		u.Flush()
	}
	for i := range cs {
		if replies[i].Err == nil {
			replies[i] = asked[i].await(ctx)
		}
	}
	return replies
}

// Node implements redoubt.Topology.
func (p *poolConn) Node(key string) string { return p.t.pool.Load().Pick([]byte(key)).Name() }

// Primaries implements redoubt.Topology.
func (p *poolConn) Primaries(context.Context) ([]redoubt.Conn, error) {
	var conns []redoubt.Conn
	for _, n := range p.t.pool.Load().Nodes() {
		conns = append(conns, nodeConn{n})
	}
	return conns, nil
}

// node returns the server of a command: any that answers, if it has no keys.
func (p *poolConn) node(c redoubt.Cmd) nodeConn {
	pool, key := p.t.pool.Load(), c.At
	if len(c.Keys) > 0 {
		key = c.Keys[0]
	}
	if key == "" {
		for _, n := range pool.Nodes() {
			if n.Up() {
				return nodeConn{n}
			}
		}
	}
	return nodeConn{pool.Pick([]byte(key))}
}

// A nodeConn is the Conn to one server of a pool.
type nodeConn struct{ node *proxy.Node }

// Do implements redoubt.Conn.
func (n nodeConn) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	if c.Flags&redoubt.Blocking != 0 {
		return n.block(ctx, c)
	}
	a, u, err := n.send(ctx, c, n.isolates(&c))
	if err != nil {
		return redoubt.Reply{Err: err}
	}
	u.Flush()
	return a.await(ctx)
}

// Pipeline implements redoubt.Conn.
func (n nodeConn) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, c := range cs {
		replies[i] = n.Do(ctx, c)
	}
	return replies
}

// isolates is [sender.isolates] for a command of the library.
func (n nodeConn) isolates(c *redoubt.Cmd) bool {
	u, err := n.node.Upstream(resp.RESP2)
	return err == nil && (u.Limited() || u.Congested() || lengthOf(c) > proxy.LargeCommand)
}

// send sends a command: isolated, or with the next Flush of u.
func (n nodeConn) send(ctx context.Context, c redoubt.Cmd, isolated bool) (*asker, *proxy.Upstream, error) {
	u, err := n.node.Upstream(resp.RESP2)
	if err != nil {
		return nil, nil, err
	}
	_ = u.Ready(ctx) // while it waits, ctx may end
	a := newAsker()
	life := func() context.Context { return ctx }
	switch {
	case isolated && c.Script != nil:
		err = u.WithTimeout(0).SendScriptIsolated(life, a, 0, &c)
	case isolated:
		err = u.WithTimeout(0).SendIsolated(life, a, 0, 1, appendCmd(nil, &c))
	case c.Script != nil:
		err = u.SendScript(a, 0, &c)
	default:
		err = u.Send(a, 0, 1, appendCmd(nil, &c))
	}
	if err != nil {
		err = fmt.Errorf("back end %s is unreachable: %w", n.node.Backend().Name(), err)
	}
	return a, u, err
}

// block runs a command on a connection that nobody else uses meanwhile.
func (n nodeConn) block(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	for t := n.node.Attempt(); ; {
		x, err := t.Borrow(ctx, resp.RESP2)
		if err != nil {
			return redoubt.Reply{Err: err}
		}
		raw, err := x.Ask(ctx, 1, appendCmd(nil, &c))
		got := answer{raw, x.Fault()}
		x.Return()
		if err != nil {
			return redoubt.Reply{Err: errors.Join(redoubt.ErrUnknownOutcome, err)}
		}
		again, disagreed := t.Follow(ctx, raw)
		if again {
			continue
		}
		if disagreed != nil {
			got = answer{disagreed.Reply(), disagreed}
		}
		return got.reply()
	}
}

// await returns the reply, or that nobody knows what became of the command.
func (a *asker) await(ctx context.Context) redoubt.Reply {
	select {
	case got := <-a.answer:
		return got.reply()
	case <-ctx.Done():
		return redoubt.Reply{Err: errors.Join(redoubt.ErrUnknownOutcome, ctx.Err())}
	}
}

func (a answer) reply() redoubt.Reply {
	r := scriptReply(a.raw)
	if a.fault != nil && errors.Is(a.fault, redoubt.ErrUnknownOutcome) {
		r.Err = errors.Join(redoubt.ErrUnknownOutcome, r.Err)
	}
	return r
}

// appendCmd appends a command that runs no script.
func appendCmd(dst []byte, c *redoubt.Cmd) []byte {
	words := strings.Fields(c.Name)
	dst = resp.AppendArray(dst, len(words)+len(c.Keys)+len(c.Args))
	for _, list := range [][]string{words, c.Keys, c.Args} {
		for _, w := range list {
			dst = resp.AppendBulk(dst, w)
		}
	}
	return dst
}

var (
	_ redoubt.Conn       = (*poolConn)(nil)
	_ redoubt.Subscriber = (*poolConn)(nil)
	_ redoubt.Topology   = (*poolConn)(nil)
)
