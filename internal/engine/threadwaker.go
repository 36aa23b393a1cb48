package engine

import (
	"sync"
	"sync/atomic"
)

// A threadWaker makes Go's scheduler use one more thread.
//
// A thread that waits for the network and gets one goroutine runs it, and wakes no other thread to
// wait in its place. While that goroutine keeps the processor, as a long script does, no thread
// waits for the network. Other clients then wait on an idle core until the runtime polls, every 10
// ms. A goroutine that becomes ready does wake a thread, which waits for the network next. So long
// work makes a goroutine ready. That costs a microsecond or two, and nothing when all cores are
// busy.
type threadWaker struct {
	once sync.Once
	c    chan struct{}
	stop chan struct{}
	n    atomic.Int64 // how often it was asked to
}

func (w *threadWaker) init() { w.c, w.stop = make(chan struct{}), make(chan struct{}) }

// wake is called by work that has taken a while, or is about to.
func (w *threadWaker) wake() {
	w.n.Add(1)
	w.once.Do(func() { go w.run() })
	select {
	case w.c <- struct{}{}:
	default: // it is awake
	}
}

func (w *threadWaker) run() {
	for {
		select {
		case <-w.c:
		case <-w.stop:
			return
		}
	}
}

func (w *threadWaker) end() { close(w.stop) }
