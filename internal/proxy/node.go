package proxy

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Node is a server of a [Pool], and the connections to it.
type Node struct {
	pool    *Pool
	server  ring.Server
	backend Backend

	watching sync.Once
	watch    *outage.Watch // of what is told; nil: nothing is
	replicas []*Node
	replica  bool // it is one of these
	gate     gate
	role     role // of a replica

	upstreams [2]atomic.Pointer[Upstream] // for RESP2 and RESP3
	mu        sync.Mutex                  // guards making them, and what follows
	closed    bool
	idle      []*Exclusive // in the order in which they were given back
	lent      map[*Exclusive]struct{}
	trimmer   *time.Timer

	// Guarded by Pool.mu.
	failures int // since it last answered
	ejected  bool
	until    time.Time // when it may come back
	timer    *time.Timer

	ejectedAt time.Time // last

	left  atomic.Bool // it is in a cluster, and has no slots there any more
	order uint64      // in which the nodes of a cluster were first heard of
	used  time.Time   // last, of such; guarded by cluster.mu

	ejections, borrowed atomic.Uint64
}

// Name returns the server's name in the ring.
func (n *Node) Name() string { return n.server.Name }

// Order tells the nodes of a cluster apart: it is a small number, and stays the same for the
// address of a node.
func (n *Node) Order() uint64 { return n.order }

// Backend opens connections to the server.
func (n *Node) Backend() Backend { return n.backend }

// Upstream returns the connection that all clients of a protocol share.
func (n *Node) Upstream(p resp.Protocol) (*Upstream, error) {
	at := &n.upstreams[p-resp.RESP2]
	if u := at.Load(); u != nil {
		return u, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if u := at.Load(); u != nil {
		return u, nil
	}
	if n.closed {
		return nil, errClosed
	}
	u, err := newUpstream(n.config(p))
	if err != nil {
		return nil, err
	}
	at.Store(u)
	return u, nil
}

func (n *Node) config(p resp.Protocol) config {
	o := config{Options: Options{Backend: n.backend, Protocol: p, AskLimits: true}, probe: true, replica: n.replica, timeout: n.pool.opts.Timeout, soonest: n.pool.opts.soonest(), slow: n.pool.opts.SlowLog}
	n.watching.Do(func() {
		if onChange := n.pool.opts.OnChange; onChange != nil {
			n.watch = outage.NewWatch(n.backend.Name(), onChange)
		}
	})
	o.Watch, o.node, o.patience = n.watch, n, n.pool.opts.Patience
	if n.pool.cluster != nil {
		o.clustered = n
	}
	if !n.replica {
		o.Scripts, o.health = n.pool.opts.Scripts, health{failed: n.failed, answered: n.answered}
	}
	return o
}

// Stats returns the counters of the shared connections that have been used, by
// version of RESP.
func (n *Node) Stats() map[resp.Protocol]Stats {
	all := make(map[resp.Protocol]Stats)
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil {
			s := u.Stats()
			s.Up = s.Up && !n.role.stale.Load()
			all[resp.RESP2+resp.Protocol(i)] = s //nolint:gosec // 0 or 1
		}
	}
	return all
}

// idleNow reports whether nobody waits for a reply on the shared connections.
func (n *Node) idleNow() bool {
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil {
			if l := u.conn.Load(); l != nil && !l.idle() || u.isolation.busy() {
				return false
			}
		}
	}
	return true
}

func (n *Node) close() {
	for _, r := range n.replicas {
		r.close()
	}
	n.mu.Lock()
	n.closed = true
	n.closeExclusive()
	n.mu.Unlock()
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil {
			_ = u.Close()
		}
	}
}

// Borrow returns a connection that nobody else uses, an idle one if there is any. Call
// [Exclusive.Return] once no state of the client is left in it, or Close. Borrow fails at once while the
// server is known to be down.
func (n *Node) Borrow(ctx context.Context, p resp.Protocol) (*Exclusive, error) {
	if err := n.reachable(ctx, p, true); err != nil {
		return nil, err
	}
	if x := n.takeIdle(p); x != nil {
		return x, nil
	}
	x := &Exclusive{node: n, protocol: p, all: make(chan struct{}, 1)}
	var err error
	if x.d, err = n.Dedicate(ctx, p, x); err != nil {
		return nil, err
	}
	n.borrowed.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		x.d.Close()
		return nil, errClosed
	}
	n.lend(x)
	return x, nil
}

// Dedicate opens a connection for listener alone. The caller closes it. Dedicate fails at once while the
// server is known to be down; one that Sentinels may replace it waits for, as a command does. In a cluster it
// doesn't wait, because another node will do.
func (n *Node) Dedicate(ctx context.Context, p resp.Protocol, listener Listener) (*Dedicated, error) {
	if !n.Returning() {
		if err := n.reachable(ctx, p, n.pool.cluster == nil); err != nil {
			return nil, err
		}
	}
	return OpenDedicated(ctx, Options{Backend: n.backend, Protocol: p}, listener)
}

