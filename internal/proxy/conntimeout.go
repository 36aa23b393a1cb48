package proxy

import (
	"cmp"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
)

// A health is told whether a server answers. Its functions may be nil. They must not block.
type health struct {
	watch    *outage.Watch
	failed   func() // a connection was lost, could not be made, or a reply is late
	answered func() // a connection was made, or all late replies have come
}

// fail notes a failure; began is as for [outage.Watch.Failed].
func (h health) fail(began time.Time, err error) {
	h.watch.Failed(began, err)
	if h.failed != nil {
		h.failed()
	}
}

func (h health) ok() {
	h.watch.Answered()
	if h.answered != nil {
		h.answered()
	}
}

// errSilent is why nothing is sent to a server whose replies are late: it would wait
// behind them.
var errSilent = errors.New("it does not answer in time")

// sweep is how often a conn looks for late replies.
func (l *conn) sweep() time.Duration { return max(l.soonest/8, time.Millisecond) }

// swept follows each read; deadline says that the read ended by its deadline. Then the
// goroutine reads once more, because the replies may be there after a long pause of this
// process. The next call expires the late ones. It reports whether to read again.
func (l *conn) swept(deadline bool) bool { //nolint:revive // the parameter is what happened
	switch {
	case l.due:
		l.due = false
		l.expire()
	case deadline:
		l.due = true
		_ = l.socket.SetReadDeadline(time.Now().Add(time.Millisecond))
	}
	return deadline
}

// expire answers commands whose time-out has passed. Their late replies are dropped. The
// connection stays, with the commands of other clients. The reader goroutine calls it.
func (l *conn) expire() {
	now := time.Now()
	_ = l.socket.SetReadDeadline(now.Add(l.sweep()))
	l.mu.Lock()
	rest := copy(l.front, l.front[l.at:])
	clear(l.front[rest:])
	l.front, l.at = append(l.front[:rest], l.queue...), 0
	clear(l.queue)
	l.queue = l.queue[:0]
	l.mu.Unlock()

	var fault *Fault
	var told time.Duration // the time-out in fault
	overdue, before := 0, 0
	for i := range l.front {
		e := &l.front[i]
		timeout := cmp.Or(e.timeout, l.timeout)
		if waited := now.Sub(e.sent); timeout <= 0 || waited < timeout {
			if waited < l.soonest {
				break // and so are all behind it
			}
			continue
		}
		if e.expired {
			overdue += e.n
			before += e.n
			continue
		}
		if timeout != told {
			fault, told = timedOut(l.name, timeout), timeout
		}
		for range e.n {
			l.fault(e.handler, e.tag, fault)
			e.tag++
		}
		overdue += e.n
		e.handler, e.retry, e.expired = nil, nil, true
	}
	l.mu.Lock()
	l.overdue = overdue
	l.traffic.TimedOut += uint64(overdue - before) //nolint:gosec // positive
	if overdue > 0 && l.waiting > 0 {
		l.space.Broadcast()
	}
	l.mu.Unlock()
	if overdue > 0 && now.Sub(l.failedAt) >= l.soonest {
		l.failedAt = now
		l.health.fail(time.Now(), errSilent)
	}
	if overdue > 0 && l.lender != nil {
		l.close(errSilent) // nobody could use it before the reply comes
	}
	l.flushHandlers()
}

// caughtUp notes that a late reply has come.
func (l *conn) caughtUp() {
	l.mu.Lock()
	l.overdue--
	done := l.overdue == 0
	l.mu.Unlock()
	if done {
		l.health.ok()
	}
}

// silent reports whether replies are late.
func (l *conn) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overdue > 0
}
