package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
)

// A group is the servers that a pool has, or had, and how it chooses among them.
type group struct {
	opts    Options
	nodes   []*node
	ring    atomic.Pointer[ring.Ring] // nil: all servers are ejected
	stop    context.CancelFunc
	running sync.WaitGroup // nodes
	largest atomic.Int64   // bytes of the largest value that any of the servers takes

	mu   sync.Mutex
	live []bool
}

// newGroup returns a group that is not connected: start it.
func newGroup(opts Options) (*group, error) {
	opts, err := opts.withDefaults()
	g := &group{opts: opts, live: make([]bool, len(opts.Servers))}
	for i, s := range opts.Servers {
		g.live[i] = true
		n := &node{group: g, server: s, index: i, tried: make(chan struct{})}
		if opts.OnChange != nil {
			n.watch = outage.NewWatch(s.Name, opts.OnChange)
		}
		g.nodes = append(g.nodes, n)
	}
	r, rerr := g.makeRing()
	if err = errors.Join(err, rerr); err != nil {
		return nil, err
	}
	g.ring.Store(r)
	g.largest.Store(int64(opts.MaxValue))
	return g, nil
}

// learn notes how large an item n takes; 0 means that it doesn't say. A value that no server
// takes is refused before it has come.
func (g *group) learn(n *node, item int) {
	if item == 0 {
		item = g.opts.MaxValue
	}
	g.mu.Lock() // a goroutine that has seen less must not store last
	defer g.mu.Unlock()
	n.largest = int64(item)
	most := int64(0)
	for _, n := range g.nodes {
		most = max(most, n.largest)
	}
	g.largest.Store(min(most, int64(g.opts.MaxValue)))
}

func (g *group) start() {
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	for _, n := range g.nodes {
		g.running.Go(func() { n.run(ctx) })
	}
}

// close ends the connections. Every waiting command gets an error.
func (g *group) close() {
	g.stop()
	g.running.Wait()
}

// makeRing returns a ring of the live servers. Once other goroutines know g, the caller holds mu.
func (g *group) makeRing() (*ring.Ring, error) {
	servers := make([]ring.Server, len(g.opts.Servers))
	for i, s := range g.opts.Servers {
		servers[i] = s.Server
	}
	r, err := ring.New(ring.Options{
		Servers: servers, Live: g.live, Hash: g.opts.Hash, Distribution: g.opts.Distribution, Tag: g.opts.Tag,
	})
	if err != nil {
		return nil, fmt.Errorf("memcached: pool %q: %w", g.opts.Name, err)
	}
	return r, nil
}

// eject gives the keys of a server to the others.
func (g *group) eject(n *node) { g.change(n, false) }

// readmit gives them back.
func (g *group) readmit(n *node) { g.change(n, true) }

func (g *group) change(n *node, live bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live[n.index] == live {
		return
	}
	g.live[n.index] = live
	change := outage.Change{Server: n.server.Name, Kind: outage.Restored, Away: time.Since(n.left)}
	if !live {
		n.ejections.Add(1)
		n.left = time.Now()
		change = outage.Change{Server: n.server.Name, Kind: outage.Ejected}
	}
	// The options were fine for all servers: it fails only when none is live.
	r, err := g.makeRing()
	if err != nil {
		r = nil
	}
	g.ring.Store(r)
	if onChange := g.opts.OnChange; onChange != nil {
		onChange(change)
	}
}

func (g *group) digest() string {
	if r := g.ring.Load(); r != nil {
		return r.Digest()
	}
	return ""
}

// pick returns the server of key, or nil when all are ejected.
func (g *group) pick(key []byte) *node {
	r := g.ring.Load()
	if r == nil {
		return nil
	}
	return g.nodes[r.Pick(key)]
}

// idle reports whether nobody waits for an answer.
func (g *group) idle() bool {
	for _, n := range g.nodes {
		if l := n.conn.Load(); l != nil {
			if inFlight, _ := l.state(); inFlight > 0 {
				return false
			}
		}
	}
	return true
}

func (g *group) stats() []ServerStats {
	g.mu.Lock()
	live := append([]bool(nil), g.live...)
	g.mu.Unlock()
	all := make([]ServerStats, len(g.nodes))
	for i, n := range g.nodes {
		all[i] = n.stats()
		all[i].Live = live[i]
	}
	return all
}

// Change replaces the servers by those in opts, and all options about servers: Hash, Distribution, Tag,
// the time-outs and failure limits, MaxPending. Options about clients stay as they were. New commands go
// to the new servers. A client's commands keep their order: its first command for the new servers waits
// for the answers to the earlier ones. After an error nothing has changed.
//
// The connections to the old servers stay until the caller calls retire. It waits until nobody needs them
// or ctx ends, and closes them.
func (p *Pool) Change(opts Options) (retire func(ctx context.Context), err error) {
	g, err := newGroup(opts)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDraining() {
		return nil, ErrClosed
	}
	g.start()
	p.groups[g] = struct{}{}
	old := p.group.Swap(g)
	return func(ctx context.Context) { p.retire(ctx, old) }, nil
}

// retireInterval is how often retire checks whether a group is still needed.
const retireInterval = 20 * time.Millisecond

func (p *Pool) retire(ctx context.Context, g *group) {
	tick := time.NewTicker(retireInterval)
	defer tick.Stop()
	for p.needs(g) {
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	g.close()
	p.mu.Lock()
	delete(p.groups, g)
	p.mu.Unlock()
}

// needs reports whether a client is about to send to a group that is not the pool's any
// more, or waits for an answer of it.
func (p *Pool) needs(g *group) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		if c.using.Load() == g {
			return true
		}
	}
	return !g.idle()
}

// Shares returns the part of all keys that each server has now, by name; nothing while all servers are
// ejected.
func (p *Pool) Shares() map[string]float64 {
	all, g := map[string]float64{}, p.group.Load()
	if r := g.ring.Load(); r != nil {
		for i, share := range r.Shares(len(g.nodes)) {
			all[g.nodes[i].server.Name] = share
		}
	}
	return all
}
