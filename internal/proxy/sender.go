package proxy

import (
	"cmp"
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Sender sends commands to an [Upstream] of a pool, with a time-out of its own. Make one with
// [Upstream.WithTimeout].
type Sender struct {
	u       *Upstream
	timeout time.Duration
	whole   bool
	ration  bool
}

// WithTimeout returns a Sender with a time-out of its own. 0 means the pool's time-out, and a negative one
// means none. It must be one of [PoolOptions.Timeouts].
func (u *Upstream) WithTimeout(timeout time.Duration) Sender { return Sender{u: u, timeout: timeout} }

// Whole returns a Sender for a transaction, from MULTI to EXEC. A cluster redirects all of it, or
// nothing.
func (t Sender) Whole() Sender {
	t.whole = true
	return t
}

// Rationed returns a Sender for commands whose replies may be large. While large replies hold up
// others ([Upstream.Congested], [Upstream.RecentlyBlocked]), at most four such commands are isolated at once.
func (t Sender) Rationed() Sender {
	t.ration = true
	return t
}

func (t Sender) request(c ReplyHandler, tag uint64, n int) request {
	e := request{handler: c, tag: tag, n: n, timeout: t.timeout}
	if t.whole && (t.u.opts.clustered != nil || t.u.opts.patience > 0) {
		e.moves = &moves{whole: true}
	}
	return e
}

// Send is [Upstream.Send].
func (t Sender) Send(c ReplyHandler, tag uint64, n int, commands []byte) error {
	return t.u.send(func(l *conn) error { return l.send(t.request(c, tag, n), commands) })
}

// TrySend is [Upstream.TrySend].
func (t Sender) TrySend(c ReplyHandler, tag uint64, n int, commands []byte) error {
	return t.u.trySend(func(l *conn) error {
		e := t.request(c, tag, n)
		return l.trySend(&e, commands)
	})
}

// SendScript is [Upstream.SendScript].
func (t Sender) SendScript(c ReplyHandler, tag uint64, cmd *redoubt.Cmd) error {
	return t.u.send(func(l *conn) error {
		return l.sendScript(request{handler: c, tag: tag, timeout: t.timeout}, cmd)
	})
}

// TrySendScript is like SendScript but never blocks: it returns [ErrBusy] instead.
func (t Sender) TrySendScript(c ReplyHandler, tag uint64, cmd *redoubt.Cmd) error {
	return t.u.trySend(func(l *conn) error {
		return l.trySendScript(request{handler: c, tag: tag, timeout: t.timeout}, cmd)
	})
}

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
