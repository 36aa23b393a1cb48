package main

import (
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
)

const (
	// memoryBase is how much memory the process may use beside twice maxmemory and twice the memory of
	// clients: docs/engine.md promises it.
	memoryBase = 64 << 20
	// outsideGo is the part of memoryBase outside of Go's heap, mostly the program's text.
	outsideGo = 40 << 20
	// clientBytes is the memory of an idle client.
	clientBytes = 6 << 10
	// memoryStep is the smallest change of the limit: each change stops all threads.
	memoryStep = 8 << 20
)

// A memoryKeeper sets the [pace] of Go's collector and its memory limit. By the limit the process stays within the
// promise of docs/engine.md: twice maxmemory, or three times the keys where there is no maxmemory, plus memoryBase
// and twice the memory of clients and scripts. Without it the heap could grow to twice of what was live
// at any moment, including copies of all keys and of long replies.
type memoryKeeper struct {
	clients *budget.Budget // may be nil
	limit   int64          // set in the collector
	others  uncounted
	pace    *pace
	stop    chan struct{}
	stopped chan struct{}
}

// keepMemory sets the first limit. Call it before opening the engine: loading may need as much memory as
// serving. GOMEMLIMIT in the environment overrides it.
func keepMemory(maxMemory int64, clients *budget.Budget) *memoryKeeper {
	k := &memoryKeeper{clients: clients, limit: math.MaxInt64, pace: newPace(), stop: make(chan struct{}), stopped: make(chan struct{})}
	if maxMemory > 0 {
		k.set(2*maxMemory, 0)
	}
	return k
}

// keepClients limits the memory of a process whose keys are in other processes, until stop is called.
func keepClients(clients *budget.Budget) (stop func()) {
	k := keepMemory(0, clients)
	k.follow(nil)
	return func() { _ = k.close() }
}

// set sets the limit for this many bytes of keys, including copies, and of scripts.
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

// follow adjusts the limit to CONFIG SET and to the memory of clients, scripts and keys, until close. e
// may be nil.
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

// How often the limit is adjusted: keeperTick while clients or scripts hold memory, and idleTick
// otherwise. The limit is too low for a moment when they begin, which only costs processor time.
const (
	keeperTick = 100 * time.Millisecond
	idleTick   = 500 * time.Millisecond
)

// look sets the limit for the present use. Without maxmemory the limit leaves the collector a quarter
// more than the live heap of its last run, not counting clients: uncounted memory, like the buffers of
// many servers, must not make it run all the time.
func (k *memoryKeeper) look(e *engine.Engine) {
	now := readCollected()
	k.pace.look(now)
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
		k.set(max(memoryBase+3*keys, k.others.after(now.cycles, now.live, k.clients.Stats().Used)/4*5), scripts)
	}
}

// uncounted estimates the live bytes that are not memory of clients: the minimum over the last runs of
// the collector, because the memory of clients during a run is only an estimate.
type uncounted struct {
	cycle uint64
	held  int64 // by clients, at the last call of after
	runs  []int64
}

const uncountedRuns = 4

// after returns the estimate, given the last run of the collector, its live bytes and the bytes that
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
