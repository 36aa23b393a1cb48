package proxy

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A server closes a connection for a bulk beyond its proto-max-bulk-len, or replies beyond its
// client-output-buffer-limit. On the shared connection that would lose the replies of all
// clients. So commands that may be too large are isolated: on a connection of the upstream that
// has nothing else under way. While a large reply arrives on the shared connection, all other
// commands are isolated too: they would wait behind it.
//
// Rejected: sending again what was lost with the shared connection, since writes may have run.

// LargeCommand is the greatest length of a command on the shared connection. Every server
// accepts that length: Redis' proto-max-bulk-len is at least 1 MiB.
const LargeCommand = 1 << 20

// maxIsolated is how many commands of an upstream are isolated at once. Each takes a connection to
// the server. Further commands wait.
const maxIsolated = 64

// SendIsolated is Send on a connection that has nothing else under way. It dials one if none is
// idle. When maxIsolated commands are isolated already, it calls wait and waits for a permit. If the
// time-out passes first, or the context from wait ends, it sends nothing and returns an error. The
// commands need no Flush. The caller keeps the order between these commands and others.
func (t Sender) SendIsolated(wait func() context.Context, c ReplyHandler, tag uint64, n int, commands []byte) error {
	return t.sendIsolated(wait, func(l *conn, began time.Time) error {
		e := t.request(c, tag, n)
		e.sent = began
		return l.send(e, commands)
	})
}

// SendScriptIsolated is SendIsolated for a script, as [Upstream.SendScript] is for Send.
func (t Sender) SendScriptIsolated(wait func() context.Context, c ReplyHandler, tag uint64, cmd *redoubt.Cmd) error {
	return t.sendIsolated(wait, func(l *conn, began time.Time) error {
		e := t.request(c, tag, 1)
		e.sent = began
		return l.sendScript(e, cmd)
	})
}

// sendIsolated passes send the time at which the time-out began.
func (t Sender) sendIsolated(wait func() context.Context, send func(l *conn, began time.Time) error) error {
	began := time.Now()
	isolate := func() (*conn, error) { return t.u.isolatedConn(wait, cmp.Or(t.timeout, t.u.opts.timeout), t.ration) }
	l, err := isolate()
	for next := t.u.successor(); err != nil && next != nil; next = t.u.successor() {
		t.u = next
		l, err = isolate()
	}
	if err != nil {
		return err
	}
	if err := send(l, began); err != nil {
		_ = l.socket.Close()
		return err
	}
	go l.flushPending() // it waits for the server
	return nil
}

// Limited reports whether the server, or another node of its cluster, limits its output buffers,
// so that it may close the connection for a large reply. It is false until the server has been
// asked.
func (u *Upstream) Limited() bool {
	if u.limited.Load() {
		return true
	}
	n := u.opts.clustered
	return n != nil && n.pool.cluster.limited.Load() > 0
}

// Congested reports whether a large reply is coming on the shared connection, so that a command
// should be isolated. It is false when half of the permits are taken: the rest is for large commands.
func (u *Upstream) Congested() bool {
	l := u.conn.Load()
	return l != nil && l.congested.Load() && u.isolation.roomy()
}

// roomy reports whether at least half of all permits are free.
func (s *isolation) roomy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken < maxIsolated/2
}

// An isolation is the isolated connections of an upstream. At most maxIsolated are busy. A
// new one is made only when none is idle, so there are never more than maxIsolated.
type isolation struct {
	mu      sync.Mutex
	all     map[*conn]bool // whether it is busy
	permits permits        // one for each connection that is busy or being made
	ration  permits        // one for each of them that has a rationed command
	idle    []idleConn
	trimmer *time.Timer
	closed  bool
	huge    atomic.Int64 // connections on which a reply of more than hugeReply arrives
	running sync.WaitGroup
}

// An idleConn is an isolated connection without commands.
type idleConn struct {
	conn  *conn
	since time.Time
}

