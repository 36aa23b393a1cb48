package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// A coalescer joins the replies to a pipeline into one write. The commands of a pipeline go to several
// servers of a pool. Without it, each server's replies would cost a write and wake the client. It holds
// replies back until the last reply of the pipeline is there, but at most for maxHold. After that the
// client's next replies aren't held back, since one of its servers is slow.
type coalescer struct {
	mu    sync.Mutex
	held  []*output
	armed bool
}

const (
	maxHold    = 5 * time.Millisecond
	holdTick   = time.Millisecond // the interval of the check
	maxHeld    = 16 << 10         // bytes
	impatience = 64               // flushes that hold nothing back, after one that did in vain
)

// A coalescing is the state of an output in its coalescer.
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

// holds reports whether a flush waits for more replies. The caller holds mu.
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

// add lists o, so that tick ends its hold. The caller holds o.mu.
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

// tick writes the replies that were held for too long.
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
