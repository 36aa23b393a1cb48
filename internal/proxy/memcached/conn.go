package memcached

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/socket"
)

const (
	readBuffer    = 64 << 10
	maxIdleBuffer = 1 << 20 // larger buffers are given back when they are empty
)

// A request stands in the queue of a conn for one command.
type request struct {
	answer *answer // nil: it has been given already
	sent   time.Time
	size   uint32 // in bytes
	store  bool
}

// A conn is one connection to a server, which all clients share. Commands leave in the order in which they
// were appended, and the queue says which command each reply belongs to. A sender yields once before it
// writes, so that other goroutines append too and all commands leave in one system call.
//
// Package proxy has the same for RESP. That one also resends scripts and prepares sessions. This one
// detects a server that hangs, and no sender waits for its socket.
type conn struct {
	node   *node
	socket *socket.Conn
	wg     sync.WaitGroup // of finish

	mu       sync.Mutex
	space    sync.Cond // pending became shorter, or nothing may be sent any more
	pending  []byte
	spare    []byte
	flushing bool
	queue    []request // from head on
	head     int
	appended uint64 // requests ever
	written  uint64 // of these, given to conn at least in part
	taken    uint64 // of these, answered by the server
	traffic  traffic
	meter    latency.Meter // of commands that have left
	heard    time.Time
	stalled  time.Time // since when the server has been too slow, or zero
	overdue  int       // requests of the queue that got an error in place of their replies
	err      error     // why the conn ended

	// Of the goroutine that reads.
	scanner replyScanner
	batch   []request
	pieces  []piece
	flush   []*client
}

// A piece is of a reply.
type piece struct {
	from, to int
	last     bool
}

func newConn(n *node, c net.Conn) *conn {
	l := &conn{node: n, socket: socket.New(c), heard: time.Now()}
	l.space.L = &l.mu
	return l
}

// send appends a command, which consists of the parts. After an error nothing was
// appended.
func (l *conn) send(r request, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.sendable() == nil && len(l.pending) > 0 && len(l.pending)+size > l.node.group.opts.MaxPending {
		l.mu.Unlock()
		r.answer.client.mayWait()
		l.flushPending()
		l.mu.Lock()
		if l.flushing && l.sendable() == nil {
			l.space.Wait()
		}
	}
	if err := l.sendable(); err != nil {
		return err
	}
	for _, p := range parts {
		l.pending = append(l.pending, p...)
	}
	r.size = uint32(size) //nolint:gosec // far below: MaxLine and MaxValue
	l.queue = append(l.queue, r)
	l.appended++
	return nil
}

var errStalled = errors.New("it does not answer")

// sendable returns why nothing may be sent. The caller holds mu.
func (l *conn) sendable() error {
	if l.err == nil && !l.stalled.IsZero() {
		return errStalled
	}
	return l.err
}

// flushPending sends the appended commands. It lets goroutines that are ready run first, so that their
// commands leave too. It doesn't wait for the server.
func (l *conn) flushPending() {
	if l.beginFlush() {
		runtime.Gosched()
		l.flushAll()
	}
}

// flushNow is flushPending that doesn't let others append first.
func (l *conn) flushNow() {
	if l.beginFlush() {
		l.flushAll()
	}
}

// beginFlush reports whether there is something to send that nobody else sends.
func (l *conn) beginFlush() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushing || len(l.pending) == 0 || l.err != nil {
		return false
	}
	l.flushing = true
	return true
}

func (l *conn) flushAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > 0 && l.err == nil {
		buf := l.take()
		l.mu.Unlock()
		n, err := l.socket.TryWrite(buf)
		l.mu.Lock()
		if err == nil && n < len(buf) && l.err == nil {
			l.wg.Go(func() { l.finish(buf, n) })
			return // and finish goes on
		}
		l.wrote(buf, err)
	}
	l.flushing = false
	l.space.Broadcast()
}

// finish sends the bytes that the socket didn't take at once, and the commands appended meanwhile.
func (l *conn) finish(buf []byte, n int) {
	_, err := l.socket.Write(buf[n:])
	l.mu.Lock()
	l.wrote(buf, err)
	for len(l.pending) > 0 && l.err == nil {
		buf := l.take()
		l.mu.Unlock()
		_, err := l.socket.Write(buf)
		l.mu.Lock()
		l.wrote(buf, err)
	}
	l.flushing = false
	l.space.Broadcast()
	l.mu.Unlock()
}

// take returns the bytes to write next. The caller holds mu.
func (l *conn) take() []byte {
	buf := l.pending
	l.pending, l.spare = l.spare[:0], nil
	l.written = l.appended
	l.meter.Begin(l.written, latency.Now(), 0)
	l.traffic.requestBytes += uint64(len(buf))
	return buf
}

// wrote notes that buf was written. The caller holds mu.
func (l *conn) wrote(buf []byte, err error) {
	if cap(buf) <= maxIdleBuffer {
		l.spare = buf[:0]
	}
	if err != nil {
		l.fail(err)
	}
	l.space.Broadcast()
}

// fail ends the conn. The caller holds mu.
func (l *conn) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	_ = l.socket.Close() // the reader goroutine ends, and answers the waiting commands
	l.space.Broadcast()
}

// close ends the conn, unless it has ended already, and returns why it ended.
func (l *conn) close(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
	return l.err
}

