package memcached

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// A Pool is a number of memcached servers that clients see as one. Its methods
// may be called by many goroutines at once.
type Pool struct {
	opts    Options
	group   atomic.Pointer[group] // the servers now
	started time.Time
	hot     *hotkeys.Sketch

	mu        sync.Mutex
	groups    map[*group]struct{} // the servers now, and those before that are still needed
	listeners map[net.Listener]struct{}
	clients   map[*client]struct{}
	serving   sync.WaitGroup // listeners and clients
	draining  chan struct{}  // closed: nobody is let in any more
	drained   Drained

	starting sync.Once
	loops    []*loop        // none: each client has a goroutine of its own
	looping  sync.WaitGroup // goroutines of loops, and of clients that have left them

	accepted, refused, slow, idle, errors, shed atomic.Uint64
	eofs, faults, fragments                     atomic.Uint64
	bytesIn, bytesOut                           atomic.Uint64
	commands                                    [kinds]atomic.Uint64
}

// New returns a Pool that begins to connect to its servers. Close it after use.
func New(opts Options) (*Pool, error) {
	g, err := newGroup(opts)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		opts: g.opts, started: time.Now(), hot: hotkeys.New(time.Now()), groups: map[*group]struct{}{g: {}}, draining: make(chan struct{}),
		listeners: map[net.Listener]struct{}{}, clients: map[*client]struct{}{},
	}
	p.group.Store(g)
	g.start()
	return p, nil
}

// Digest is the same for Pools that choose servers alike now. It is empty while
// all servers are ejected.
func (p *Pool) Digest() string { return p.group.Load().digest() }

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
	Idle     uint64 // clients that were disconnected after IdleTimeout
	Shed     uint64 // clients that were disconnected because they had the most of Budget
	EOFs     uint64 // clients that closed their connection, or sent quit
	Faults   uint64 // clients that ended in another way, while the pool was not shut down
	BytesIn  uint64 // from clients
	BytesOut uint64 // to clients

	Retrievals uint64 // get, gets, gat, gats
	Stores     uint64 // set, add, replace, append, prepend, cas
	Changes    uint64 // delete, incr, decr, touch
	Others     uint64 // flush_all, verbosity, version, stats
	Invalid    uint64 // commands that were refused for what they are
	Errors     uint64 // commands that could not be sent
	Fragments  uint64 // parts of retrievals that were split

	// Latency is from when commands were read to when the answers of servers were; each
	// part of a retrieval that was split is counted.
	Latency latency.Histogram

	Ejections uint64
	Digest    string // of the ring
	Servers   []ServerStats
}

// ServerStats are counters of a server.
type ServerStats struct {
	Name, Addr string
	Up         bool   // there is a connection, and it answers in time
	Live       bool   // it is in the ring
	Sent       uint64 // commands; of a retrieval from several servers each part
	SentBytes  uint64
	Connects   uint64 // connections made
	Losses     uint64 // connections lost
	Timeouts   uint64 // commands that were not answered in time
	Lost       uint64 // commands whose answers were lost with the connection
	Failures   uint64 // of connecting, of connections, and times without an answer
	Ejections  uint64
	InFlight   int    // commands that wait for answers
	Queued     int    // of these, not sent yet
	Pending    int    // bytes that wait to be sent
	LastError  string // why there is no connection

	Answers       uint64 // late ones too
	AnswerBytes   uint64
	InFlightBytes int       // of the commands that were sent and wait for answers
	EOFs          uint64    // of the losses, those where the server closed the connection
	DialFailures  uint64    // connections that could not be made
	EjectedAt     time.Time // last; zero: never

	// Latency is from when commands were sent to when their answers were read.
	Latency     latency.Histogram
	poolLatency latency.Histogram
}

// Stats returns the counters now. The servers' counters restart with [Pool.Change].
func (p *Pool) Stats() Stats {
	count := func(k kind) uint64 { return p.commands[k].Load() }
	g := p.group.Load()
	s := Stats{
		Accepted: p.accepted.Load(), Refused: p.refused.Load(), Slow: p.slow.Load(), Idle: p.idle.Load(), Shed: p.shed.Load(),
		BytesIn: p.bytesIn.Load(), BytesOut: p.bytesOut.Load(),
		Retrievals: count(retrieval), Stores: count(storage), Changes: count(keyed),
		Others:  count(broadcast) + count(version) + count(stats) + count(ownStats) + count(hotStats),
		Invalid: count(refused) + count(hangUp), Errors: p.errors.Load(), Fragments: p.fragments.Load(),
		EOFs: p.eofs.Load(), Faults: p.faults.Load(),
		Digest: g.digest(), Servers: g.stats(),
	}
	for i := range s.Servers {
		at := &s.Servers[i]
		s.Ejections += at.Ejections
		s.Latency.Add(&at.poolLatency)
	}
	p.mu.Lock()
	s.Clients = len(p.clients)
	p.mu.Unlock()
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
	add("idle_connections", s.Idle)
	add("shed_connections", s.Shed)
	add("bytes_read", s.BytesIn)
	add("bytes_written", s.BytesOut)
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
			{"ejections", at.Ejections},
		} {
			add(at.Name+":"+f.name, f.value)
		}
	}
	return append(out, replyEnd...)
}
