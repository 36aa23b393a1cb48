package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A pace sets how far the heap grows between two runs of Go's collector: by little while there is little garbage, so
// that the process isn't larger than it needs, and up to twice under load, so that the collector takes at most
// paceShare of the processors where that is enough. GOGC in the environment overrides it.
type pace struct {
	off     bool
	percent int // as GOGC
	last    collected
	rate    float64 // bytes allocated a second
	cost    float64 // processor seconds of a run
}

// collected is what the runtime has counted since the start.
type collected struct {
	at     time.Time
	cycles uint64  // runs of the collector
	live   int64   // bytes in use at the last run
	allocs uint64  // bytes
	spent  float64 // processor seconds of the collector
}

const (
	leastPercent = 5
	mostPercent  = 100 // Go's default
	// leastGrowth is how much garbage is always allowed: runs for less cost more than the memory.
	leastGrowth = 16 << 20
	paceShare   = .015
)

func newPace() *pace {
	return &pace{off: os.Getenv("GOGC") != "", percent: mostPercent, last: readCollected()}
}

func readCollected() collected {
	sample := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
	}
	metrics.Read(sample)
	value := func(i int) metrics.Value { return sample[i].Value }
	live := int64(value(1).Uint64()) //nolint:gosec // it fits
	return collected{time.Now(), value(0).Uint64(), live, value(2).Uint64(), value(3).Float64() + value(4).Float64()}
}

// look adapts the pace to what has happened since it was called last.
func (p *pace) look(now collected) {
	if p.off {
		return
	}
	if percent := p.next(now, runtime.GOMAXPROCS(0)); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

// next returns the percentage. Each change stops all threads, so small ones
// are left out.
func (p *pace) next(now collected, processors int) int {
	seconds := now.at.Sub(p.last.at).Seconds()
	if seconds <= 0 || now.live <= 0 {
		return p.percent
	}
	rate := float64(now.allocs-p.last.allocs) / seconds
	p.rate = max(rate, p.rate*.9) // quickly up, slowly down
	if runs := now.cycles - p.last.cycles; runs > 0 {
		p.cost = (now.spent - p.last.spent) / float64(runs)
	}
	p.last = now
	growth := max(leastGrowth, p.rate*p.cost/(paceShare*float64(processors)))
	want := min(max(int(100*growth/float64(now.live)), leastPercent), mostPercent)
	if want != leastPercent && want != mostPercent && 4*want < 5*p.percent && 5*want > 4*p.percent {
		return p.percent
	}
	return want
}
