package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// PoolOptions configure a [Pool].
type PoolOptions struct {
	// Name is how clients and logs call the pool.
	Name string
	// Servers are its servers, in any order. At least one, unless there is a Cluster.
	Servers []PoolServer
	// Cluster, if not nil, has the keys in the place of Servers.
	Cluster *Cluster
	// Hash, Distribution and Tag are as in [ring.Options]. A Cluster has its own.
	Hash         ring.Hash
	Distribution ring.Distribution
	Tag          string
	// Scripts are loaded whenever a connection is made.
	Scripts []*redoubt.Script
	// Timeout, when positive, is how long a command waits for its reply before it
	// gets an error. The reply is dropped when it comes. Until then other commands
	// for the server fail at once.
	Timeout time.Duration
	// Timeouts are the time-outs of single commands, by their names in lower case. 0 means Timeout, and a
	// negative one means none.
	Timeouts map[string]time.Duration
	// Eject takes a server out of the ring, so that its keys go to others, when it has
	// failed FailureLimit times and not answered in between, for RetryTimeout at least.
	// Its keys are then in two places. Without Eject they fail as long as it is down.
	Eject bool
	// FailureLimit counts connections that were lost or could not be made, and periods
	// of Timeout without a reply. 0 is like 1.
	FailureLimit int
	// RetryTimeout is how long a server is out of the ring at least. It comes back
	// once it answers.
	RetryTimeout time.Duration
	// Patience is how long commands for a server that was lost wait for the next connection before they get
	// an error. Commands of the same client behind them wait too; of those in flight, reads are sent
	// again, once, and others get their error at once. 0:
	// none waits. It is for a server that Sentinels replace, and for a cluster.
	Patience time.Duration
	// SlowLog, when set, gets the commands for which servers have let others wait.
	SlowLog *SlowLog
	// OnChange, when set, is called when a server is lost or back, or leaves the ring or returns. It
	// must not block.
	OnChange func(outage.Change)
}

// A PoolServer is one server of a [Pool].
type PoolServer struct {
	ring.Server
	// Backend opens the connections to it.
	Backend Backend
	// Replicas open the connections to its replicas: see [Node.Reader].
	Replicas []Backend
}

// A Pool is a number of servers. A ring gives each key a server. All clients of a
// pool share one connection to each server for each version of RESP. Its methods may
// be called by many goroutines at once.
type Pool struct {
	opts  PoolOptions
	ring  atomic.Pointer[ring.Ring]
	nodes []*Node // but for a cluster

	slots   atomic.Pointer[Slots] // nil: there is no cluster
	cluster *cluster

	unwatch  context.CancelFunc // nil: there are no replicas
	watching sync.WaitGroup

	changes atomic.Uint64 // of the ring

	mu     sync.Mutex // guards the state of ejection of all nodes, and closed
	closed bool
}

// NewPool returns a Pool that begins to connect to a server when it is first
// needed. Close it after use.
func NewPool(opts PoolOptions) (*Pool, error) {
	p := &Pool{opts: opts}
	if opts.Cluster != nil {
		var err error
		if p.cluster, err = newCluster(p, *opts.Cluster); err != nil {
			return nil, err
		}
		return p, nil
	}
	var errs []error
	for _, s := range opts.Servers {
		if s.Backend == nil {
			errs = append(errs, fmt.Errorf("proxy: server %q of pool %q has no Backend", s.Name, opts.Name))
		}
		n := &Node{pool: p, server: s.Server, backend: s.Backend}
		n.addReplicas(s.Replicas)
		p.nodes = append(p.nodes, n)
	}
	r, err := p.makeRing(nil)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	p.ring.Store(r)
	if slices.ContainsFunc(p.nodes, func(n *Node) bool { return len(n.replicas) > 0 }) {
		ctx, cancel := context.WithCancel(context.Background())
		p.unwatch = cancel
		p.watching.Go(func() { p.watchReplicas(ctx) })
	}
	return p, nil
}

func (p *Pool) makeRing(live []bool) (*ring.Ring, error) {
	servers := make([]ring.Server, len(p.opts.Servers))
	for i, s := range p.opts.Servers {
		servers[i] = s.Server
	}
	r, err := ring.New(ring.Options{
		Servers: servers, Live: live, Hash: p.opts.Hash, Distribution: p.opts.Distribution, Tag: p.opts.Tag,
	})
	if err != nil {
		return nil, fmt.Errorf("proxy: pool %q: %w", p.opts.Name, err)
	}
	return r, nil
}

// Name returns the pool's name.
func (p *Pool) Name() string { return p.opts.Name }

// Options returns what the pool was made of.
func (p *Pool) Options() PoolOptions { return p.opts }

// Nodes returns the servers in the order of the options; of a cluster the masters that have
// slots now.
func (p *Pool) Nodes() []*Node {
	if s := p.slots.Load(); s != nil {
		return s.nodes
	}
	return p.nodes
}

