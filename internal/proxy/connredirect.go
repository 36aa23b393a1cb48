package proxy

import (
	"bytes"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
)

// redirect checks the reply to the head of the queue. It reports true when it has sent the command on.
// Otherwise reply is the caller's reply.
func (l *conn) redirect(e *request, raw []byte) (reply []byte, sent bool) {
	m := e.moves
	if raw[0] != '-' {
		m.done++
		return raw, false
	}
	said := raw
	if m.whole {
		if e.n > 1 {
			if _, _, ok := sentTo(raw, l.node.server.Name); (ok || bytes.HasPrefix(raw, clusterDownCode)) && m.cause == nil {
				m.cause = bytes.Clone(raw)
			}
			return raw, false
		}
		if m.cause != nil && bytes.HasPrefix(raw, execAbortCode) {
			said = m.cause
		}
	}
	d, redirects := l.node.redirectionBy(said, m.hops)
	if redirects && d.down && (!m.whole && e.n > 1 || l.behind(e)) {
		redirects = false // what is behind may have run
	}
	if !redirects || d.disagreed {
		m.done++
		if d.disagreed {
			raw = Disagreed().Reply()
		}
		return raw, false
	}
	r := redirection{ask: d.ask, request: request{
		handler: e.handler, tag: e.tag, n: 1, retry: e.retry, timeout: e.timeout, moves: &moves{hops: d.hops, whole: m.whole},
	}}
	if e.retry == nil {
		var err error
		if r.commands, err = m.cut(); err != nil {
			return errorReply("ERR redoubt: " + err.Error()), false
		}
		switch {
		case m.whole:
		case d.down && runsScript(r.commands): // it may have made the answer up
			return raw, false
		case !d.down && d.cluster.forged(r.commands, raw, d.addr, l.node):
			return errorReply("ERR redoubt: the script answered with an error that looks like a redirection"), false
		}
	}
	if m.whole {
		r.n = m.n
		r.tag -= uint64(m.n - 1) //nolint:gosec // positive
	}
	if d.pause > 0 {
		r.due = time.Now().Add(d.pause)
	}
	l.advance(e)
	to := d.node()
	var u *Upstream
	err := errClosed
	if to != nil {
		u, err = to.Upstream(l.protocol)
	}
	if err != nil {
		if l.lender != nil {
			l.returnIsolated(raw)
		}
		l.fault(r.handler, r.last(), Unreachable(d.addr, err))
		return nil, true
	}
	if l.lender != nil {
		l.moved = append(l.moved, moved{u, r})
		l.returnIsolated(raw)
		return nil, true
	}
	r.holds = d.down
	u.redirected.add(u, r)
	if !slices.Contains(l.targets, u) {
		l.targets = append(l.targets, u)
	}
	return nil, true
}

// behind reports whether the client has sent other commands behind e.
func (l *conn) behind(e *request) bool {
	its := func(other request) bool { return ownerOf(other.handler) == ownerOf(e.handler) }
	if slices.ContainsFunc(l.front[l.at+1:], its) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.queue, its)
}

// sendAgain has a request that never left wait for the next connection, if commands wait. It reports whether it did.
func (l *conn) sendAgain(e *request) bool {
	if !l.waits || l.up.ctx.Err() != nil || e.moves == nil || e.handler == nil || e.expired {
		return false
	}
	r := redirection{request: *e, commands: e.moves.commands, holds: true}
	r.moves = &moves{hops: e.moves.hops, whole: e.moves.whole}
	for e.n > 0 {
		l.advance(e)
	}
	l.up.redirected.add(l.up, r)
	return true
}

// readAgain has the next command of a request that was lost with its connection wait for the next one, as sendAgain
// does, if the command only reads. It does so once for each command: one whose reply the server can't send would be
// lost again and again.
func (l *conn) readAgain(e *request) bool {
	if !l.waits || l.up.ctx.Err() != nil || e.moves == nil || e.moves.whole || e.handler == nil || e.expired || e.moves.hops.lost > 0 {
		return false
	}
	r := redirection{holds: true, request: request{
		handler: e.handler, tag: e.tag, n: 1, retry: e.retry, timeout: e.timeout, moves: &moves{hops: e.moves.hops},
	}}
	r.moves.hops.lost++
	if e.retry != nil {
		if e.retry.Flags&redoubt.ReadOnly == 0 {
			return false
		}
	} else {
		var err error
		if r.commands, err = e.moves.cut(); err != nil || !onlyReads(r.commands) {
			return false
		}
	}
	l.advance(e)
	l.up.redirected.add(l.up, r)
	return true
}

// moved redirects an isolated command, which stays isolated.
type moved struct {
	to *Upstream
	r  redirection
}

// moveOn sends what has been refused on, once everything that came with it is answered: the
// commands for one node on one connection, so that they keep their order. The client sends
// nothing else until all are answered, so they overtake nothing. It doesn't wait itself.
func (l *conn) moveOn() {
	for len(l.moved) > 0 {
		to := l.moved[0].to
		var rs []redirection
		l.moved = slices.DeleteFunc(l.moved, func(m moved) bool {
			if m.to == to {
				rs = append(rs, m.r)
			}
			return m.to == to
		})
		if to.isolation.begin() {
			go to.redirectIsolated(rs)
			continue
		}
		for i := range rs {
			rs[i].refuse(to, errClosed)
		}
	}
}

// appendRedirection appends r to what is to be sent. The caller holds mu.
func (l *conn) appendRedirection(r *redirection) error {
	switch {
	case l.err != nil:
		return l.err
	case l.overdue > 0:
		return errSilent
	}
	if r.ask {
		l.pending = append(l.pending, askingRaw...)
		l.push(&request{n: 1})
	}
	switch {
	case r.retry == nil:
		l.pending = append(l.pending, r.commands...)
	case r.ask: // by its source: what comes again for lack of the script would need ASKING again
		l.pending = AppendEval(l.pending, r.retry)
	default:
		l.pending = AppendEvalSHA(l.pending, r.retry)
	}
	r.moves.commands, r.moves.n = r.commands, r.n
	l.push(&r.request)
	return nil
}