// read hands out replies until the connection ends.
func (l *conn) read() error {
	buf := make([]byte, readBuffer)
	from, to := 0, 0
	for {
		var full bool
		from, to, full = socket.MakeRoom(buf, from, to)
		switch {
		case full:
			buf, from, to = socket.Grow(buf[from:to], max(2*len(buf), l.scanner.need+maxReplyLine)), 0, to-from
		case to == 0 && len(buf) > maxIdleBuffer:
			buf = make([]byte, readBuffer)
		}
		n, err := l.socket.Read(buf[to:])
		to += n
		for from < to {
			end, last, err := l.scanner.next(buf[from:to])
			if err != nil {
				return err
			}
			if end == 0 {
				break
			}
			l.pieces = append(l.pieces, piece{from, from + end, last})
			from += end
		}
		if n > 0 {
			if err := l.deliver(buf); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			err = errEOF
		}
		if err != nil {
			return err
		}
	}
}

var (
	errEOF     = errors.New("closed by the server")
	errUnasked = errors.New("a reply that nobody asked for")
	errLost    = errors.New("the server took a value for commands")
)

// deliver hands out pieces. The last one may be the beginning of a reply.
func (l *conn) deliver(buf []byte) error {
	n := len(l.pieces)
	if n == 0 { // but something came, of a long value
		l.mu.Lock()
		l.heard, l.stalled = time.Now(), time.Time{}
		l.mu.Unlock()
		return nil
	}
	open := !l.pieces[n-1].last
	if open {
		n--
	}
	l.mu.Lock()
	l.heard, l.stalled = time.Now(), time.Time{}
	if n > len(l.queue)-l.head || open && n == len(l.queue)-l.head {
		l.mu.Unlock()
		return errUnasked
	}
	l.batch = append(l.batch[:0], l.queue[l.head:l.head+n]...)
	l.pop(n)
	if l.overdue == 0 {
		l.node.watch.Answered()
	}
	l.received()
	l.mu.Unlock()
	l.node.answered()

	var lost error
	for i, e := range l.batch {
		p := l.pieces[i]
		if e.store && isLost(buf[p.from:p.to]) {
			lost = errLost
		}
		l.hand(e.answer, buf[p.from:p.to], true)
	}
	clear(l.batch)
	if open {
		// Under mu, for expire may give the answer meanwhile.
		p := l.pieces[n]
		l.mu.Lock()
		l.hand(l.queue[l.head].answer, buf[p.from:p.to], false)
		l.mu.Unlock()
	}
	l.pieces = l.pieces[:0]
	l.flushClients()
	return lost
}

// pop takes n requests out of the queue. The caller holds mu.
func (l *conn) pop(n int) {
	if l.overdue > 0 {
		for _, e := range l.queue[l.head : l.head+n] {
			if e.answer == nil {
				l.overdue--
			}
		}
	}
	clear(l.queue[l.head : l.head+n])
	l.head += n
	l.taken += uint64(n) //nolint:gosec // not negative
	switch {
	case l.head == len(l.queue):
		l.queue, l.head = l.queue[:0], 0
	case l.head > 1024 && l.head > len(l.queue)/2:
		rest := copy(l.queue, l.queue[l.head:])
		clear(l.queue[rest:])
		l.queue, l.head = l.queue[:rest], 0
	}
}

func (l *conn) hand(a *answer, piece []byte, last bool) {
	if a != nil {
		c := a.client // a may be another's when part returns
		if a.part(piece, last) {
			l.flush = append(l.flush, c)
		}
	}
}

func (l *conn) flushClients() {
	for i, c := range l.flush {
		c.flushOut()
		l.flush[i] = nil
	}
	l.flush = l.flush[:0]
}

// expire answers commands whose time-out has passed with an error. They stay in the queue, and their late
// replies are dropped. Until the server sends anything, nothing more is sent. If it stays silent for
// another time-out, the conn ends. expire reports whether it answered any.
func (l *conn) expire(now time.Time, timeout time.Duration) bool {
	before := now.Add(-timeout)
	var reply []byte
	var flush []*client
	n := 0
	l.mu.Lock()
	for i := l.head; i < len(l.queue) && l.queue[i].sent.Before(before); i++ {
		a := l.queue[i].answer
		if a == nil {
			continue
		}
		l.queue[i].answer = nil
		if n++; n == 1 {
			reply = l.node.timeoutReply()
		}
		c := a.client
		if a.part(reply, true) {
			flush = append(flush, c)
		}
	}
	l.overdue += n
	if n > 0 {
		l.node.watch.Failed(time.Now(), errStalled) // under mu, so that a reply that comes now is told after it
	}
	switch {
	case n > 0 && l.heard.Before(before):
		if l.stalled.IsZero() {
			l.stalled = now
		}
		l.space.Broadcast()
	case !l.stalled.IsZero() && l.stalled.Before(before):
		l.fail(errStalled)
	}
	l.mu.Unlock()
	for _, c := range flush {
		c.flushOut()
	}
	l.node.timeouts.Add(uint64(n)) //nolint:gosec // not negative
	return n > 0
}

// abandon answers all waiting commands after the conn has ended. It returns how many.
func (l *conn) abandon() (n uint64) {
	l.wg.Wait()
	l.mu.Lock()
	rest := append([]request(nil), l.queue[l.head:]...)
	sent := l.written - l.taken
	l.pop(len(rest))
	l.mu.Unlock()
	lost, unsent := l.node.lostReply(), l.node.unsentReply()
	for i, e := range rest {
		raw := unsent
		if uint64(i) < sent { //nolint:gosec // not negative
			raw = lost
		}
		if e.answer != nil {
			n++
		}
		l.hand(e.answer, raw, true)
	}
	l.flushClients()
	return n
}

// state returns how many commands and bytes wait.
func (l *conn) state() (inFlight, pending int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) - l.head, len(l.pending)
}
