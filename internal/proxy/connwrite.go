package proxy

import (
	"runtime"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// flushPending sends the appended commands. It lets goroutines that are ready run
// first, so that their commands leave too. If another goroutine is sending, that one
// takes these commands along. If maxBatches batches are on their way, the commands
// leave when one batch has its replies.
func (l *conn) flushPending() {
	l.mu.Lock()
	if l.flushing || !l.mayLeave() {
		l.mu.Unlock()
		return
	}
	l.flushing = true
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	l.flushAll()
	l.mu.Unlock()
}

// flushAll sends the send buffer while it may leave. The caller holds mu, and the right to send.
func (l *conn) flushAll() {
	for l.mayLeave() {
		buf := l.take()
		l.mu.Unlock()
		_, err := l.socket.Write(buf)
		l.mu.Lock()
		l.wrote(buf, err)
	}
	l.flushed()
}

// flushNow is flushPending that never blocks: another goroutine sends what the
// connection doesn't take at once. It doesn't let others append first.
func (l *conn) flushNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushing {
		return
	}
	l.flushing = true
	for l.mayLeave() {
		buf := l.take()
		l.mu.Unlock()
		n, err := l.socket.TryWrite(buf)
		l.mu.Lock()
		if err == nil && n < len(buf) {
			go l.flushRest(buf, n)
			return
		}
		l.wrote(buf, err)
	}
	l.flushed()
}

// flushRest goes on where flushNow left off.
func (l *conn) flushRest(buf []byte, n int) {
	_, err := l.socket.Write(buf[n:])
	l.mu.Lock()
	l.wrote(buf, err)
	l.flushAll()
	l.mu.Unlock()
}

// take returns the bytes to send next. The caller holds mu.
func (l *conn) take() []byte {
	buf := l.pending
	l.pending, l.going = l.empty(), len(buf)
	l.written = l.appended
	l.leave(buf)
	l.traffic.Requests = l.requests
	l.traffic.RequestBytes += uint64(len(buf))
	return buf
}

// wrote follows a write of what take gave. The caller holds mu.
func (l *conn) wrote(buf []byte, err error) {
	if f := l.latest(buf); f != nil {
		f.sent = true
	} else {
		l.reuse(buf)
	}
	if l.going = 0; l.pendingHeld != nil {
		l.pendingHeld(len(l.pending))
	}
	if err != nil {
		l.fail(err)
	}
	if l.waiting > 0 {
		l.space.Broadcast()
	}
}

// flushed gives up the right to send. The caller holds mu.
func (l *conn) flushed() {
	l.flushing = false
	if l.waiting > 0 {
		l.space.Broadcast()
	}
}

// mayLeave reports whether there are bytes to send that may leave now. The caller
// holds mu.
func (l *conn) mayLeave() bool {
	return len(l.pending) > 0 && l.err == nil &&
		(!l.shared || len(l.batches) < maxBatches || l.shortest > longRoundTrip)
}

// leave notes that buf leaves now. The caller holds mu.
func (l *conn) leave(buf []byte) {
	if !l.shared {
		return
	}
	f := batch{last: l.appended, first: l.traffic.Requests, bytes: len(buf), left: latency.Now(), alone: len(l.batches) == 0}
	if l.slow != nil {
		f.buf = buf
	}
	l.meter.Begin(l.requests, f.left, 0)
	l.batches = append(l.batches, f)
}

// landed takes out the batches that have all their replies, and reports
// whether something may leave instead. Called by the goroutine that reads.
func (l *conn) landed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted()
	n := 0
	for n < len(l.batches) && l.batches[n].last <= l.taken {
		f := &l.batches[n]
		if d := time.Duration(l.readAt - f.left); f.alone && (l.shortest == 0 || d < l.shortest) {
			l.shortest = d
		}
		if f.sent {
			l.reuse(f.buf)
		}
		n++
	}
	l.batches = slices.Delete(l.batches, 0, n)
	return n > 0 && !l.flushing && l.mayLeave()
}
