package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Cluster is a Redis Cluster that a [Pool] has in the place of servers. Its nodes say
// which node has which slots. When a slot moves, or a replica becomes a master, the pool
// sends refused commands to the new node. No client sees MOVED or ASK.
type Cluster struct {
	// Seeds are nodes, as host:port, that are asked for the others. At least one.
	Seeds []string
	// Backend opens connections to the node with an address.
	Backend func(addr string) Backend
	// OnChange, if not nil, is called when the masters change, with their addresses, and when
	// no node tells them, with the reason. It must not block.
	OnChange func(masters []string, err error)
}

const (
	clusterPoll   = 5 * time.Second        // how often the nodes are asked
	clusterRetry  = time.Second            // while none answers
	clusterDown   = 250 * time.Millisecond // while a node with slots is down: a replica may replace it
	clusterRest   = 100 * time.Millisecond // between two times at least
	clusterAnswer = time.Second            // that a node has to answer
	clusterAsked  = 3                      // nodes at once
	clusterLeft   = 2 * time.Second        // that a node without slots has for what it was sent before
	clusterUnused = time.Minute            // after which a node that has no slots is left alone
)

// Slots says which node has which slots at one time. It is immutable.
type Slots struct {
	nodes []*Node               // masters with slots, in the order of their discovery
	owner [keyslot.Count]uint16 // which of nodes
	known bool                  // false: no node has been asked yet
}

// Nodes returns the masters.
func (s *Slots) Nodes() []*Node { return s.nodes }

// Pick returns the node that has key.
func (s *Slots) Pick(key []byte) *Node { return s.Of(keyslot.Of(key)) }

// Of returns the node that has a slot.
func (s *Slots) Of(slot uint16) *Node { return s.nodes[s.owner[slot]] }

// Count returns how many slots a node has.
func (s *Slots) Count(n *Node) (count int) {
	for _, at := range s.owner {
		if s.nodes[at] == n {
			count++
		}
	}
	return count
}

// Known reports whether a node has said this. Otherwise it is a guess.
func (s *Slots) Known() bool { return s.known }

// Slots returns which node has which slots now; nil for a pool of servers.
func (p *Pool) Slots() *Slots { return p.slots.Load() }

// A cluster finds out what the nodes of a pool are.
type cluster struct {
	Cluster

	pool    *Pool
	wake    chan struct{}
	ctx     context.Context //nolint:containedctx // until stop
	stop    context.CancelFunc
	running sync.WaitGroup
	limited atomic.Int64 // upstreams that are known to have limits; see [Upstream.Limited]
	failing bool         // the last attempt to find the nodes failed; only the refresher uses it

	mu     sync.Mutex
	known  map[string]*Node // by address
	order  map[string]uint64
	closed bool
}

// newCluster asks the seeds once, and goes on by itself.
func newCluster(p *Pool, c Cluster) (*cluster, error) {
	switch {
	case len(c.Seeds) == 0:
		return nil, fmt.Errorf("proxy: pool %q: Cluster has no Seeds; want at least one", p.opts.Name)
	case c.Backend == nil:
		return nil, fmt.Errorf("proxy: pool %q: Cluster has no Backend", p.opts.Name)
	case len(p.opts.Servers) > 0, p.opts.Eject, p.opts.Tag != "" && p.opts.Tag != "{}":
		return nil, fmt.Errorf("proxy: pool %q: with a Cluster there are no Servers, no Eject, and no Tag but {}", p.opts.Name)
	}
	p.opts.Tag = "{}" // as every cluster has it
	cl := &cluster{Cluster: c, pool: p, wake: make(chan struct{}, 1), known: make(map[string]*Node), order: make(map[string]uint64)}
	ctx, stop := context.WithCancel(context.Background())
	cl.ctx, cl.stop = ctx, stop
	cl.refresh(ctx)
	if p.slots.Load() == nil { // any node knows better, and says so
		s := new(Slots)
		for _, addr := range c.Seeds {
			if n := cl.at(addr); !slices.Contains(s.nodes, n) {
				s.nodes = append(s.nodes, n)
			}
		}
		for i := range s.owner {
			s.owner[i] = uint16(i % len(s.nodes)) //nolint:gosec // at most as many as slots
		}
		p.slots.Store(s)
	}
	cl.running.Go(func() { cl.run(ctx) })
	return cl, nil
}

