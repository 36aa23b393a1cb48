package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A Counted is a [ReplyHandler] that counts the memory of a reply while it comes, so that a limit
// can bound it. A handler without Count has no such limit.
type Counted interface {
	ReplyHandler
	// Count adds n bytes, or takes them away if n is negative. It reports false when there
	// is no room for them, and adds nothing: then the reply is dropped as it comes, and an
	// error takes its place. It must not block.
	Count(n int) bool
}

// keeps is the size of the read buffer that the conn keeps when it is empty.
func (l *conn) keeps() int {
	if l.shared {
		return maxIdleBuffer
	}
	return readBuffer
}

// charge has whoever gets the reply at hand count a read buffer of n bytes, and reports
// whether there is room for it.
func (l *conn) charge(n int) bool {
	payer := l.listener
	if e := l.head(); e != nil {
		switch c := e.handler.(type) {
		case Counted:
			payer = c
		case *Exclusive:
			payer = c.counted()
		}
	}
	if payer != l.payer {
		l.discharge() // the reply before was of another
	}
	if payer == nil {
		return true
	}
	if !payer.Count(n - l.charged) {
		return false
	}
	l.payer, l.charged = payer, n
	return true
}

// discharge ends what charge began.
func (l *conn) discharge() {
	if l.payer != nil {
		l.payer.Count(-l.charged)
		l.payer, l.charged = nil, 0
	}
}

// handed is told of each reply of a buffer that is charged, before it is handed out: whoever
// gets it counts what it keeps of it.
func (l *conn) handed(n int) {
	if n = min(n, l.charged); n > 0 {
		l.payer.Count(-n)
		l.charged -= n
	}
}

// skip begins to drop the reply at hand for lack of room. It reports false for what can't be
// dropped.
func (l *conn) skip(first byte, why string) bool {
	if l.skipping || !l.skips && (l.mayDrop == nil || !l.mayDrop(first)) {
		return false
	}
	l.skipping, l.skipWhy = true, why
	return true
}

// congest notes that the reply at hand is large: what is sent from now on would wait behind it,
// and behind everything that was sent before.
func (l *conn) congest() {
	l.mu.Lock()
	l.large = l.appended
	l.mu.Unlock()
	if !l.congested.Swap(true) {
		l.largeAt = time.Now()
	}
}

// decongest ends the congestion once everything has been read that was sent before it. It notes
// when the congestion takes long.
func (l *conn) decongest() {
	if l.large == 0 {
		return
	}
	if waits := l.large > l.taken+1; waits && time.Since(l.largeAt) > blockedAfter {
		l.up.blocked.begin()
	}
	if l.taken >= l.large {
		l.large = 0
		l.congested.Store(false)
	}
}

// grown notes that the reply at hand needs a read buffer of size bytes.
func (l *conn) grown(size int) {
	if l.shared && size > maxIdleBuffer {
		l.congest()
	}
	if size > hugeReply && l.up != nil {
		l.up.hugeSeen.begin()
	}
	if l.lender != nil && size > hugeReply && !l.huge {
		l.huge = true
		l.lender.huge.Add(1)
	}
}

// shrunk ends what grown began. It follows the end of a reply, or of the conn.
func (l *conn) shrunk() {
	if l.huge {
		l.huge = false
		l.lender.huge.Add(-1)
	}
}

// yield slows down the reading of a huge reply that is isolated, while the shared connection is
// congested. The server and this process then have more time for that connection. Where replies
// have a time-out, they don't yield.
func (l *conn) yield() {
	if l.lender == nil || l.soonest > 0 {
		return
	}
	if shared := l.up.conn.Load(); shared == nil || !shared.congested.Load() {
		return
	}
	select {
	case <-time.After(yieldTime):
	case <-l.up.ctx.Done():
	}
}

// skipped is the error that takes the place of a reply that is dropped.
func (l *conn) skipped() []byte {
	return errorReply("ERR redoubt: " + l.skipWhy + ": the command has run")
}

// endsSkipping reports whether the conn ends in place of reading the rest of a reply that is dropped:
// nothing else is under way on it, and others wait less if the server doesn't send that rest.
func (l *conn) endsSkipping() bool {
	if l.lender == nil {
		return false
	}
	e := l.head()
	l.mu.Lock()
	defer l.mu.Unlock()
	return e != nil && e.n == 1 && l.appended == l.taken+1
}

// endSkipping answers the command and returns why the conn ends.
func (l *conn) endSkipping(deliver func(raw []byte) error) error {
	l.dropped = true // returnIsolated keeps it from the next
	if err := deliver(l.skipped()); err != nil {
		return err
	}
	return errors.New(l.skipWhy)
}

// A taker is a connection that can give away what it has read.
type taker interface {
	// Take returns bytes that Read has not returned yet, which the caller owns, or nil.
	Take() []byte
}

var errNoRoom = errors.New("all clients together hold more than maxmemory-clients")

// read hands out replies until the connection ends.
func (l *conn) read(initial int, deliver func(raw []byte) error) error {
	defer l.discharge()
	buf := make([]byte, initial)
	take, _ := l.socket.Conn.(taker)
	from, to := 0, 0
	for {
		if l.skipping {
			from += l.scanner.Discard(buf[from:to])
		}
		if len(buf) > l.keeps() && to-from <= readBuffer/2 { // also while a reply is dropped
			buf, from, to = socket.Grow(buf[from:to], readBuffer), 0, to-from
			l.discharge()
		}
		var full bool
		if from, to, full = socket.MakeRoom(buf, from, to); full {
			if len(buf) >= l.maxReply {
				if !l.skips || l.skipping {
					return errors.New("a reply is longer than the limit")
				}
				l.skip(buf[from], fmt.Sprintf("the reply is longer than %d bytes", l.maxReply))
				if l.endsSkipping() {
					return l.endSkipping(deliver)
				}
				continue
			}
			l.grown(2 * len(buf))
			counts := l.listener != nil || 2*len(buf) > l.keeps()
			if counts && !l.charge(3*len(buf)) { // both buffers, while one is copied to the other
				if !l.skip(buf[from], errNoRoom.Error()) {
					return errNoRoom
				}
				if l.endsSkipping() {
					return l.endSkipping(deliver)
				}
				continue
			}
			buf, from, to = socket.Grow(buf[from:to], 2*len(buf)), 0, to-from
			if counts {
				l.charge(len(buf))
			}
		}
		var n int
		var err error
		var given []byte
		if take != nil && from == to {
			given = take.Take()
		}
		if l.huge {
			l.yield()
		}
		if given == nil {
			n, err = l.socket.Read(buf[to:])
		} else if buf, n = given, len(given); !l.charge(n) {
			return errNoRoom
		}
		var slow *SlowCommand
		if l.shared {
			l.readAt = latency.Now()
			if n > 0 {
				slow = l.heard()
			}
		}
		before := l.replies
		to += n
		for from < to {
			end, serr := l.scanner.Next(buf[from:to])
			if serr != nil {
				return serr
			}
			if end == 0 {
				break
			}
			raw := buf[from : from+end]
			if l.skipping {
				l.skipping, raw = false, l.skipped()
			}
			if len(buf) > l.keeps() {
				l.handed(end)
			}
			if derr := deliver(raw); derr != nil {
				return derr
			}
			from += end
		}
		l.decongest()
		if slow != nil {
			slow.Behind = max(l.replies, before+1) - before - 1
			l.slow.add(slow)
		}
		l.flushHandlers()
		if l.soonest > 0 && l.swept(errors.Is(err, os.ErrDeadlineExceeded)) {
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errEOF
			}
			return err
		}
	}
}
