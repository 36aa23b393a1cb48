package engine

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// Open returns a connection to a new session, as a server opens a connection to its back end. The
// caller writes commands, and reads replies and messages. Commands run inside Write, in its
// caller's goroutine; a goroutine of the engine runs only commands that follow one that had to
// wait.
//
// Up to 16 MiB of replies wait to be read; beyond that Write waits. A connection with 64 MiB of
// unread messages is closed.
func (e *Engine) Open(context.Context) (net.Conn, error) {
	return e.connect(localAddr{}, localAddr{}, nil, true)
}

// OpenFor is [Engine.Open] for another connection of a client with a session, whose scripts have limits, and whose
// server has settings. MONITOR, SLOWLOG and CLIENT LIST show its addresses.
func (e *Engine) OpenFor(_ context.Context, client net.Conn, l Limits, o OuterSettings) (net.Conn, error) {
	return e.openFor(client, nil, l, o)
}

func (e *Engine) openFor(client net.Conn, g *Group, l Limits, o OuterSettings) (net.Conn, error) {
	c, err := e.connect(client.RemoteAddr(), client.LocalAddr(), g, false)
	if err != nil {
		return nil, err
	}
	c.s.limits, c.s.outer = l, o
	return c, nil
}

// Name is how errors call the engine as a back end.
func (e *Engine) Name() string { return "embedded" }

// Database is the number of the database that sessions begin in.
func (e *Engine) Database() int { return 0 }

// ServeConn serves a client on an accepted connection, and returns when either side has ended it.
// It closes conn. It has no limits, no authentication and no TLS: internal/server has those.
func (e *Engine) ServeConn(conn net.Conn) error {
	defer conn.Close()
	c, err := e.connect(conn.RemoteAddr(), conn.LocalAddr(), nil, true)
	if err != nil {
		return err
	}
	replies := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, c)
		conn.Close()
		replies <- err
	}()
	_, err = io.CopyBuffer(c, struct{ io.Reader }{conn}, make([]byte, copyBuffer))
	_ = c.Close()
	if rerr := <-replies; err == nil {
		err = rerr
	}
	return err
}

const (
	copyBuffer    = 64 << 10
	publishAt     = 64 << 10 // replies that are handed over while more commands run
	maxUnread     = 16 << 20 // replies that wait to be read before Write waits
	maxBacklog    = 16 << 20 // bytes behind a command that waits before Write waits
	maxUnreadPush = 64 << 20
)

// localAddr is the address of a connection inside of the process.
type localAddr struct{}

func (localAddr) Network() string { return "engine" }
func (localAddr) String() string  { return "embedded:0" }

// A clientConn is a connection to a session. It runs the commands at once that its peer writes.
// Replies gather in out, with the messages of other goroutines between them.
type clientConn struct {
	e             *Engine
	s             *Session
	remote, local net.Addr

	run      sync.Mutex // held while commands run; guards what follows
	scanner  resp.CommandScanner
	in       []byte // not yet a command, or behind one that waits
	wait     *Wait
	w        []byte // replies not yet in out
	unsynced int    // commands that they answer
	account  Account
	inHeld   bufferAccount // of in
	over     bool          // no more commands are run
	closed   bool          // the session is closed

	mu      sync.Mutex
	change  sync.Cond // of anything below
	out     []byte
	outHeld bufferAccount // of out and pushes
	at      int           // how many bytes of out were read
	running bool          // commands run: messages go to pushes
	pushes  []byte        // messages, to go behind the reply of the command that runs
	pushed  atomic.Bool   // pushes is not empty
	backlog int           // bytes in in, while a command waits
	ended   bool          // by the engine: Read gives the rest and then io.EOF
	lost    bool          // unread bytes were dropped: nothing may follow them
	gone    bool          // Close was called

	readBy, writeBy deadline
}

// connect opens a connection. client says that nothing else counts its peer as a client.
func (e *Engine) connect(remote, local net.Addr, group *Group, client bool) (*clientConn, error) { //nolint:revive // callers say which
	if e.closed.Load() {
		return nil, ErrClosed
	}
	c := &clientConn{e: e, remote: remote, local: local}
	c.change.L = &c.mu
	c.s = e.Session()
	c.s.group = group
	if client { // before others can end it
		e.clients.count(c.s)
	}
	c.s.SyncLater()
	c.s.client.set(remote.String(), local.String(), c.end)
	c.s.OnPush(c.push)
	if e.closed.Load() { // Close may not have seen the session
		c.end()
		return nil, ErrClosed
	}
	return c, nil
}