// check makes the refresher ask the nodes soon.
func (c *cluster) check() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *cluster) run(ctx context.Context) {
	for {
		wait := clusterPoll
		switch {
		case c.failing:
			wait = clusterRetry
		case c.down():
			wait = clusterDown
		}
		tick := time.NewTimer(wait)
		rest := time.NewTimer(clusterRest)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-c.wake: // again and again, while a node is down that has left
		case <-ctx.Done():
			tick.Stop()
			return
		}
		tick.Stop()
		c.forget()
		c.refresh(ctx)
	}
}

// at returns the node with an address; nil once the pool is closed.
func (c *cluster) at(addr string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.known[addr]
	if n == nil && !c.closed {
		if _, seen := c.order[addr]; !seen {
			c.order[addr] = uint64(len(c.order))
		}
		n = &Node{pool: c.pool, server: ring.Server{Name: addr, Weight: 1}, backend: c.Backend(addr), order: c.order[addr], used: time.Now()}
		c.known[addr] = n
	}
	if n != nil {
		n.used = time.Now()
	}
	return n
}

// knows reports whether a node with an address has been heard of from the nodes.
func (c *cluster) knows(addr string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[addr] != nil
}

// all returns all nodes that there are connections to.
func (c *cluster) all() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make([]*Node, 0, len(c.known))
	for _, n := range c.known {
		nodes = append(nodes, n)
	}
	return nodes
}

// forget closes the nodes that have had no slots for a while.
func (c *cluster) forget() {
	s := c.pool.slots.Load()
	var gone []*Node
	c.mu.Lock()
	for addr, n := range c.known {
		switch out, _ := n.Lent(); {
		case slices.Contains(s.nodes, n), out > 0, !n.idleNow():
			n.used = time.Now()
		case time.Since(n.used) > clusterUnused:
			delete(c.known, addr)
			gone = append(gone, n)
		}
	}
	c.mu.Unlock()
	for _, n := range gone {
		n.close()
	}
}

func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// refresh asks nodes which slots they have, and takes the newest answer.
func (c *cluster) refresh(ctx context.Context) {
	v, err := c.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !c.failing && c.OnChange != nil {
			c.OnChange(nil, err)
		}
		c.failing = true
		return
	}
	s := c.slotsOf(v)
	if s == nil {
		return // closed
	}
	old := c.pool.slots.Load()
	same := old != nil && old.known && slices.Equal(old.nodes, s.nodes)
	if !same || old.owner != s.owner {
		c.pool.slots.Store(s)
		c.pool.changes.Add(1)
		if old != nil {
			c.left(old, s)
		}
	}
	for _, n := range c.all() {
		n.hasSlots(slices.Contains(s.nodes, n))
	}
	if c.OnChange != nil && (c.failing || !same) {
		masters := make([]string, len(s.nodes))
		for i, n := range s.nodes {
			masters[i] = n.Name()
		}
		c.OnChange(masters, nil)
	}
	c.failing = false
}

// down reports whether a node with slots has been used and can't be reached.
func (c *cluster) down() bool {
	return slices.ContainsFunc(c.pool.slots.Load().nodes, func(n *Node) bool {
		used := n.upstreams[0].Load() != nil || n.upstreams[1].Load() != nil
		return used && !n.Up()
	})
}

// left closes the connections to nodes that have lost all slots and don't answer: a replica has replaced
// a silent master. Clients would wait for that one for ever.
func (c *cluster) left(old, now *Slots) {
	for _, n := range old.nodes {
		if slices.Contains(now.nodes, n) {
			continue
		}
		time.AfterFunc(clusterLeft, func() {
			out, _ := n.Lent()
			if slices.Contains(c.pool.slots.Load().nodes, n) || out == 0 && n.idleNow() {
				return
			}
			// A node that answers tells its clients itself that keys have moved.
			if _, err := c.askOne(c.ctx, n.Name()); err != nil && c.ctx.Err() == nil {
				n.giveUp()
			}
		})
	}
}

// errLeft is why the connections to a silent node without slots are closed.
var errLeft = errors.New("the node has no slots any more")

