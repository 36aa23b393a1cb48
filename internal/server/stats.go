package server

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// Kind says how the server ran a command.
type Kind uint8

const (
	// Passed through to the back end.
	Passed Kind = iota
	// Rewritten into a script.
	Rewritten
	// Waited: an extension command that held its client.
	Waited
	// Local: answered here.
	Local

	kinds
)

func (k Kind) String() string {
	switch k {
	case Passed:
		return "passed"
	case Rewritten:
		return "rewritten"
	case Waited:
		return "waited"
	case Local:
		return "local"
	case kinds:
	}
	return "unknown"
}

// traffic has the counters that change with every batch of commands. Each session has
// its own, so that cores don't share them.
type traffic struct {
	commands          [kinds]atomic.Uint64
	fragments         atomic.Uint64
	bytesIn, bytesOut atomic.Uint64
}

// add adds what another counted.
func (t *traffic) add(other *traffic) {
	for k := range t.commands {
		t.commands[k].Add(other.commands[k].Load())
	}
	t.fragments.Add(other.fragments.Load())
	t.bytesIn.Add(other.bytesIn.Load())
	t.bytesOut.Add(other.bytesOut.Load())
}

// A tally counts a client's commands until [session.count] publishes the counts.
type tally struct {
	kind     Kind // of the command at hand, so far
	commands [kinds]uint64
}

// countLocal counts the command at hand as answered here, until as says otherwise.
func (t *tally) countLocal() {
	t.kind = Local
	t.commands[Local]++
}

// as changes how the command at hand counts.
func (t *tally) as(k Kind) {
	t.commands[t.kind]--
	t.kind = k
	t.commands[k]++
}

// countEnd notes why a client ends. broken: it has broken the protocol.
func (c *counters) countEnd(err error, broken bool) { //nolint:revive // the parameter is the state
	switch {
	case errors.Is(err, ErrClosed):
	case errors.Is(err, io.EOF), err == nil && !broken:
		c.eofs.Add(1)
	default:
		c.faults.Add(1)
	}
}

// counters are shared by all sessions.
type counters struct {
	ended             traffic // of the sessions that have ended; guarded by Server.mu
	accepted, refused atomic.Uint64
	extension         []atomic.Uint64 // by position in the table
	protocolErrors    atomic.Uint64
	authFailures      atomic.Uint64
	backendErrors     atomic.Uint64
	panics            atomic.Uint64
	idleClosed        atomic.Uint64
	eofs, faults      atomic.Uint64 // of clients
	latency           [latencyShards]timing
	waits             timing // of commands that wait for others, by family
	waiting           [maxFamilies]atomic.Int64
	dedicated         atomic.Int64
}

// Stats are the counters of a [Server] since it was made, and its state.
type Stats struct {
	Clients        int               // connected now
	Memory         budget.Stats      // of Options.Budget, which others may share
	Accepted       uint64            // connections accepted
	Refused        uint64            // connections refused at MaxClients
	Commands       [kinds]uint64     // by Kind
	Extension      map[string]uint64 // extension commands by name
	BytesIn        uint64
	BytesOut       uint64
	ProtocolErrors uint64 // clients that broke the protocol
	AuthFailures   uint64 // wrong passwords
	BackendErrors  uint64 // commands answered with an error for lack of a connection to the back end
	Panics         uint64 // in handlers; each is a bug
	IdleClosed     uint64 // clients closed by IdleTimeout
	ClientEOFs     uint64 // clients that closed their connection, or sent QUIT
	ClientErrors   uint64 // clients that ended in another way, while the server was not shut down
	Fragments      uint64 // parts of commands that were for several servers of a pool
	// Latency is that of all commands that don't wait for others, from the read of a command to when its
	// reply can be written in order. Families has it by family.
	Latency   latency.Histogram
	Families  []FamilyStats
	Dedicated int // connections to the back end that belong to one client, open now
	// Upstreams are the shared connections that have been used.
	Upstreams []UpstreamStats
}

// FamilyStats are the counters of one family of commands.
type FamilyStats struct {
	Name    string            // FamilyRedis, or the group of Redoubt's own commands
	Latency latency.Histogram // of the commands that don't wait
	// Waiting is how many clients wait for others now, as in LOCK.ACQUIRE with BLOCK, and Waits how long such
	// commands have waited, with or without success. Commands of FamilyRedis are not counted.
	Waiting int
	Waits   latency.Histogram
}

// UpstreamStats are the counters of one shared connection.
type UpstreamStats struct {
	Protocol resp.Protocol
	proxy.Stats
}

// Stats returns the counters now. It may be called at any time.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(),
		Extension:      make(map[string]uint64, len(c.extension)),
		ProtocolErrors: c.protocolErrors.Load(), AuthFailures: c.authFailures.Load(),
		Memory: s.opts.Budget.Stats(), BackendErrors: c.backendErrors.Load(), Panics: c.panics.Load(), IdleClosed: c.idleClosed.Load(),
		Dedicated: int(c.dedicated.Load()), ClientEOFs: c.eofs.Load(), ClientErrors: c.faults.Load(),
	}
	for i, e := range s.table {
		st.Extension[e.Name] = c.extension[i].Load()
	}
	s.mu.Lock()
	st.Clients = len(s.sessions)
	var sum traffic
	sum.add(&c.ended)
	for _, session := range s.sessions {
		sum.add(&session.traffic)
	}
	s.mu.Unlock()
	for k := range st.Commands {
		st.Commands[k] = sum.commands[k].Load()
	}
	st.Families = make([]FamilyStats, len(families))
	for i, name := range families {
		f := &st.Families[i]
		f.Name, f.Waiting = name, int(c.waiting[i].Load())
		for shard := range c.latency {
			if h := c.latency[shard][i].Load(); h != nil {
				h.AddTo(&f.Latency)
			}
		}
		if h := c.waits[i].Load(); h != nil {
			h.AddTo(&f.Waits)
		}
		st.Latency.Add(&f.Latency)
	}
	st.Fragments = sum.fragments.Load()
	st.BytesIn, st.BytesOut = sum.bytesIn.Load(), sum.bytesOut.Load()
	st.Upstreams = s.target.stats()
	return st
}