// Write runs the commands in p.
func (c *clientConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	for c.backlog > maxBacklog && !c.gone && !c.ended {
		if c.writeBy.passed() {
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		c.change.Wait()
	}
	gone, ended := c.gone, c.ended
	late := c.writeBy.passed()
	c.mu.Unlock()
	switch {
	case gone:
		return 0, net.ErrClosed
	case ended:
		return 0, io.ErrClosedPipe
	case late:
		return 0, os.ErrDeadlineExceeded
	}
	c.run.Lock()
	defer c.unlock()
	if c.wait != nil || len(c.in) > 0 {
		c.in = append(c.in, p...)
		if c.wait == nil {
			c.in = c.in[:copy(c.in, c.in[c.process(c.in):])]
		}
	} else {
		n := c.process(p)
		c.in = append(c.in, p[n:]...)
	}
	c.noteBacklog()
	return len(p), nil
}

// noteBacklog lets Write know how much waits behind a command.
func (c *clientConn) noteBacklog() {
	if cap(c.in) > maxIdleReply && len(c.in) == 0 {
		c.in = nil
	}
	n := 0
	if c.wait != nil {
		n = len(c.in)
	}
	if !c.inHeld.set(c.account, cap(c.in)) {
		c.over, c.in = true, nil
		c.inHeld.set(c.account, 0)
		c.end()
	}
	c.mu.Lock()
	if c.backlog != n {
		c.backlog = n
		c.change.Broadcast()
	}
	c.mu.Unlock()
}

// unlock closes the session if that was asked for meanwhile.
func (c *clientConn) unlock() {
	for {
		if c.isOver() {
			c.close()
		}
		done := c.closed
		c.run.Unlock()
		if done || !c.isOver() || !c.run.TryLock() { // the holder of run checks again
			return
		}
	}
}

func (c *clientConn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone || c.ended
}

// close ends the session. run is held.
func (c *clientConn) close() {
	c.over, c.in, c.w = true, nil, nil
	c.inHeld.set(c.account, 0)
	if !c.closed {
		c.closed = true
		c.s.Close()
	}
}

// process runs the commands at the beginning of buf and returns their length.
func (c *clientConn) process(buf []byte) (n int) {
	c.mu.Lock()
	c.running = true
	c.mu.Unlock()
	for !c.over && c.wait == nil && n < len(buf) {
		size, err := c.scanner.Next(buf[n:])
		if err != nil {
			c.w = resp.AppendError(c.w, "ERR "+err.Error())
			c.over = true
			break
		}
		if size == 0 {
			break
		}
		c.w, c.wait = c.s.Do(c.w, c.scanner.Args())
		c.unsynced++
		n += size
		if c.pushed.Load() {
			c.takePushes()
		}
		c.over = c.over || c.s.quitting
		if len(c.w) >= publishAt {
			c.publish()
		}
	}
	if n > maxIdleReply {
		c.scanner.Forget()
	}
	c.s.client.note(c.s)
	c.publish()
	c.mu.Lock()
	c.running = false
	c.emit(c.pushes) // of the last moment
	c.freePushes()
	c.ended = c.ended || c.over
	if len(c.out) > 0 || c.ended {
		c.change.Broadcast()
	}
	c.mu.Unlock()
	if c.wait != nil {
		c.wait.Then(func() { go c.resume() })
	}
	return n
}

// takePushes puts messages behind the reply of the command that they came
// with.
func (c *clientConn) takePushes() {
	c.mu.Lock()
	c.w = append(c.w, c.pushes...)
	c.freePushes()
	c.mu.Unlock()
}

// sync waits until all changes that the replies depend on are on disk. When they can't be saved, no
// reply may leave. An error replaces a single reply. With several replies the connection ends,
// because the client could not tell which of them failed.
func (c *clientConn) sync() {
	if err := c.s.Sync(); err != nil {
		c.w = resp.AppendError(c.w[:0], err.Error())
		c.over = c.over || c.unsynced > 1
	}
	c.unsynced = 0
}

// publish hands the replies over.
func (c *clientConn) publish() {
	if len(c.w) == 0 {
		return
	}
	c.sync()
	c.mu.Lock()
	for len(c.out)-c.at > maxUnread && !c.gone && !c.ended && !c.writeBy.passed() {
		c.change.Wait()
	}
	switch {
	case c.gone, c.lost:
		c.w = c.w[:0]
	case len(c.out) == 0:
		c.out, c.w = c.w, c.out
	default:
		c.emit(c.w)
		c.w = c.w[:0]
	}
	if cap(c.w) > maxIdleReply {
		c.w = nil
	}
	c.s.HandedOver()
	c.countOut()
	c.change.Broadcast()
	c.mu.Unlock()
}

// emit appends to out. mu is held.
func (c *clientConn) emit(b []byte) {
	if c.at > 0 && len(c.out)+len(b) > cap(c.out) {
		c.out, c.at = c.out[:copy(c.out, c.out[c.at:])], 0
	}
	c.out = append(c.out, b...)
}

// resume goes on when a command that waited has its reply.
func (c *clientConn) resume() {
	c.run.Lock()
	defer c.unlock()
	if c.closed {
		return
	}
	c.w = c.wait.Append(c.w)
	c.wait = nil
	n := c.process(c.in)
	c.in = c.in[:copy(c.in, c.in[n:])]
	c.noteBacklog()
}

// push takes a message. Its caller holds locks.
func (c *clientConn) push(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended || c.gone:
	case len(c.out)-c.at+len(c.pushes)+len(frame) > maxUnreadPush:
		c.ended = true
		go c.shut()
		c.change.Broadcast()
	case c.running:
		c.pushes = append(c.pushes, frame...)
		c.pushed.Store(true)
		c.countOut()
	default:
		c.emit(frame)
		c.countOut()
		c.change.Broadcast()
	}
}

