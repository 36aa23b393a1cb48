package server

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A fault is why a server doesn't listen.
type fault struct {
	error
	refused bool // it says so itself
}

// fatal returns a fault that keeps a client from listening: a server has refused, or of a
// channel's servers none can be reached.
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

// tellTogether is tell with one command for each server. Those that are known not to answer
// are asked only if no other has confirmed it.
func (s *subscriptions) tellTogether(family proxy.Subscription, verb string, at map[string][]*proxy.Node) map[*proxy.Node]fault {
	ctx, cancel := context.WithTimeout(s.c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	o := &order{s: s, family: family, verb: verb, alone: make(map[*proxy.Node]bool), faults: make(map[*proxy.Node]fault)}
	of := make(map[*proxy.Node][]string)
	for name, nodes := range at {
		for _, n := range nodes {
			if s.nodes[n] != nil || opposite[verb] != "" { // else there is nothing to end
				of[n] = append(of[n], name)
			}
			o.alone[n] = o.alone[n] || len(nodes) == 1
		}
	}
	likely, absent := make(map[*proxy.Node][]string), make(map[*proxy.Node][]string)
	for n, names := range of {
		if s.nodes[n] == nil && !o.alone[n] && s.c.srv.absences.absent(n) {
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
	alone  map[*proxy.Node]bool // some name is on this server alone
	faults map[*proxy.Node]fault
}

// tell gives servers the order, each for names of its own, and returns how many have confirmed
// it. What a client can do without counts as absent when it hasn't a while after others.
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
		patience = max(patience, o.s.c.srv.absences.patience(n))
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

// errAbsent is why a server is not asked.
var errAbsent = errors.New("it is known not to answer")

// told is what has become of a command for one server.
type told struct {
	node  *proxy.Node
	sub   *subscriber // nil: there is no connection
	fault fault
}

// tellOne tells one server, and waits until it has confirmed it. sub is nil when there is no
// connection to it yet.
func (s *subscriptions) tellOne(ctx context.Context, n *proxy.Node, sub *subscriber, e proxy.Expect, verb string, names []string) told {
	if sub == nil {
		made := &subscriber{of: s, node: n, confirmed: make(chan []byte, 1)}
		d, err := n.Dedicate(ctx, s.c.protocol, made)
		if err != nil {
			_, refused := errors.AsType[resp.Error](err)
			return told{n, nil, fault{err, refused}}
		}
		made.d, sub = d, made
	}
	raw := resp.AppendCommand(nil, append([]string{verb}, names...)...)
	stop := context.AfterFunc(ctx, sub.d.Close) // a server that is silent may not take all of it
	defer stop()
	if err := sub.d.SendExpecting(0, e, raw); err != nil {
		return told{n, sub, fault{error: err}}
	}
	sub.d.Flush()
	select {
	case raw := <-sub.confirmed:
		name := n.Backend().Name()
		to, _ := n.Redirect(raw)
		switch {
		case to != nil:
			return told{n, sub, fault{errShardMoved, true}}
		case bytes.Equal(raw, proxy.LostReply(name)), bytes.Equal(raw, proxy.UnsentReply(name)):
			return told{n, sub, fault{error: scriptReply(raw).Err}}
		case len(raw) > 0:
			return told{n, sub, fault{scriptReply(raw).Err, true}}
		}
		return told{n, sub, fault{}}
	case <-ctx.Done():
		sub.d.Close() // what it confirms later must not be taken for another's
		return told{n, sub, fault{error: context.Cause(ctx)}}
	}
}

// take makes a connection that was made the client's.
func (s *subscriptions) take(t told) {
	if t.sub == nil || s.nodes[t.node] == t.sub {
		return
	}
	s.c.srv.stats.dedicated.Add(1)
	s.mu.Lock()
	s.nodes[t.node] = t.sub
	s.mu.Unlock()
}

// opposite of a command that subscribes.
var opposite = map[string]string{"subscribe": "unsubscribe", "psubscribe": "punsubscribe", "ssubscribe": "sunsubscribe"}