// slotsOf returns the table for a view, or nil once the pool is closed. A slot without a node is given to
// any node, which refuses its commands.
func (c *cluster) slotsOf(v view) *Slots {
	s := &Slots{known: true}
	owners := make([]*Node, len(v.ranges))
	for i, r := range v.ranges {
		n := c.at(r.addr)
		if n == nil {
			return nil
		}
		if owners[i] = n; !slices.Contains(s.nodes, n) {
			s.nodes = append(s.nodes, n)
		}
	}
	slices.SortFunc(s.nodes, func(a, b *Node) int { return int(a.order) - int(b.order) }) //nolint:gosec // small
	for i, r := range v.ranges {
		at := slices.Index(s.nodes, owners[i])
		for slot := r.first; slot <= r.last; slot++ {
			s.owner[slot] = uint16(at) //nolint:gosec // at most as many as slots
		}
	}
	return s
}

// candidates returns the addresses to ask, the likeliest to answer first.
func (c *cluster) candidates() []string {
	var up, down []string
	if s := c.pool.slots.Load(); s != nil {
		for _, n := range s.nodes {
			if n.Up() {
				up = append(up, n.Name())
			} else {
				down = append(down, n.Name())
			}
		}
	}
	rand.Shuffle(len(up), func(i, j int) { up[i], up[j] = up[j], up[i] })
	var all []string
	for _, addr := range slices.Concat(up, c.Seeds, down) {
		if !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// A view is a node's answer.
type view struct {
	ranges []slotRange
	ok     bool  // the cluster serves all that it should
	epoch  int64 // the higher, the newer
}

type slotRange struct {
	first, last int
	addr        string
}

// ask asks a few nodes at once, and then more until one has answered. A node that is cut off from the
// others says that the cluster fails, and has an old epoch.
func (c *cluster) ask(ctx context.Context) (view, error) {
	var errs []error
	for some := range slices.Chunk(c.candidates(), clusterAsked) {
		views, faults := make([]view, len(some)), make([]error, len(some))
		var wg sync.WaitGroup
		for i, addr := range some {
			wg.Go(func() { views[i], faults[i] = c.askOne(ctx, addr) })
		}
		wg.Wait()
		best := -1
		for i, v := range views {
			switch {
			case faults[i] != nil:
				errs = append(errs, fmt.Errorf("node %s: %w", some[i], faults[i]))
			case best < 0, v.ok && !views[best].ok, v.ok == views[best].ok && v.epoch > views[best].epoch:
				best = i
			}
		}
		if best >= 0 {
			return views[best], nil
		}
	}
	return view{}, errors.Join(errs...)
}

func (c *cluster) askOne(ctx context.Context, addr string) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, clusterAnswer)
	defer cancel()
	conn, err := c.Backend(addr).Open(ctx)
	if err != nil {
		return v, err
	}
	defer conn.Close()
	commands := resp.AppendCommand(resp.AppendCommand(nil, "CLUSTER", "INFO"), "CLUSTER", "SLOTS")
	replies, err := exchange(ctx, conn, commands, 2)
	if err != nil {
		return v, err
	}
	for _, r := range replies {
		if e, ok := r.(resp.Error); ok {
			return v, e
		}
	}
	info, _ := replies[0].(string)
	v.ok = strings.Contains(info, "cluster_state:ok")
	for line := range strings.Lines(info) {
		if epoch, found := strings.CutPrefix(line, "cluster_current_epoch:"); found {
			v.epoch, _ = strconv.ParseInt(strings.TrimSpace(epoch), 10, 64)
		}
	}
	host, _, _ := net.SplitHostPort(addr)
	list, _ := replies[1].([]any)
	for _, e := range list {
		r, ok := rangeOf(e, host)
		if !ok {
			return v, fmt.Errorf("its answer to CLUSTER SLOTS has %v", e)
		}
		v.ranges = append(v.ranges, r)
	}
	if len(v.ranges) == 0 {
		return v, errors.New("it knows of no slot that a node has")
	}
	return v, nil
}

// rangeOf reads [first slot, last slot, [host, port, …], …]. host is the address of the node, for a node
// that doesn't know its own.
func rangeOf(e any, host string) (r slotRange, ok bool) {
	list, _ := e.([]any)
	if len(list) < 3 {
		return r, false
	}
	first, isFirst := list[0].(int64)
	last, isLast := list[1].(int64)
	master, _ := list[2].([]any)
	if !isFirst || !isLast || first < 0 || last >= keyslot.Count || len(master) < 2 {
		return r, false
	}
	port, isPort := master[1].(int64)
	if name, _ := master[0].(string); name != "" && name != "?" {
		host = name
	}
	addr, isAddress := joined(host, strconv.FormatInt(port, 10))
	return slotRange{int(first), int(last), addr}, isPort && isAddress
}