// isolatedConn returns a connection that nobody else uses. It comes back after the last reply.
func (u *Upstream) isolatedConn(wait func() context.Context, timeout time.Duration, ration bool) (*conn, error) { //nolint:revive // the parameter is what the command is
	shared, err := u.get()
	if err != nil { // it is known to be down
		return nil, err
	}
	ration = ration && (shared.congested.Load() || u.RecentlyBlocked() || u.isolation.huge.Load() > 1)
	if err := u.acquire(wait, timeout, ration); err != nil {
		return nil, err
	}
	if l := u.isolation.take(ration); l != nil {
		return l, nil
	}
	l, err := u.openIsolated(ration)
	if err != nil {
		u.isolation.release(ration)
	}
	return l, err
}

// openIsolated makes a connection. The caller has a permit.
func (u *Upstream) openIsolated(ration bool) (*conn, error) { //nolint:revive // the parameter is what the conn is for
	opts := u.opts
	opts.Scripts, opts.health, opts.slow, opts.limits = nil, health{}, nil, nil
	until := opts.until()
	ctx, cancel := context.WithTimeout(u.ctx, DefaultDialTimeout)
	defer cancel()
	conn, err := opts.openUntil(ctx, until)
	if err != nil {
		return nil, err
	}
	l := newConn(conn, false, opts)
	l.skips, l.lender, l.up, l.rationed = true, &u.isolation, u, ration
	if !u.isolation.add(l) {
		_ = conn.Close()
		return nil, errClosed
	}
	stay := context.AfterFunc(until, func() { l.close(context.Cause(until)) })
	go func() {
		defer u.isolation.running.Done()
		defer stay()
		err := l.read(firstIsolatedRead, l.reply)
		l.close(err)
		l.shrunk()
		u.isolation.forget(l)
		u.lost.Add(l.abandon())
	}()
	return l, nil
}

const firstIsolatedRead = 4 << 10

// release returns a permit.
func (s *isolation) release(rationed bool) { //nolint:revive // the parameter is whose permit it was
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(rationed)
}

func (s *isolation) releaseLocked(rationed bool) { //nolint:revive // the parameter is whose permit it was
	s.permits.release()
	if rationed {
		s.ration.release()
	}
}

// take returns the connection that was used last, or nil.
func (s *isolation) take(ration bool) *conn { //nolint:revive // the parameter is what the conn is for
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n-- {
		l := s.idle[n-1].conn
		s.idle = s.idle[:n-1]
		if l.usable() {
			s.all[l], l.rationed = true, ration
			return l
		}
	}
	return nil
}

// usable reports whether the connection is not known to have ended, and no reply is late.
func (l *conn) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && l.overdue == 0
}

// add reports false when the upstream is closed.
func (s *isolation) add(l *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*conn]bool{}
	}
	s.all[l] = true
	s.running.Add(1)
	return true
}

// forget follows the end of a connection.
func (s *isolation) forget(l *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[l] {
		s.releaseLocked(l.rationed)
	}
	delete(s.all, l)
	s.idle = slices.DeleteFunc(s.idle, func(i idleConn) bool { return i.conn == l })
}

