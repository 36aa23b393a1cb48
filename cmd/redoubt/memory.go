package main

import (
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/proxy/budget"
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

// A memoryKeeper makes Go's collector keep the process within twice the engine's limit of
// memory, memoryBase, and twice what clients hold. By itself the collector lets the heap grow
// to twice what is alive, which includes the copies that a compaction makes.
type memoryKeeper struct {
	clients *budget.Budget // may be nil
	limit   int64          // of the collector
	stop    chan struct{}
	stopped chan struct{}
}

// keepMemory begins before the engine is opened, which may take as much as later.
// GOMEMLIMIT in the environment comes first.
func keepMemory(maxMemory int64, clients *budget.Budget) *memoryKeeper {
	k := &memoryKeeper{clients: clients, limit: math.MaxInt64, stop: make(chan struct{}), stopped: make(chan struct{})}
	k.set(maxMemory)
	return k
}

func (k *memoryKeeper) set(maxMemory int64) {
	want := int64(math.MaxInt64)
	if maxMemory > 0 && maxMemory < math.MaxInt64/4 {
		want = 2*maxMemory + memoryBase - outsideGo
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

// follow keeps to what CONFIG SET says, and to what clients hold, until close.
func (k *memoryKeeper) follow(e *engine.Engine) {
	go func() {
		defer close(k.stopped)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.set(e.MaxMemory())
			case <-k.stop:
				return
			}
		}
	}()
}

func (k *memoryKeeper) close() error {
	close(k.stop)
	<-k.stopped
	return nil
}
