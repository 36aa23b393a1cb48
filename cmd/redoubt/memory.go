package main

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
)

const (
	// memoryBase is what the process may take beside twice maxmemory and twice what clients
	// hold: docs/engine.md promises it.
	memoryBase = 64 << 20
	// outsideGo is the part of it that Go's collector doesn't know of: the program's text, mostly.
	outsideGo = 40 << 20
	// clientBytes is what a client takes that is idle.
	clientBytes = 6 << 10
	// memoryStep is the smallest change of the limit: each change stops all threads.
	memoryStep = 8 << 20
)

// A memoryKeeper makes Go's collector keep the process within what docs/engine.md states: twice
// the engine's limit of memory, or three times its keys where it has no limit, memoryBase, and
// twice what clients and scripts hold. By itself the collector lets the heap grow to twice what
// was alive at some moment, which includes copies of all keys and of long replies.
type memoryKeeper struct {
	clients *budget.Budget // may be nil
	limit   int64          // of the collector
	others  uncounted
	stop    chan struct{}
	stopped chan struct{}
}

// keepMemory begins before the engine is opened, which may take as much as later.
// GOMEMLIMIT in the environment comes first.
func keepMemory(maxMemory int64, clients *budget.Budget) *memoryKeeper {
	k := &memoryKeeper{clients: clients, limit: math.MaxInt64, stop: make(chan struct{}), stopped: make(chan struct{})}
	if maxMemory > 0 {
		k.set(2*maxMemory, 0)
	}
	return k
}

// keepClients is keepMemory where the keys are in other processes, until stop is called.
func keepClients(clients *budget.Budget) (stop func()) {
	k := keepMemory(0, clients)
	k.follow(nil)
	return func() { _ = k.close() }
}

// set sets the limit for so many bytes of keys, with the copies of them, and of scripts.
func (k *memoryKeeper) set(keys, scripts int64) {
	want := int64(math.MaxInt64)
	if keys < math.MaxInt64/4 {
		want = keys + 2*scripts + memoryBase - outsideGo
		if k.clients != nil {
			st := k.clients.Stats()
			want += 2*st.Used + clientBytes*st.Clients
		}
	}
	if change := max(want, k.limit) - min(want, k.limit); change >= memoryStep && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(want)
		k.limit = want
	}
}

// follow keeps to what CONFIG SET says, and to what clients, scripts and keys hold, until
// close. e may be nil.
func (k *memoryKeeper) follow(e *engine.Engine) {
	go func() {
		defer close(k.stopped)
		tick := time.NewTimer(idleTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.look(e)
				if k.clients != nil && k.clients.Stats().Used > 0 || e != nil && e.ScriptMemory() > 0 {
					tick.Reset(keeperTick)
				} else {
					tick.Reset(idleTick)
				}
			case <-k.stop:
				return
			}
		}
	}()
}

// How often the limit is set anew, and how often while neither clients nor scripts hold
// anything: the limit is then too low for a moment when they begin, which only costs time.
const (
	keeperTick = 100 * time.Millisecond
	idleTick   = 500 * time.Millisecond
)

// look sets the limit for what is held now. Where no limit is promised for the keys, the
// collector has a quarter more than what was alive when it last ran, without what clients held:
// what nobody counts, as the buffers of many servers, must not make it run all the time.
func (k *memoryKeeper) look(e *engine.Engine) {
	switch {
	case e != nil && e.MaxMemory() > 0:
		k.set(2*min(e.MaxMemory(), math.MaxInt64/8), e.ScriptMemory())
	case k.clients == nil:
		k.set(math.MaxInt64, 0)
	default:
		var keys, scripts int64
		if e != nil {
			keys, scripts = e.UsedMemory(), e.ScriptMemory()
		}
		cycle, live := alive()
		k.set(max(memoryBase+3*keys, k.others.after(cycle, live, k.clients.Stats().Used)/4*5), scripts)
	}
}

// alive returns how often the collector has run, and how many bytes of the heap were alive then.
func alive() (cycle uint64, live int64) {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), int64(sample[1].Value.Uint64()) //nolint:gosec // it fits
}

// uncounted is how many bytes are alive beside what clients hold. It is the least of the last
// runs of the collector, because what clients held during one run is only an estimate.
type uncounted struct {
	cycle uint64
	held  int64 // by clients, at the last call of after
	runs  []int64
}

const uncountedRuns = 4

// after returns the bytes after a run of the collector, given what was alive then and what
// clients hold now.
func (u *uncounted) after(cycle uint64, live, held int64) int64 {
	if cycle != u.cycle {
		u.cycle = cycle
		u.runs = append(u.runs, max(0, live-max(held, u.held)))
		u.runs = u.runs[max(0, len(u.runs)-uncountedRuns):]
	}
	u.held = held
	if len(u.runs) == 0 {
		return 0
	}
	return slices.Min(u.runs)
}

func (k *memoryKeeper) close() error {
	close(k.stop)
	<-k.stopped
	return nil
}
