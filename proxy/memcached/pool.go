package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/proxy/ring"
)

// A Pool is a number of memcached servers that clients see as one. Its methods
// may be called by many goroutines at once.
type Pool struct {
	opts    Options
	nodes   []*node
	ring    atomic.Pointer[ring.Ring] // nil: all servers are ejected
	started time.Time
	stop    context.CancelFunc
	running sync.WaitGroup // nodes

	ringMu    sync.Mutex
	live      []bool
	ejections atomic.Uint64

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	clients   map[*client]struct{}
	serving   sync.WaitGroup // listeners and clients
	draining  bool

	accepted, refused, slow, errors atomic.Uint64
	commands                        [kinds]atomic.Uint64
}

// New returns a Pool that begins to connect to its servers. Close it after use.
func New(opts Options) (*Pool, error) {
	opts, err := opts.withDefaults()
	p := &Pool{
		opts: opts, live: make([]bool, len(opts.Servers)), started: time.Now(),
		listeners: map[net.Listener]struct{}{}, clients: map[*client]struct{}{},
	}
	for i, s := range opts.Servers {
		p.live[i] = true
		p.nodes = append(p.nodes, &node{pool: p, server: s, index: i, tried: make(chan struct{})})
	}
	r, rerr := p.makeRing(p.live)
	if err = errors.Join(err, rerr); err != nil {
		return nil, err
	}
	p.ring.Store(r)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	for _, n := range p.nodes {
		p.running.Go(func() { n.run(ctx) })
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
		return nil, fmt.Errorf("memcached: pool %q: %w", p.opts.Name, err)
	}
	return r, nil
}

// eject gives the keys of a server to the others.
func (p *Pool) eject(n *node) { p.change(n, false) }

// readmit gives them back.
func (p *Pool) readmit(n *node) { p.change(n, true) }

func (p *Pool) change(n *node, live bool) {
	p.ringMu.Lock()
	defer p.ringMu.Unlock()
	if p.live[n.index] == live {
		return
	}
	p.live[n.index] = live
	if !live {
		p.ejections.Add(1)
	}
	// The options were fine for all servers: it fails only when none is live.
	r, err := p.makeRing(p.live)
	if err != nil {
		r = nil
	}
	p.ring.Store(r)
}

// Digest is the same for Pools that choose servers alike now. It is empty while
// all servers are ejected.
func (p *Pool) Digest() string {
	if r := p.ring.Load(); r != nil {
		return r.Digest()
	}
	return ""
}

// pick returns the server of key, or nil when all are ejected.
func (p *Pool) pick(key []byte) *node {
	r := p.ring.Load()
	if r == nil {
		return nil
	}
	return p.nodes[r.Pick(key)]
}

func (p *Pool) noServer() []byte {
	return serverError("pool %s: all servers are ejected", p.opts.Name)
}

func (p *Pool) tooMuch() []byte {
	return serverError("more than %d bytes wait for this client: the command may have run", p.opts.MaxClientBytes)
}

// Stats are counters of a [Pool].
type Stats struct {
	Clients  int    // connected now
	Accepted uint64 // clients
	Refused  uint64 // clients above the limit
	Slow     uint64 // clients that were disconnected because they didn't read

	Retrievals uint64 // get, gets, gat, gats
	Stores     uint64 // set, add, replace, append, prepend, cas
	Changes    uint64 // delete, incr, decr, touch
	Others     uint64 // flush_all, verbosity, version, stats
	Invalid    uint64 // commands that were refused for what they are
	Errors     uint64 // commands that could not be sent

	Ejections uint64
	Digest    string // of the ring
	Servers   []ServerStats
}

// ServerStats are counters of a server.
type ServerStats struct {
	Name      string
	Up        bool   // there is a connection
	Live      bool   // it is in the ring
	Sent      uint64 // commands; of a retrieval from several servers each part
	Connects  uint64 // connections made
	Losses    uint64 // connections lost
	Timeouts  uint64 // commands that were not answered in time
	Failures  uint64 // of connecting, of connections, and times without an answer
	InFlight  int    // commands that wait for answers
	Pending   int    // bytes that wait to be sent
	LastError string // why there is no connection
}

// Stats returns the counters now.
func (p *Pool) Stats() Stats {
	count := func(k kind) uint64 { return p.commands[k].Load() }
	s := Stats{
		Accepted: p.accepted.Load(), Refused: p.refused.Load(), Slow: p.slow.Load(),
		Retrievals: count(retrieval), Stores: count(storage), Changes: count(keyed),
		Others:  count(broadcast) + count(version) + count(stats) + count(ownStats),
		Invalid: count(refused), Errors: p.errors.Load(),
		Ejections: p.ejections.Load(), Digest: p.Digest(),
	}
	p.mu.Lock()
	s.Clients = len(p.clients)
	p.mu.Unlock()
	p.ringMu.Lock()
	live := append([]bool(nil), p.live...)
	p.ringMu.Unlock()
	for i, n := range p.nodes {
		at := ServerStats{
			Name: n.server.Name, Live: live[i], Sent: n.sent.Load(), Connects: n.connects.Load(),
			Losses: n.losses.Load(), Timeouts: n.timeouts.Load(), Failures: n.fails.Load(),
		}
		if l := n.link.Load(); l != nil {
			at.Up = true
			at.InFlight, at.Pending = l.state()
		} else {
			n.mu.Lock()
			if n.down != nil {
				at.LastError = n.down.Error()
			}
			n.mu.Unlock()
		}
		s.Servers = append(s.Servers, at)
	}
	return s
}

// ownStats answers stats proxy.
func (p *Pool) ownStats() []byte {
	s := p.Stats()
	var out []byte
	add := func(name string, value any) { out = appendStat(out, name, fmt.Sprint(value)) }
	add("pool", p.opts.Name)
	add("uptime", int64(time.Since(p.started).Seconds()))
	add("ring", s.Digest)
	add("curr_connections", s.Clients)
	add("total_connections", s.Accepted)
	add("rejected_connections", s.Refused)
	add("slow_connections", s.Slow)
	add("retrievals", s.Retrievals)
	add("stores", s.Stores)
	add("changes", s.Changes)
	add("others", s.Others)
	add("invalid", s.Invalid)
	add("errors", s.Errors)
	add("ejections", s.Ejections)
	for _, at := range s.Servers {
		for _, f := range []struct {
			name  string
			value any
		}{
			{"up", at.Up}, {"live", at.Live}, {"sent", at.Sent}, {"in_flight", at.InFlight}, {"pending_bytes", at.Pending},
			{"connects", at.Connects}, {"losses", at.Losses}, {"timeouts", at.Timeouts}, {"failures", at.Failures},
		} {
			add(at.Name+":"+f.name, f.value)
		}
	}
	return append(out, replyEnd...)
}
