package main

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/server"
)

// poolCounters are what a pool of either protocol has counted, and how it is now.
type poolCounters struct {
	digest            string
	clients           int
	accepted, refused uint64
	eofs, faults      uint64 // ends of clients
	passed, local     uint64 // commands
	errors            uint64 // commands that could not be sent
	fragments         uint64
	slow              uint64
	latency           latency.Histogram
	hottest           []hotkeys.Key // at most one
	bytesIn, bytesOut uint64
	servers           []serverCounters
}

// serverCounters are those of a server, or of one of its replicas.
type serverCounters struct {
	name       string
	replica    bool
	ejected    bool
	ejections  uint64
	ejectedAt  time.Time // last
	lent, kept int       // connections for one client at a time: in use, and idle
	borrowed   uint64    // how many of them have been made
	shared     []sharedCounters
}

// sharedCounters are those of the shared connections for a protocol.
type sharedCounters struct {
	protocol string
	proxy.Stats
}

// total adds up the shared connections, of which up is how many there are.
func (s *serverCounters) total() (sum proxy.Stats, up int) {
	for i := range s.shared {
		c := &s.shared[i]
		up += oneIf(c.Up)
		sum.Add(&c.Stats)
	}
	return sum, up
}

func (p *redisPool) counters() poolCounters {
	st := p.Stats()
	c := poolCounters{
		digest: p.digest(), clients: st.Clients, accepted: st.Accepted, refused: st.Refused,
		eofs: st.ClientEOFs, faults: st.ClientErrors, passed: st.Commands[server.Passed], local: st.Commands[server.Local],
		errors: st.BackendErrors, fragments: st.Fragments, latency: st.Latency, bytesIn: st.BytesIn, bytesOut: st.BytesOut,
	}
	c.hottest = p.HotKeys(1)
	if p.slow != nil {
		c.slow = p.slow.Total()
	}
	for _, n := range p.pool.Load().Nodes() {
		s := countersOf(n, n.Name())
		s.ejected, s.ejections = n.Ejected()
		s.ejectedAt = n.EjectedAt()
		c.servers = append(c.servers, s)
		for _, r := range n.Replicas() {
			s := countersOf(r, r.Backend().Name())
			s.replica = true
			c.servers = append(c.servers, s)
		}
	}
	return c
}

func countersOf(n *proxy.Node, name string) serverCounters {
	s := serverCounters{name: name, borrowed: n.Borrowed()}
	s.lent, s.kept = n.Lent()
	for protocol, st := range n.Stats() {
		s.shared = append(s.shared, sharedCounters{"resp" + strconv.Itoa(int(protocol)), st})
	}
	slices.SortFunc(s.shared, func(a, b sharedCounters) int { return cmp.Compare(a.protocol, b.protocol) })
	return s
}

func (p *memcachedPool) counters() poolCounters {
	st := p.Stats()
	c := poolCounters{
		digest: st.Digest, clients: st.Clients, accepted: st.Accepted, refused: st.Refused,
		eofs: st.EOFs, faults: st.Faults, passed: st.Retrievals + st.Stores + st.Changes + st.Others, local: st.Invalid,
		errors: st.Errors, fragments: st.Fragments, latency: st.Latency, bytesIn: st.BytesIn, bytesOut: st.BytesOut,
	}
	c.hottest = p.HotKeys(1)
	for _, s := range st.Servers {
		c.servers = append(c.servers, serverCounters{
			name: s.Name, ejected: !s.Live, ejections: s.Ejections, ejectedAt: s.EjectedAt,
			shared: []sharedCounters{{"memcached", proxy.Stats{
				Up: s.Up, Connects: s.Connects, Failures: s.DialFailures, Losses: s.Losses, EOFs: s.EOFs,
				Waiting: s.InFlight, Pending: s.Pending, Queued: s.Queued, InFlight: s.InFlight - s.Queued, InFlightBytes: s.InFlightBytes,
				Traffic: proxy.Traffic{
					Requests: s.Sent, RequestBytes: s.SentBytes, Responses: s.Answers, ResponseBytes: s.AnswerBytes,
					Late: s.Timeouts, Lost: s.Lost, Latency: s.Latency,
				},
			}}},
		})
	}
	return c
}
