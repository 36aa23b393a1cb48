package poolhost

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// poolCounters are the statistics and the present state of a pool of either protocol.
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

// serverCounters are the statistics of one server, or of one of its replicas.
type serverCounters struct {
	name, addr string
	replica    bool
	ejected    bool
	ejections  uint64
	ejectedAt  time.Time // last
	lent, kept int       // connections for one client at a time: in use, and idle
	borrowed   uint64    // how many of them have been made
	shared     []sharedCounters
}

// sharedCounters are the statistics of the shared connection to a server for one protocol.
type sharedCounters struct {
	protocol string
	proxy.Stats
}

// total returns the sum over the shared connections, and how many of them are up.
func (s *serverCounters) total() (sum proxy.Stats, up int) {
	for i := range s.shared {
		c := &s.shared[i]
		up += oneIf(c.Up)
		sum.Add(&c.Stats)
	}
	return sum, up
}
