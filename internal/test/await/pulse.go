package await

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// A Pulse is a clock that stands still while the machine does. A test asks it how late
// something is on a machine that does other work too: a beat of the pulse takes as long
// as the process needs to be woken after a millisecond, but counts for pulseMost at most.
// So a call that is late by 100 ms of a pulse was late while the process was woken
// 50 times.
type Pulse struct{ ns atomic.Int64 }

const pulseMost = 2 * time.Millisecond

// NewPulse returns the pulse of this process.
func NewPulse(tb testing.TB) *Pulse {
	tb.Helper()
	return NewPulseOf(tb, func(context.Context) {})
}

// NewPulseOf returns a pulse with beats that also do something: one that waits for an
// answer of a server makes a pulse of both. The context ends with the pulse, by a cleanup
// of tb.
func NewPulseOf(tb testing.TB, beat func(ctx context.Context)) *Pulse {
	tb.Helper()
	p := &Pulse{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			beat(ctx)
			<-tick.C
			p.ns.Add(int64(min(time.Since(began), pulseMost)))
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
	})
	return p
}

// Now returns for how long the pulse has run.
func (p *Pulse) Now() time.Duration { return time.Duration(p.ns.Load()) }
