package ratelimit

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Callers queue while a call for more tokens of a name is under way. Its tokens go to them
// in the order of arrival. Rejected: waking all of them to try again; the quickest would
// take the tokens again and again while others starve. When the tokens have run out, the
// first caller in the queue makes the next call, for all of the queue.

// waiting is a caller in the queue.
type waiting struct {
	n    int64
	done chan struct{} // closed when it has its answer, or the turn
	turn bool          // it has to ask the server
	d    Decision
}

// turn decides for the caller that asks the server: h.asking is set for it. s.mu is held,
// and is released at the end.
func (l *Leased) turn(ctx context.Context, s *leaseShard, h *lease, name string, need int64) (Decision, error) {
	defer s.mu.Unlock()
	for {
		now := time.Since(l.base)
		if h.left > 0 && now >= h.until {
			l.giveBack(h.take(name))
		}
		if s.closed {
			l.handOut(s, h, name, now)
			return Decision{}, redoubt.ErrClosed
		}
		if l.refused(h, name, need, now) {
			d := h.refuse(need, now)
			l.handOut(s, h, name, now)
			return d, nil
		}
		if d, done, err := l.ask(ctx, s, h, name, need, now); done {
			l.handOut(s, h, name, now)
			return d, err
		}
	}
}

// refused reports whether the last answer of the server still refuses need tokens.
func (l *Leased) refused(h *lease, name string, need int64, now time.Duration) bool {
	return now < h.refusedUntil && need-h.left >= h.refused && h.given == l.limiter.denials.given(name)
}

// wait waits for the answer of a caller in the queue.
func (l *Leased) wait(ctx context.Context, s *leaseShard, h *lease, name string, w *waiting) (Decision, error) {
	select {
	case <-w.done:
		if !w.turn {
			return w.d, nil
		}
		s.mu.Lock()
		return l.turn(ctx, s, h, name, w.n)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		if !w.turn {
			return w.d, nil
		}
		h.pass()
	default:
		for i, q := range h.queue {
			if q == w {
				h.queue = append(h.queue[:i:i], h.queue[i+1:]...)
				break
			}
		}
	}
	return Decision{}, ctx.Err()
}

// handOut answers the callers in the queue as far as the tokens last, and gives the turn to
// the next one. s.mu is held.
func (l *Leased) handOut(s *leaseShard, h *lease, name string, now time.Duration) {
	for len(h.queue) > 0 {
		w := h.queue[0]
		if h.left >= w.n {
			w.d = h.give(w.n, now)
		} else if l.refused(h, name, w.n, now) {
			w.d = h.refuse(w.n, now)
		} else {
			break
		}
		h.queue = h.queue[1:]
		close(w.done)
	}
	switch {
	case s.closed:
		l.giveBack(h.take(name))
	case h.left > l.most: // their callers have left
		l.giveBack(unused{name, h.left - l.most, h.granted, h.by})
		h.left = l.most
	}
	h.pass()
}

// pass gives the turn to the next caller, if there is one. s.mu is held.
func (h *lease) pass() {
	if len(h.queue) == 0 {
		h.queue, h.asking = nil, false
		return
	}
	w := h.queue[0]
	h.queue, w.turn = h.queue[1:], true
	close(w.done)
}
