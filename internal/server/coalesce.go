package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// A coalescer keeps back replies of clients for those that follow. The commands of one
// pipeline go to several servers of a pool, and to write what each of them answers by
// itself would cost a write for each, and wake the client as often. What is held back
// leaves with the last reply that was waited for. If that takes longer than maxHold, it
// leaves without, and the client's next replies aren't held back: one of its servers is
// slow.
type coalescer struct {
	mu    sync.Mutex
	held  []*output
	armed bool
}

const (
	maxHold    = 5 * time.Millisecond
	holdTick   = time.Millisecond // how often that is looked at
	maxHeld    = 16 << 10         // bytes
	impatience = 64               // flushes that hold nothing back, after one that did in vain
)

// A coalescing is what an output has of its coalescer.
type coalescing struct {
	coalescer *coalescer    // nil: nothing is held back
	asked     atomic.Uint64 // the tag behind the last command that was sent; written by the session

	// Guarded by the output's mu.
	held      bool
	since     time.Time
	until     uint64 // the tag behind the last reply that is waited for
	listed    bool   // by the coalescer
	impatient int    // flushes to come that hold nothing back
}

// holds reports whether a flush is for later, because more replies are to come. The
// caller holds mu.
func (o *output) holds() bool {
	if o.coalescer == nil {
		return false
	}
	head, little := o.head.Load(), len(o.buf) < maxHeld && o.messages == 0
	switch {
	case o.held:
		o.held = head < o.until && little
	case o.impatient > 0:
		o.impatient--
	default:
		if o.until = o.asked.Load(); head < o.until && little && len(o.buf) > 0 {
			o.held, o.since = true, time.Now()
			o.coalescer.add(o)
		}
	}
	return o.held
}

// add has it looked at how long o is held. The caller holds o.mu.
func (h *coalescer) add(o *output) {
	if o.listed {
		return
	}
	o.listed = true
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, o)
	if !h.armed {
		h.armed = true
		time.AfterFunc(holdTick, h.tick)
	}
}

// tick has what was held for too long written.
func (h *coalescer) tick() {
	h.mu.Lock()
	list := h.held
	h.held = nil
	h.mu.Unlock()
	now, still := time.Now(), list[:0]
	for _, o := range list {
		o.mu.Lock()
		late := o.held && now.Sub(o.since) >= maxHold
		if late {
			o.held, o.impatient = false, impatience
		}
		if o.listed = o.held; o.listed {
			still = append(still, o)
		}
		o.mu.Unlock()
		if late {
			o.Flush()
		}
	}
	clear(list[len(still):])
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(still, h.held...)
	if h.armed = len(h.held) > 0; h.armed {
		time.AfterFunc(holdTick, h.tick)
	}
}
