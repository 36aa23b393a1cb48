package proxy

import (
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
