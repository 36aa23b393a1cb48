// Package outage tells when a server is lost and when it is back: one line of a log for each,
// however many connections there are to it and however often they fail.
package outage

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A Change is a change of a server's state.
type Change struct {
	// Server is how errors call it.
	Server string
	Kind   Kind
	// Err says why it is [Lost].
	Err error
	// Away is how long it was lost, when it is [Back], or out of the ring, when it is [Restored].
	Away time.Duration
}

// Kind is the kind of a [Change].
type Kind uint8

const (
	// Lost: a connection was lost or can't be made, or replies are late.
	Lost Kind = iota
	// Back: a server that was lost answers again.
	Back
	// Ejected: the server was taken out of the ring of its pool.
	Ejected
	// Restored: the server is in the ring again.
	Restored
)

// Log returns a function that logs a line for each Change, as an error or for information.
func Log(log *slog.Logger) func(Change) {
	return func(c Change) {
		log := log.With("server", c.Server)
		switch c.Kind {
		case Lost:
			log.Error("a server is lost", slog.Any("error", c.Err))
		case Back:
			log.Info("a server is back", slog.Duration("away", c.Away.Round(time.Millisecond)))
		case Ejected:
			log.Error("a server was taken out of the ring: other servers have its keys")
		case Restored:
			log.Info("a server is in the ring again", slog.Duration("away", c.Away.Round(time.Millisecond)))
		}
	}
}

// A Watch reports when a server is lost and when it is back, once for all connections that share
// it. Its methods may be called by many goroutines at once, and on nil, which tells nothing.
type Watch struct {
	server string
	told   func(Change)

	lost  atomic.Bool // since is set: most replies need no mutex
	mu    sync.Mutex
	since time.Time // when it was lost; zero: it is not
	back  time.Time // when it was back last
}

// NewWatch returns a Watch of a server that has not been lost. The goroutines that read
// connections call told, one at a time: it must not block.
func NewWatch(server string, told func(Change)) *Watch { return &Watch{server: server, told: told} }

// Failed notes that a connection could not be made, was lost, or has a late reply. began is when the
// attempt to connect began; in the other cases it is now. Failed ignores an attempt that began before the
// server returned: of two attempts the older one may be refused last.
func (w *Watch) Failed(began time.Time, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() && !began.Before(w.back) {
		w.since = time.Now()
		w.lost.Store(true)
		w.told(Change{Server: w.server, Kind: Lost, Err: err})
	}
}

// Answered notes that the server answers.
func (w *Watch) Answered() {
	if w == nil || !w.lost.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		w.told(Change{Server: w.server, Kind: Back, Away: time.Since(w.since)})
		w.since, w.back = time.Time{}, time.Now()
		w.lost.Store(false)
	}
}
