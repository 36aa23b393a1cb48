package proxy

import (
	"slices"
	"time"
)

// sendRedirection sends r with the next Flush. With wait it waits for the next conn if one has just ended.
func (u *Upstream) sendRedirection(r *redirection, wait bool) error { //nolint:revive // the parameter is the whole difference
	get := u.tryGet
	if wait {
		get = u.get
	}
	for {
		l, err := get()
		if err != nil {
			return err
		}
		if err = l.redirected(r, wait); !wait || !u.ended(l, err) {
			return err
		}
		u.after(l)
	}
}

func (l *conn) redirected(r *redirection, wait bool) error { //nolint:revive // as in its caller
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(r.commands) + len(askingRaw)
	if wait {
		l.awaitRoom(n)
	}
	if l.full(n) {
		return ErrBusy
	}
	return l.appendRedirection(r)
}

func (u *Upstream) redirectIsolated(rs []redirection) {
	defer u.isolation.running.Done()
	if due := slices.MaxFunc(rs, func(a, b redirection) int { return a.due.Compare(b.due) }).due; !due.IsZero() {
		time.Sleep(time.Until(due))
	}
	sent := 0
	err := u.WithTimeout(rs[0].timeout).Rationed().sendIsolated(u.life, func(l *conn, began time.Time) (err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for sent = 0; sent < len(rs) && err == nil; sent++ {
			rs[sent].sent = began
			err = l.appendRedirection(&rs[sent])
		}
		if err != nil {
			sent--
		}
		return err
	})
	for i := sent; i < len(rs); i++ {
		rs[i].refuse(u, err)
	}
}
