package engine

import (
	"sync"
	"sync/atomic"
)

// A stirrer makes Go's scheduler look for work with one more thread.
//
// A thread that waits for the network and is given one goroutine runs it and
// wakes nobody in its place. While that goroutine keeps the processor, as a long
// script does, nobody waits for the network, and other clients on an idle core
// wait for the runtime's own look at it, every 10 ms. A goroutine that becomes
// ready does wake a thread, which waits for the network next. So what runs long
// makes one ready: this costs a microsecond or two, and nothing when all cores
// are busy.
type stirrer struct {
	once sync.Once
	c    chan struct{}
	stop chan struct{}
	n    atomic.Int64 // how often it was asked to
}

func (st *stirrer) init() { st.c, st.stop = make(chan struct{}), make(chan struct{}) }

// stir is called by what has run for a while, or is about to.
func (st *stirrer) stir() {
	st.n.Add(1)
	st.once.Do(func() { go st.run() })
	select {
	case st.c <- struct{}{}:
	default: // it is awake
	}
}

func (st *stirrer) run() {
	for {
		select {
		case <-st.c:
		case <-st.stop:
			return
		}
	}
}

func (st *stirrer) end() { close(st.stop) }