// reachable returns why the server can't be reached now, or nil. It waits for the first attempt to
// connect, and if waits is set as a command does.
func (n *Node) reachable(ctx context.Context, p resp.Protocol, waits bool) error { //nolint:revive // the parameter is the whole difference
	u, err := n.Upstream(p)
	if err != nil {
		return err
	}
	if waits {
		err = u.Ready(ctx)
	} else {
		select {
		case <-u.Tried():
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	l, err := u.now()
	if err != nil {
		return err
	}
	if l.silent() {
		return errSilent
	}
	return nil
}

// takeIdle takes the connection that was used last, or returns nil.
func (n *Node) takeIdle(p resp.Protocol) *Exclusive {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, x := range slices.Backward(n.idle) {
		if x.protocol != p {
			continue
		}
		n.idle = slices.Delete(n.idle, i, i+1)
		if x.d.alive() {
			n.lend(x)
			return x
		}
	}
	return nil
}

// lend notes that x is borrowed. The caller holds mu.
func (n *Node) lend(x *Exclusive) {
	if n.lent == nil {
		n.lent = make(map[*Exclusive]struct{})
	}
	n.lent[x] = struct{}{}
}

// Lent returns how many connections are borrowed, and how many are idle.
func (n *Node) Lent() (out, idle int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.lent), len(n.idle)
}

// Borrowed returns how many connections were made for Borrow.
func (n *Node) Borrowed() uint64 { return n.borrowed.Load() }

// trim closes the connections that nobody has needed for a while.
func (n *Node) trim() {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := 0 // the front: those used last are taken first
	for old < len(n.idle) && time.Since(n.idle[old].since) >= idleTime {
		n.idle[old].d.Close()
		old++
	}
	n.idle = slices.Delete(n.idle, 0, old)
	n.trimmer = nil
	if len(n.idle) > 0 {
		n.trimmer = time.AfterFunc(idleTime, n.trim)
	}
}

// closeExclusive ends all connections, borrowed ones too. The caller holds mu and has set closed.
func (n *Node) closeExclusive() {
	if n.trimmer != nil {
		n.trimmer.Stop()
	}
	for _, x := range n.idle {
		x.d.Close()
	}
	for x := range n.lent {
		x.d.Close()
	}
	n.idle = nil
}

// successor returns a node for the commands of n, a node of a cluster that can't be reached and has lost
// its slots: any node says where these are. It is nil for other nodes, and if commands don't wait.
func (n *Node) successor() *Node {
	if n == nil || n.pool.opts.Patience == 0 || !n.left.Load() {
		return nil
	}
	for _, other := range n.pool.slots.Load().nodes {
		if other != n && other.Up() {
			return other
		}
	}
	return nil
}

// hasSlots notes whether the node has slots. If it has none, commands that wait for its next connection
// go to its successor.
func (n *Node) hasSlots(yes bool) { //nolint:revive // the parameter is the state
	if n.left.Swap(!yes) || yes {
		return
	}
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil && !u.up() {
			u.endWaits()
		}
	}
}

// giveUp closes all connections, borrowed ones too.
func (n *Node) giveUp() {
	for i := range n.upstreams {
		if u := n.upstreams[i].Load(); u != nil {
			if l := u.conn.Load(); l != nil {
				l.close(errLeft)
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for x := range n.lent {
		x.d.Close()
	}
}

// Redirects reports whether a reply of node n says that another node has the slot.
func (n *Node) Redirects(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	d, redirects := n.redirectionBy(raw, hops{})
	return redirects && !d.down
}

// redirectionBy decides whether a reply of node n redirects a command, and where to. h is how often the
// command was sent on already. If slots have moved, the nodes are asked for them again.
func (n *Node) redirectionBy(raw []byte, h hops) (d direction, redirects bool) {
	c := n.pool.cluster
	if c == nil || raw[0] != '-' {
		return d, false
	}
	addr, ask, ok := sentTo(raw, n.server.Name)
	if !ok {
		if !bytes.HasPrefix(raw, clusterDownCode) {
			return d, false
		}
		c.check()
		h.down++
		d = direction{cluster: c, addr: n.server.Name, down: true, hops: h, pause: downPause}
		return d, time.Duration(h.down)*downPause <= n.pool.opts.Patience
	}
	if !ask {
		c.check()
	}
	d = direction{cluster: c, addr: addr, ask: ask, disagreed: h.moved == MaxRedirects}
	if h.moved >= redirectsAtOnce {
		d.pause = RedirectPause
	}
	h.moved++
	d.hops = h
	return d, true
}

// Attempt begins at node n.
func (n *Node) Attempt() *Attempt { return &Attempt{node: n} }
