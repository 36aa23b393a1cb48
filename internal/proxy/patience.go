package proxy

import "time"

// With [PoolOptions].Patience, commands for a lost server wait for its next conn. They wait on Upstream.next,
// which is closed when the next conn is there or the wait is over. It is nil when no conn will come.

// arrived is called when there is another conn.
func (u *Upstream) arrived() {
	if u.opts.patience > 0 {
		u.setNext(make(chan struct{}))
	}
}

// endWaits is called when there will be no other conn.
func (u *Upstream) endWaits() { u.setNext(nil) }

func (u *Upstream) setNext(next chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next != nil {
		close(u.next)
	}
	u.next = next
}

// limitWaits is called when the conn is lost.
func (u *Upstream) limitWaits() {
	if u.opts.patience == 0 {
		return
	}
	u.mu.Lock()
	waited := u.next
	u.mu.Unlock()
	time.AfterFunc(u.opts.patience, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.next == waited { // no other conn has arrived
			close(waited)
			u.next = nil
		}
	})
}

// expected returns what is closed when the wait for a conn is over. It is nil if there is a conn, or
// nothing to wait for.
func (u *Upstream) expected() <-chan struct{} {
	if u.opts.patience == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn.Load() != nil {
		return nil
	}
	return u.next
}

// ended reports whether l refused a command because l has ended. The command may then wait for the next conn.
func (u *Upstream) ended(l *conn, err error) bool {
	if err == nil || u.opts.patience == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// after waits until u has dropped l, a conn that has ended. The next call of get may wait longer.
func (u *Upstream) after(l *conn) {
	u.mu.Lock()
	next, still := u.next, u.conn.Load() == l
	u.mu.Unlock()
	if still && next != nil {
		<-next
	}
}

// send has do append to the conn. If the conn has ended it waits for the next one.
func (u *Upstream) send(do func(l *conn) error) error {
	for {
		l, err := u.get()
		if err != nil {
			return err
		}
		if err = do(l); !u.ended(l, err) {
			return err
		}
		u.after(l)
	}
}

// trySend is send that never blocks: it returns [ErrConnecting] instead.
func (u *Upstream) trySend(do func(l *conn) error) error {
	l, err := u.tryGet()
	if err != nil {
		return err
	}
	if err = do(l); u.ended(l, err) {
		return ErrConnecting
	}
	return err
}
