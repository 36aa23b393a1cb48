//go:build !quick

package ratelimit

import (
	"math"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// Queued returns how many callers wait for a call that is under way.
func Queued(l *Limiter) (n int) {
	for i := range l.coalescer {
		sh := &l.coalescer[i]
		sh.mu.Lock()
		for _, f := range sh.of {
			n += len(f.queue)
		}
		sh.mu.Unlock()
	}
	return n
}

// UnderWay returns how many keys have calls under way.
func UnderWay(l *Limiter) (n int) {
	for i := range l.coalescer {
		sh := &l.coalescer[i]
		sh.mu.Lock()
		n += len(sh.of)
		sh.mu.Unlock()
	}
	return n
}

// Patient lets callers wait for the calls that are under way, however long those take:
// a test that holds a call up on purpose does not find it taken for stuck.
func Patient(l *Limiter) {
	for i := range l.coalescer {
		sh := &l.coalescer[i]
		sh.mu.Lock()
		for _, f := range sh.of {
			f.since = time.Now().Add(time.Hour)
		}
		sh.mu.Unlock()
	}
}

// MaxDenials is how many names are remembered as refused.
const MaxDenials = maxDenials

// Deny remembers a call for a token of each name as refused.
func Deny(l *Limiter, names ...string) {
	now := time.Now()
	o := wire.Outcome{Ahead: [MaxLimits]int64{math.MaxInt64 / 2}}
	for _, name := range names {
		key, _ := l.wire.Key(name)
		c := &caller{name: name, key: key, n: 1}
		l.remember(c, l.wire.Terms(), o, decision(l.wire.Terms().Decide(o, 0, 1)), now, l.denials.given(name))
	}
}

// Denials returns how many names are.
func Denials(c *redoubt.Client) int {
	d := denialsOf(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known)
}

// SweepDue tells whether a sweep of h is to come.
func SweepDue(h *Leased) bool {
	h.sweeps.Lock()
	defer h.sweeps.Unlock()
	return h.sweeps.timer != nil
}

// DuringSweep calls f while a sweep of h has begun.
func DuringSweep(h *Leased, f func()) {
	s := &h.shards[0]
	s.mu.Lock()
	swept := make(chan struct{})
	go func() { defer close(swept); h.sweep() }()
	f()
	s.mu.Unlock()
	<-swept
}
