package proxy

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/resp"
)

// A server closes a connection for a bulk beyond its proto-max-bulk-len, or replies beyond its
// client-output-buffer-limit. On the shared connection that would lose the replies of all
// clients. So commands that may be too large travel apart: on a connection of the upstream that
// has nothing else under way.
//
// Rejected: sending again what was lost with the shared connection, since writes may have run.

// LargeCommand is the greatest length of a command on the shared connection. Every server
// takes a command of that length: Redis' proto-max-bulk-len is at least 1 MiB.
const LargeCommand = 1 << 20

// Apart sends commands on a connection that has nothing else under way. Send may wait for the
// connection to be made, and the commands leave without Flush. The caller keeps the order
// between these commands and others.
func (t Timed) Apart() Timed {
	t.apart = true
	return t
}

// Limited reports whether the server limits its output buffers, so that it may close the
// connection for a large reply. It is false until the server has been asked.
func (u *Upstream) Limited() bool { return u.limited.Load() }

// sides are the connections of an upstream beside the shared one.
type sides struct {
	mu      sync.Mutex
	all     map[*link]struct{}
	idle    []side
	trimmer *time.Timer
	closed  bool
	running sync.WaitGroup
}

// A side is an idle connection.
type side struct {
	link  *link
	since time.Time
}

// side returns a connection that nobody else uses.
func (u *Upstream) side() (*link, error) {
	if _, err := u.get(); err != nil { // it is known to be down
		return nil, err
	}
	if l := u.sides.take(); l != nil {
		return l, nil
	}
	opts := u.opts
	opts.Scripts, opts.health, opts.slow = nil, health{}, nil
	until := opts.until()
	ctx, cancel := context.WithTimeout(u.ctx, DefaultDialTimeout)
	defer cancel()
	conn, err := opts.openUntil(ctx, until)
	if err != nil {
		return nil, err
	}
	l := newLink(conn, false, opts)
	l.skips = true
	if !u.sides.add(l) {
		_ = conn.Close()
		return nil, errClosed
	}
	stay := context.AfterFunc(until, func() { l.close(context.Cause(until)) })
	go func() {
		defer u.sides.running.Done()
		defer stay()
		err := l.read(firstSideRead, l.reply)
		l.close(err)
		u.sides.forget(l)
		u.lost.Add(l.abandon())
	}()
	return l, nil
}

const firstSideRead = 4 << 10

// take returns the connection that was used last, or nil.
func (s *sides) take() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n-- {
		l := s.idle[n-1].link
		s.idle = s.idle[:n-1]
		if l.usable() {
			return l
		}
	}
	return nil
}

// usable reports whether the connection has not ended, as far as is known, and no reply is late.
func (l *link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && l.late == 0
}

// add reports false when the upstream is closed.
func (s *sides) add(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*link]struct{}{}
	}
	s.all[l] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *sides) forget(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
	s.idle = slices.DeleteFunc(s.idle, func(i side) bool { return i.link == l })
}

// put takes back a connection that has nothing under way.
func (s *sides) put(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.all[l]; !there || s.closed || len(s.idle) == maxIdle {
		_ = l.conn.Close()
		return
	}
	s.idle = append(s.idle, side{l, time.Now()})
	if s.trimmer == nil {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// trim closes the connections that nobody has needed for a while.
func (s *sides) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0 // the front: those used last are taken first
	for old < len(s.idle) && time.Since(s.idle[old].since) >= idleTime {
		_ = s.idle[old].link.conn.Close()
		old++
	}
	s.idle = slices.Delete(s.idle, 0, old)
	s.trimmer = nil
	if len(s.idle) > 0 {
		s.trimmer = time.AfterFunc(idleTime, s.trim)
	}
}

// busy reports whether somebody waits for a reply.
func (s *sides) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > len(s.idle)
}

// close ends all, and waits until every pending command has an error.
func (s *sides) close() {
	s.mu.Lock()
	s.closed = true
	if s.trimmer != nil {
		s.trimmer.Stop()
	}
	for l := range s.all {
		_ = l.conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// protocolError begins the reply that a server sends before it closes a connection.
var protocolError = []byte("-ERR Protocol error")

// A loan gives the connection back after the last reply.
type loan struct {
	Caller

	sides *sides
	link  *link
	left  int
	lost  bool
}

// Reply implements [Caller].
func (o *loan) Reply(tag uint64, raw []byte) bool {
	o.left--
	o.lost = o.lost || MayHaveRun(raw) || bytes.HasPrefix(raw, protocolError)
	flush := o.Caller.Reply(tag, raw)
	switch {
	case o.left > 0:
	case o.lost: // the connection has ended, or a late reply may still come
		_ = o.link.conn.Close()
	default:
		o.sides.put(o.link)
	}
	return flush
}

// sendApart sends n commands on a connection of their own, by send.
func (u *Upstream) sendApart(e entry, n int, send func(l *link, e entry) error) error {
	l, err := u.side()
	if err != nil {
		return err
	}
	e.caller = &loan{Caller: e.caller, sides: &u.sides, link: l, left: n}
	if err := send(l, e); err != nil {
		_ = l.conn.Close()
		return err
	}
	go l.flushPending() // it waits for the server
	return nil
}

// askLimits asks the server what Limited reports. A server that doesn't answer is taken to
// have no limit.
func (u *Upstream) askLimits(ctx context.Context) {
	defer u.sides.running.Done()
	ctx, cancel := context.WithTimeout(ctx, DefaultDialTimeout)
	defer cancel()
	reply, err := AskOnce(ctx, u.opts.Backend, configLimits)
	if err == nil {
		u.limited.Store(limitsNormal(reply))
	}
}

var configLimits = resp.AppendCommand(nil, "CONFIG", "GET", "client-output-buffer-limit")

// begin reports whether a goroutine may start. close waits for it.
func (s *sides) begin() bool {
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
	if pair, ok := reply.([]any); ok && len(pair) == 2 {
		text, _ = pair[1].(string)
	}
	f := strings.Fields(text)
	i := slices.Index(f, "normal")
	return i >= 0 && i+2 < len(f) && (f[i+1] != "0" || f[i+2] != "0")
}
