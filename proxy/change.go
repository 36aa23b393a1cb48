package proxy

import (
	"sync"
	"time"
)

// A Change is what becomes of a server.
type Change struct {
	// Server is how errors call it.
	Server string
	Kind   ChangeKind
	// Err says why it is [Lost].
	Err error
	// Away is how long it was lost, when it is [Back], or out of the ring, when it is [Restored].
	Away time.Duration
}

// ChangeKind is what a [Change] is about.
type ChangeKind uint8

const (
	// Lost: a connection was lost or can't be made, or replies are late.
	Lost ChangeKind = iota
	// Back: a server that was lost answers again.
	Back
	// Ejected: the server was taken out of the ring. See [PoolOptions.Eject].
	Ejected
	// Restored: the server is in the ring again.
	Restored
)

// A Watch tells when a server is lost and when it is back, once for all upstreams that share it.
type Watch struct {
	server string
	told   func(Change)

	mu    sync.Mutex
	since time.Time // when it was lost; zero: it is not
}

// NewWatch returns a Watch of a server that has not been lost. told is called by the goroutines
// that read connections, one at a time, and must not block.
func NewWatch(server string, told func(Change)) *Watch { return &Watch{server: server, told: told} }

// failed may be called on nil, as answered.
func (w *Watch) failed(err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
		w.told(Change{Server: w.server, Kind: Lost, Err: err})
	}
}

func (w *Watch) answered() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		w.told(Change{Server: w.server, Kind: Back, Away: time.Since(w.since)})
		w.since = time.Time{}
	}
}
