package memcached

import (
	"errors"
	"io"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// A traffic is what went over the connections to a server.
type traffic struct {
	requestBytes             uint64 // sent
	responses, responseBytes uint64
	server, pool             latency.Histogram
}

func (t *traffic) add(other *traffic) {
	t.requestBytes += other.requestBytes
	t.responses += other.responses
	t.responseBytes += other.responseBytes
	t.server.Add(&other.server)
	t.pool.Add(&other.pool)
}

// received notes answers that are complete, those to the batch, and the bytes that came
// with them. The caller holds mu.
func (l *conn) received() {
	l.traffic.responses += uint64(len(l.batch))
	l.meter.End(l.taken, latency.Now(), func(_ uint8, d time.Duration, n uint64) { l.traffic.server.Observe(d, n) })
	for i := 0; i < len(l.batch); { // commands that a client sent together have one time
		sent, n := l.batch[i].sent, i
		for i < len(l.batch) && l.batch[i].sent.Equal(sent) {
			i++
		}
		l.traffic.pool.Observe(max(0, l.heard.Sub(sent)), uint64(i-n)) //nolint:gosec // positive
	}
	last := l.pieces[len(l.pieces)-1]
	l.traffic.responseBytes += uint64(last.to - l.pieces[0].from) //nolint:gosec // positive
}

// stats fills in what the conn knows.
func (l *conn) stats(s *ServerStats) *traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Up = l.stalled.IsZero(); !s.Up {
		s.LastError = errStalled.Error()
	}
	s.InFlight, s.Pending = len(l.queue)-l.head, len(l.pending)
	s.Queued = int(l.appended - l.written) //nolint:gosec // what is appended and not sent
	for _, e := range l.queue[l.head : len(l.queue)-s.Queued] {
		s.InFlightBytes += int(e.size)
	}
	t := l.traffic
	return &t
}

// drop puts an end to a conn, and keeps what it has counted.
func (n *node) drop(l *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.mu.Lock()
	n.past.add(&l.traffic)
	l.mu.Unlock()
	n.conn.Store(nil)
}

// countEnd notes why the client ends.
func (c *client) countEnd() {
	switch {
	case c.pool.isDraining():
	case c.why == nil || errors.Is(c.why, io.EOF):
		c.pool.eofs.Add(1)
	default:
		c.pool.faults.Add(1)
	}
}
