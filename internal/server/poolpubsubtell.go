package server

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A fault is the reason why a server has not confirmed a subscription.
type fault struct {
	error
	refused bool // the server itself answered with the error
}

// fatal returns a fault that makes the whole subscription fail: a server refused it, or no
// server of a channel can be reached.
func fatal(at map[string][]*proxy.Node, faults map[*proxy.Node]fault) (*proxy.Node, error) {
	for _, nodes := range at {
		reached := false
		for _, n := range nodes {
			f, failed := faults[n]
			if f.refused {
				return n, f.error
			}
			reached = reached || !failed
		}
		if !reached {
			return nodes[0], faults[nodes[0]].error
		}
	}
	return nil, nil
}

// tellTogether is tell with one command for each server. A server that is known to be absent is
// asked only if no other server has confirmed.
func (s *subscriptions) tellTogether(family proxy.Subscription, verb string, at map[string][]*proxy.Node) map[*proxy.Node]fault {
	ctx, cancel := context.WithTimeout(s.c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	o := &order{s: s, family: family, verb: verb, alone: make(map[*proxy.Node]bool), faults: make(map[*proxy.Node]fault)}
	of := make(map[*proxy.Node][]string)
	for name, nodes := range at {
		for _, n := range nodes {
			if s.nodes[n] != nil || opposite[verb] != "" { // else there is nothing to unsubscribe
				of[n] = append(of[n], name)
			}
			o.alone[n] = o.alone[n] || len(nodes) == 1
		}
	}
	likely, absent := make(map[*proxy.Node][]string), make(map[*proxy.Node][]string)
	for n, names := range of {
		if s.nodes[n] == nil && !o.alone[n] && s.c.target.absences.absent(n) {
			absent[n], o.faults[n] = names, fault{error: errAbsent}
		} else {
			likely[n] = names
		}
	}
	if o.tell(ctx, likely) == 0 {
		o.tell(ctx, absent)
	}
	return o.faults
}

// An order is a command for several servers.
type order struct {
	s      *subscriptions
	family proxy.Subscription
	verb   string
	alone  map[*proxy.Node]bool // servers that are the only one of some name
	faults map[*proxy.Node]fault
}

// tell sends each server the order with the names for that server, and returns how many servers
// have confirmed it. A server that is the only one of no name, and that is slow to confirm after
// others have, counts as absent.
func (o *order) tell(ctx context.Context, of map[*proxy.Node][]string) (reached int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan told, len(of))
	needed, patience := 0, time.Duration(0)
	for n, names := range of {
		sub, e := o.s.nodes[n], proxy.Expect{Subscription: o.family, Channels: len(names)}
		if o.alone[n] {
			needed++
		}
		patience = max(patience, o.s.c.target.absences.patience(n))
		go func() { all <- o.s.tellOne(ctx, n, sub, e, o.verb, names) }()
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for left := len(of); left > 0; {
		select {
		case t := <-all:
			left--
			if o.alone[t.node] {
				needed--
			}
			o.s.take(t)
			if t.fault.error != nil {
				o.faults[t.node] = t.fault
				continue
			}
			delete(o.faults, t.node)
			reached++
			continue
		case <-late.C:
		}
		if reached > 0 && needed == 0 {
			cancel()
		} else {
			late.Reset(patience / 8)
		}
	}
	return reached
}

// errAbsent is the fault of a server that is not asked.
var errAbsent = errors.New("it is known not to answer")

// told is the outcome of a command for one server.
type told struct {
	node  *proxy.Node
	sub   *subscriber // nil: there is no connection
	fault fault
}

// tellOne sends one server the command and waits for the confirmation. sub is nil when there is
// no connection to the server yet.
func (s *subscriptions) tellOne(ctx context.Context, n *proxy.Node, sub *subscriber, e proxy.Expect, verb string, names []string) told {
	if sub == nil {
		made := &subscriber{of: s, node: n, confirmed: make(chan answer, 1)}
		d, err := n.Dedicate(ctx, s.c.protocol, made)
		if err != nil {
			_, refused := errors.AsType[resp.Error](err)
			return told{n, nil, fault{err, refused}}
		}
		made.d, sub = d, made
	}
	raw := resp.AppendCommand(nil, append([]string{verb}, names...)...)
	stop := context.AfterFunc(ctx, sub.d.Close) // a silent server must not hold this up past ctx
	defer stop()
	if err := sub.d.SendExpecting(0, e, raw); err != nil {
		return told{n, sub, fault{error: err}}
	}
	sub.d.Flush()
	select {
	case got := <-sub.confirmed:
		switch {
		case got.fault != nil:
			return told{n, sub, fault{error: got.fault}}
		case n.Redirects(got.raw):
			return told{n, sub, fault{errShardMoved, true}}
		case len(got.raw) > 0:
			return told{n, sub, fault{scriptReply(got.raw).Err, true}}
		}
		return told{n, sub, fault{}}
	case <-ctx.Done():
		sub.d.Close() // a late confirmation would be taken for that of the next command
		return told{n, sub, fault{error: context.Cause(ctx)}}
	}
}

// take gives the client a connection that was made for it.
func (s *subscriptions) take(t told) {
	if t.sub == nil || s.nodes[t.node] == t.sub {
		return
	}
	s.c.srv.stats.dedicated.Add(1)
	s.mu.Lock()
	s.nodes[t.node] = t.sub
	s.mu.Unlock()
}

// opposite is the command that undoes a subscription.
var opposite = map[string]string{"subscribe": "unsubscribe", "psubscribe": "punsubscribe", "ssubscribe": "sunsubscribe"}
