package main

import (
	"testing"
	"time"
)

// TestPace: the heap grows by little where there is little garbage or a run costs little, and up to twice otherwise.
func TestPace(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct {
		name       string
		live, rate int64   // bytes, a second
		cost       float64 // seconds
		want       int
	}{
		{"a large heap at rest", 1000 * mb, 0, .5, leastPercent},
		{"little garbage", 1000 * mb, mb, .5, leastPercent},
		{"more", 1000 * mb, 20 * mb, .5, 33},
		{"much", 1000 * mb, 200 * mb, .5, mostPercent},
		{"much, and runs cost little", 1000 * mb, 200 * mb, .02, 13},
		{"a small heap", 5 * mb, 0, .001, mostPercent},
	} {
		at := time.Now()
		p := pace{percent: mostPercent, last: collected{at: at}}
		now := collected{at: at.Add(2 * time.Second), cycles: 4, live: test.live, allocs: uint64(2 * test.rate), spent: 4 * test.cost}
		if got := p.next(now, 2); got != test.want {
			t.Errorf("%s: %d %%; want %d", test.name, got, test.want)
		}
	}
}

// TestPaceKeepsItsRate: a short rest is no reason to collect more often, and small changes are left out.
func TestPaceKeepsItsRate(t *testing.T) {
	const live = 1000 << 20
	at := time.Now()
	p := pace{percent: mostPercent, last: collected{at: at}}
	now := p.last
	now.live = live
	look := func(rate uint64) int {
		now.at = now.at.Add(time.Second)
		now.cycles, now.allocs, now.spent = now.cycles+1, now.allocs+rate, now.spent+.5
		p.percent = p.next(now, 2)
		return p.percent
	}
	busy := look(40 << 20)
	if busy != 66 {
		t.Fatalf("%d %% under load", busy)
	}
	if got := look(0); got != busy {
		t.Errorf("%d %% after a rest of a second", got)
	}
	for range 60 {
		look(0)
	}
	if p.percent != leastPercent {
		t.Errorf("%d %% after a minute of rest", p.percent)
	}
	if got := look(40 << 20); got != busy {
		t.Errorf("%d %% when the load is back", got)
	}
}
