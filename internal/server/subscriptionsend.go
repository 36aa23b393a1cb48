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

// sendTogether is sendAll with one command for each server. It tries a server that is known to be down only
// if no other server has confirmed.
func (s *subscriptions) sendTogether(family proxy.Subscription, verb string, at map[string][]*proxy.Node) map[*proxy.Node]fault {
	ctx, cancel := context.WithTimeout(s.c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	o := &fanOutCommand{s: s, family: family, verb: verb, alone: make(map[*proxy.Node]bool), faults: make(map[*proxy.Node]fault)}
	of := make(map[*proxy.Node][]string)
	for name, nodes := range at {
		for _, n := range nodes {
			if s.nodes[n] != nil || opposite[verb] != "" { // else there is nothing to unsubscribe
				of[n] = append(of[n], name)
			}
			o.alone[n] = o.alone[n] || len(nodes) == 1
		}
	}
	likely, down := make(map[*proxy.Node][]string), make(map[*proxy.Node][]string)
	for n, names := range of {
		if s.nodes[n] == nil && !o.alone[n] && s.c.target.gaps.has(n) {
			down[n], o.faults[n] = names, fault{error: errKnownDown}
		} else {
			likely[n] = names
		}
	}
	if o.send(ctx, likely) == 0 {
		o.send(ctx, down)
	}
	return o.faults
}

// A fanOutCommand is a subscription command for several servers.
type fanOutCommand struct {
	s      *subscriptions
	family proxy.Subscription
	verb   string
	alone  map[*proxy.Node]bool // servers that are the only one of some name
	faults map[*proxy.Node]fault
}

// send sends each server the command with its names, and returns how many servers have
// confirmed it. When others have confirmed, it gives up a slow server, unless some name is on that
// server alone.
func (o *fanOutCommand) send(ctx context.Context, of map[*proxy.Node][]string) (reached int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan sendOutcome, len(of))
	needed, patience := 0, time.Duration(0)
	for n, names := range of {
		sub, e := o.s.nodes[n], proxy.Expect{Subscription: o.family, Channels: len(names)}
		if o.alone[n] {
			needed++
		}
		patience = max(patience, o.s.c.target.gaps.patience(n))
		go func() { all <- o.s.sendOne(ctx, n, sub, e, o.verb, names) }()
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
			o.s.adopt(t)
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

// errKnownDown is the fault of a server that sendTogether didn't try.
var errKnownDown = errors.New("it is known not to answer")

// A sendOutcome is the outcome of a command for one server.
type sendOutcome struct {
	node  *proxy.Node
	sub   *subscriber // nil: there is no connection
	fault fault
}

// sendOne sends one server the command and waits for the confirmation. sub is nil when there is
// no connection to the server yet.
func (s *subscriptions) sendOne(ctx context.Context, n *proxy.Node, sub *subscriber, e proxy.Expect, verb string, names []string) sendOutcome {
	if sub == nil {
		made := &subscriber{of: s, node: n, confirmed: make(chan answer, 1)}
		d, err := n.Dedicate(ctx, s.c.protocol, made)
		if err != nil {
			_, refused := errors.AsType[resp.Error](err)
			return sendOutcome{n, nil, fault{err, refused}}
		}
		made.d, sub = d, made
	}
	raw := resp.AppendCommand(nil, append([]string{verb}, names...)...)
	stop := context.AfterFunc(ctx, sub.d.Close) // a silent server must not hold this up past ctx
	defer stop()
	if err := sub.d.SendExpecting(0, e, raw); err != nil {
		return sendOutcome{n, sub, fault{error: err}}
	}
	sub.d.Flush()
	select {
	case got := <-sub.confirmed:
		switch {
		case got.fault != nil:
			return sendOutcome{n, sub, fault{error: got.fault}}
		case n.Redirects(got.raw):
			return sendOutcome{n, sub, fault{errShardMoved, true}}
		case len(got.raw) > 0:
			return sendOutcome{n, sub, fault{scriptReply(got.raw).Err, true}}
		}
		return sendOutcome{n, sub, fault{}}
	case <-ctx.Done():
		sub.d.Close() // a late confirmation would be taken for that of the next command
		return sendOutcome{n, sub, fault{error: context.Cause(ctx)}}
	}
}

// adopt gives the client a new connection.
func (s *subscriptions) adopt(t sendOutcome) {
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