// Read waits for replies and messages.
func (c *clientConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		switch {
		case c.gone:
			return 0, net.ErrClosed
		case c.ended:
			return 0, io.EOF
		case c.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		}
		c.change.Wait()
	}
	if c.gone {
		return 0, net.ErrClosed
	}
	n := copy(p, c.out[c.at:])
	full := len(c.out)-c.at > maxUnread
	if c.at += n; c.at == len(c.out) {
		c.out, c.at = c.out[:0], 0
		if cap(c.out) > maxIdleReply {
			c.out = nil
		}
		c.countOut()
	}
	if full {
		c.change.Broadcast()
	}
	return n, nil
}

// Close ends the session. A command that waits is given up; one that runs goes
// on to its end, which Close does not wait for.
func (c *clientConn) Close() error {
	c.mu.Lock()
	c.gone, c.out, c.at, c.pushes = true, nil, 0, nil
	c.outHeld.set(c.account, 0)
	c.readBy.stop()
	c.writeBy.stop()
	c.change.Broadcast()
	c.mu.Unlock()
	c.shut()
	return nil
}

// end closes the connection from the side of the engine, without waiting. It
// reports false when it is closed, or about to be.
func (c *clientConn) end() bool {
	c.mu.Lock()
	if c.ended || c.gone {
		c.mu.Unlock()
		return false
	}
	c.ended = true
	c.change.Broadcast()
	c.mu.Unlock()
	go c.shut()
	return true
}

// shut closes the session, unless a goroutine runs commands in it: that one closes it then.
func (c *clientConn) shut() {
	if c.run.TryLock() {
		c.unlock()
	}
}

// LocalAddr implements net.Conn.
func (c *clientConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *clientConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *clientConn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, &c.readBy, &c.writeBy)
}

// SetReadDeadline implements net.Conn.
func (c *clientConn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.readBy) }

// SetWriteDeadline implements net.Conn. It bounds how long Write waits, not
// the commands that it runs.
func (c *clientConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.writeBy) }

func (c *clientConn) setDeadline(t time.Time, ds ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	for _, d := range ds {
		d.set(t, func() {
			c.mu.Lock()
			c.change.Broadcast()
			c.mu.Unlock()
		})
	}
	c.change.Broadcast()
	return nil
}

// A deadline is a moment after which waiting ends. Its connection's mu guards
// it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time, wake func()) {
	d.stop()
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), wake)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