// put takes back a connection that has nothing under way.
func (s *isolation) put(l *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[l] = false
	s.idle = append(s.idle, idleConn{l, time.Now()})
	s.releaseLocked(l.rationed)
	if s.trimmer == nil && !s.closed {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// trim closes the connections that nobody has needed for a while.
func (s *isolation) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0 // the front: those used last are taken first
	for old < len(s.idle) && time.Since(s.idle[old].since) >= idleTime {
		_ = s.idle[old].conn.socket.Close()
		old++
	}
	s.idle = slices.Delete(s.idle, 0, old)
	s.trimmer = nil
	if len(s.idle) > 0 {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// busy reports whether somebody waits for a reply.
func (s *isolation) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken > 0
}

// counts returns how many connections are with commands, and how many commands wait for one.
func (s *isolation) counts() (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permits.taken, len(s.permits.waiting) + len(s.ration.waiting)
}

// close ends all, and waits until every pending command has an error.
func (s *isolation) close() {
	s.mu.Lock()
	s.closed = true
	if s.trimmer != nil {
		s.trimmer.Stop()
	}
	for l := range s.all {
		_ = l.socket.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// protocolError begins the reply that a server sends before it closes a connection.
var protocolError = []byte("-ERR Protocol error")

// returnIsolated returns the connection to its lender once raw is the last reply that it waits for.
// Called before the caller has the reply, which may have it ask for the next connection.
func (l *conn) returnIsolated(raw []byte) {
	l.shrunk()
	l.mu.Lock()
	over := l.taken == l.appended
	l.mu.Unlock()
	switch {
	case !over:
		return
	case l.dropped, bytes.HasPrefix(raw, protocolError): // it ends, or the server is about to close it
		_ = l.socket.Close()
	default:
		l.lender.put(l)
	}
	l.moveOn()
}

// The server is asked for its limits when the shared connection is made, before anything is sent
// on it. They may change at any time, so it is asked again and again, while commands are sent.

// limitsEvery is how often the server is asked.
const limitsEvery = time.Second

var configLimits = resp.AppendCommand(nil, "CONFIG", "GET", "client-output-buffer-limit")

// noteLimits takes the reply to configLimits. An error leaves what was known.
func (u *Upstream) noteLimits(reply any) {
	if _, refused := reply.(resp.Error); refused {
		return
	}
	limited := limitsNormal(reply)
	if u.limited.Swap(limited) == limited {
		return
	}
	if n := u.opts.clustered; n != nil { // another node may be sent what this one refuses
		if limited {
			n.pool.cluster.limited.Add(1)
		} else {
			n.pool.cluster.limited.Add(-1)
		}
	}
}

// watchLimits asks for the limits until the upstream ends.
func (u *Upstream) watchLimits() {
	defer u.isolation.running.Done()
	t := time.NewTicker(limitsEvery)
	defer t.Stop()
	before := uint64(0)
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-t.C:
		}
		if u.sent() == before && !u.limited.Load() { // with limits, commands may be isolated that are not in sent
			continue
		}
		c := limitsHandler{u, make(chan struct{})}
		if err := u.Send(c, 0, 1, configLimits); err == nil {
			u.Flush()
			<-c.answered
		}
		before = u.sent()
	}
}

// life ends when the upstream is closed.
func (u *Upstream) life() context.Context { return u.ctx }

// sent returns how many messages were ever sent on the shared connection that there is now.
func (u *Upstream) sent() uint64 {
	l := u.conn.Load()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appended
}

// A limitsHandler gets the reply to configLimits.
type limitsHandler struct {
	u        *Upstream
	answered chan struct{}
}

// Reply implements [ReplyHandler].
func (c limitsHandler) Reply(_ uint64, raw []byte) bool {
	if v, _, err := resp.Parse(raw); err == nil {
		c.u.noteLimits(v)
	}
	close(c.answered)
	return false
}

// Flush implements [ReplyHandler].
func (c limitsHandler) Flush() {}

// begin reports whether a goroutine may start. close waits for it.
func (s *isolation) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// limitsNormal reports whether the reply to CONFIG GET client-output-buffer-limit has a limit
// for normal clients, which are neither replicas nor subscribers.
func limitsNormal(reply any) bool {
	var text string
	pair, ok := reply.([]any)
	if m, resp3 := reply.(resp.Map); resp3 {
		pair, ok = m, true
	}
	if ok && len(pair) == 2 {
		text, _ = pair[1].(string)
	}
	f := strings.Fields(text)
	i := slices.Index(f, "normal")
	return i >= 0 && i+2 < len(f) && (f[i+1] != "0" || f[i+2] != "0")
}
