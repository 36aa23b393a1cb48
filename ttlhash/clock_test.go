//go:build !quick

package ttlhash

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The bound is never above the server's time, and below it by the round trip that last
// brought it and a thousandth of what has passed since, whatever the delays and the
// drift; and after a step of the server's clock it is right with the next reply.
//
// Promise: Get, GetItem, GetMany and All never deny a field before its deadline, and return it late
// by at most the round trip that last brought the server's time plus a thousandth of the time
// since.
func TestClock(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var c clock
		here := time.Now()
		server := float64(r.Int64N(1 << 50))
		speed := 1 + (r.Float64()-0.5)/drift
		pass := func(d time.Duration) {
			here = here.Add(d)
			server += float64(d.Microseconds()) * speed
		}
		for range 200 {
			if r.IntN(20) == 0 {
				server += float64(r.Int64N(1<<40) - 1<<39)
			}
			sent := here
			pass(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
			µs := int64(server)
			pass(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
			trip := here.Sub(sent)
			c.set(sent, here, µs)
			for range 3 {
				age := here.Sub(sent) - trip
				least, _, ok := c.least(here)
				low := server - float64(trip.Microseconds()) - float64(age.Microseconds())*2/drift - 5
				if !ok || float64(least) > server+5 || float64(least) < low {
					t.Fatalf("seed %d: the server's time is %.0f, the bound %d, want %.0f at least", seed, server, least, low)
				}
				pass(time.Duration(r.Int64N(int64(time.Second))))
			}
		}
	}
}

// A reply that was overtaken by a later one changes nothing.
func TestClockIgnoresOldReplies(t *testing.T) {
	var c clock
	now := time.Now()
	c.set(now, now.Add(time.Millisecond), 5_000_000)
	c.set(now.Add(-time.Second), now.Add(-time.Millisecond), 9_000_000)
	if least, _, _ := c.least(now.Add(time.Millisecond)); least != 5_000_000 {
		t.Errorf("it is %d", least)
	}
}
