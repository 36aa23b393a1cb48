package proxy

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// Traffic is what went over shared connections to a server, without what they were
// prepared with. It only grows.
type Traffic struct {
	Requests      uint64 // commands sent
	RequestBytes  uint64
	Responses     uint64 // replies, late ones too
	ResponseBytes uint64
	TimedOut      uint64 // commands that got an error after the time-out
	Lost          uint64 // commands that got an error because the connection was lost
	// Latency is from when commands were sent to when their replies were read.
	Latency latency.Histogram
}

// Add adds other to t.
func (t *Traffic) Add(other *Traffic) {
	t.Requests += other.Requests
	t.RequestBytes += other.RequestBytes
	t.Responses += other.Responses
	t.ResponseBytes += other.ResponseBytes
	t.TimedOut += other.TimedOut
	t.Lost += other.Lost
	t.Latency.Add(&other.Latency)
}

// stats fills in what the conn knows.
func (l *conn) stats(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Waiting, s.Pending = len(l.queue), len(l.pending)
	s.Queued = int(l.requests - l.traffic.Requests)            //nolint:gosec // what is appended and not sent
	s.InFlight = int(l.traffic.Requests - l.traffic.Responses) //nolint:gosec // what is sent and not answered
	for _, f := range l.batches {
		s.InFlightBytes += f.bytes
	}
	s.Traffic.Add(&l.traffic)
}

// count notes replies, so that others see them with the next [conn.landed].
func (l *conn) count(raw []byte) {
	l.replies++
	l.replyBytes += uint64(len(raw))
}

// drop puts an end to a conn, and keeps what it has counted.
func (u *Upstream) drop(l *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l.mu.Lock()
	l.counted()
	u.past.Add(&l.traffic)
	l.mu.Unlock()
	u.conn.Store(nil)
}

// counted lets others see what count has noted. The caller holds mu, and reads.
func (l *conn) counted() {
	l.traffic.Responses, l.traffic.ResponseBytes = l.replies, l.replyBytes
	l.meter.End(l.replies, l.readAt, func(_ uint8, d time.Duration, n uint64) { l.traffic.Latency.Observe(d, n) })
}
