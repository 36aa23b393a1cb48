package proxy

import "time"

// With [PoolOptions].Patience, commands for a lost server wait for its next conn. They wait on Upstream.next,
// which is closed when the next conn is there or the wait is over. It is nil when no conn will come. When the
// node of a cluster loses its slots, as after a failover, they go to its successor.

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
	if waited == nil {
		return
	}
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
	if u.conn.Load() != nil || u.opts.clustered != nil && u.opts.clustered.left.Load() {
		return nil
	}
	return u.next
}

// successor returns the upstream to send to in place of u, or nil.
func (u *Upstream) successor() *Upstream {
	n := u.opts.clustered.successor()
	if n == nil {
		return nil
	}
	to, err := n.Upstream(u.opts.Protocol)
	if err != nil {
		return nil
	}
	return to
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

// send has do append to the conn. If the conn has ended it waits for the next one, or sends to a successor.
func (u *Upstream) send(do func(l *conn) error) error {
	for to := u; ; {
		to.redirected.hold()
		l, err := to.get()
		if err != nil {
			next := to.successor()
			if next == nil {
				return err
			}
			to = next
			continue
		}
		if to.redirected.held.Load() != nil { // something that goes first has come meanwhile
			continue
		}
		if err = do(l); !to.ended(l, err) {
			if to != u { // the caller flushes u
				to.Flush()
			}
			return err
		}
		to.after(l)
	}
}

// trySend is send that never blocks: it returns [ErrConnecting] instead.
func (u *Upstream) trySend(do func(l *conn) error) error {
	if u.redirected.held.Load() != nil {
		return ErrConnecting
	}
	l, err := u.tryGet()
	if err != nil {
		if u.successor() != nil {
			return ErrConnecting
		}
		return err
	}
	if err = do(l); u.ended(l, err) {
		return ErrConnecting
	}
	return err
}
