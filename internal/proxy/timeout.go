package proxy

import (
	"cmp"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
)

// A health hears how a server does. Its functions may be nil; they must not block.
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

// errSilent is why nothing is sent to a server whose replies are late: it would only
// wait behind them.
var errSilent = errors.New("it does not answer in time")

// sweep is how often a conn looks for what is late.
func (l *conn) sweep() time.Duration { return max(l.soonest/8, time.Millisecond) }

// swept follows a read, which ended by the deadline or not. When it is time, it has
// the goroutine read once more, since after a long pause of this process the replies
// may be there, and then expires what is late. It reports whether to read again.
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

// expire answers commands that have waited for longer than the time-out. Their
// replies are dropped when they come; the connection goes on, and with it everybody
// else's commands. Called by the goroutine that reads.
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
		if e.late {
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
		e.handler, e.retry, e.late = nil, nil, true
	}
	l.mu.Lock()
	l.late = overdue
	l.traffic.Late += uint64(overdue - before) //nolint:gosec // positive
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
	l.late--
	done := l.late == 0
	l.mu.Unlock()
	if done {
		l.health.ok()
	}
}

// silent reports whether replies are late.
func (l *conn) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late > 0
}