// Pick returns the server that has key now.
func (p *Pool) Pick(key []byte) *Node {
	if s := p.slots.Load(); s != nil {
		return s.Pick(key)
	}
	return p.nodes[p.ring.Load().Pick(key)]
}

// Scatters reports whether keys have no server of their own: a command goes to any of several.
func (p *Pool) Scatters() bool { return p.opts.Distribution == ring.Random && len(p.nodes) > 1 }

// Digest is the same for pools that choose alike now. It is "cluster" for a cluster.
func (p *Pool) Digest() string {
	if p.cluster != nil {
		return "cluster"
	}
	return p.ring.Load().Digest()
}

// Changes counts how often a server has left the ring or come back, or slots of a cluster have moved.
func (p *Pool) Changes() uint64 { return p.changes.Load() }

// Any returns a connection to a server that answers, if there is one. It is for commands
// that any server can answer.
func (p *Pool) Any(protocol resp.Protocol) (*Upstream, error) {
	var first *Upstream
	nodes := p.Nodes()
	for _, n := range nodes {
		u, err := n.Upstream(protocol)
		switch {
		case err != nil:
			return nil, err
		case u.up():
			return u, nil
		case first == nil:
			first = u
		}
	}
	for _, n := range nodes { // none has been tried, or none answers
		if u, err := n.Upstream(protocol); err == nil {
			if _, err := u.get(); err == nil {
				return u, nil
			}
		}
	}
	return first, nil
}

// Retire waits until nothing is in flight, or until ctx ends, and closes the pool. It is for a pool that
// gets no new commands. Commands that were on their way to it still run.
func (p *Pool) Retire(ctx context.Context) error {
	t := time.NewTicker(retireInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return p.Close()
		}
		if p.idle() {
			return p.Close()
		}
	}
}

// retireInterval is longer than a command takes from its choice of a server to the
// queue there.
const retireInterval = time.Second

// all returns the nodes that there may be connections to.
func (p *Pool) all() []*Node {
	if p.cluster != nil {
		return p.cluster.all()
	}
	return p.nodes
}

func (p *Pool) idle() bool {
	for _, n := range p.all() {
		if out, _ := n.Lent(); out > 0 || !n.idleNow() || slices.ContainsFunc(n.replicas, func(r *Node) bool { return !r.idleNow() }) {
			return false
		}
	}
	return true
}

// Close ends all connections. It may be called more than once.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, n := range p.nodes {
		if n.timer != nil {
			n.timer.Stop()
		}
	}
	p.mu.Unlock()
	if p.unwatch != nil {
		p.unwatch()
		p.watching.Wait()
	}
	if p.cluster != nil {
		p.cluster.close()
	}
	for _, n := range p.all() {
		n.close()
	}
	return nil
}

// Shares returns the part of all keys that each server has now, by name.
func (p *Pool) Shares() map[string]float64 {
	all := map[string]float64{}
	if s := p.slots.Load(); s != nil {
		for _, n := range s.nodes {
			all[n.Name()] = float64(s.Count(n)) / keyslot.Count
		}
		return all
	}
	for i, share := range p.ring.Load().Shares(len(p.nodes)) {
		all[p.nodes[i].Name()] = share
	}
	return all
}

// HasTimeouts reports whether commands of the pool have time-outs of their own.
func (p *Pool) HasTimeouts() bool { return len(p.opts.Timeouts) > 0 }

// TimeoutOf returns the time-out of a command, by its name in lower case, as
// [Upstream.WithTimeout] takes it.
func (p *Pool) TimeoutOf(command string) time.Duration { return p.opts.Timeouts[command] }

// soonest returns the shortest time-out, or 0 when there is none.
func (o *PoolOptions) soonest() time.Duration {
	d := o.Timeout
	for _, t := range o.Timeouts {
		if t > 0 && (d == 0 || t < d) {
			d = t
		}
	}
	return d
}

// tell tells [PoolOptions.OnChange].
func (p *Pool) tell(c outage.Change) {
	if p.opts.OnChange != nil {
		p.opts.OnChange(c)
	}
}

// remake makes the ring of the servers that are not ejected. When all are, it keeps the ring. The caller
// holds mu.
func (p *Pool) remake() {
	live := make([]bool, len(p.nodes))
	for i, n := range p.nodes {
		live[i] = !n.ejected
	}
	if r, err := p.makeRing(live); err == nil {
		p.ring.Store(r)
	}
	p.changes.Add(1) // last: what was seen before counts as seen before it
}

// Live returns the servers that are in the ring now.
func (p *Pool) Live() []*Node {
	if s := p.slots.Load(); s != nil {
		return s.nodes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	live := make([]*Node, 0, len(p.nodes))
	for _, n := range p.nodes {
		if !n.ejected {
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		return p.nodes
	}
	return live
}

// watchReplicas asks the replicas until ctx ends.
func (p *Pool) watchReplicas(ctx context.Context) {
	t := time.NewTicker(roleInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		for _, n := range p.nodes {
			for _, r := range n.replicas {
				r.askRole()
			}
		}
	}
}
