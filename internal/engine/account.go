package engine

// An Account counts the memory that a session holds beside the data, so that a limit can bound the
// memory of all sessions. Each call opens an entry for one buffer of the session. hold sets the
// bytes of that entry; it reports false when there is no room for them, and changes nothing then.
// One goroutine at a time uses an entry; different goroutines may use different entries. The engine
// calls hold with locks held, so hold must not call the engine.
type Account = func() (hold func(bytes int) bool)

// A bufferAccount is one buffer of a session, as its account knows it.
type bufferAccount struct {
	hold  func(int) bool
	bytes int
}

// leastHeld is the size in bytes from which a buffer is reported to its account.
const leastHeld = 4 << 10

// set reports whether there is room for n bytes. Without an account there always is.
func (h *bufferAccount) set(a Account, n int) bool {
	switch {
	case n == h.bytes || a == nil || h.hold == nil && n < leastHeld:
		return true
	case h.hold == nil:
		h.hold = a()
	}
	if !h.hold(n) {
		return false
	}
	h.bytes = n
	return true
}

// noRoom says why a session's account has refused.
const noRoom = "all clients together hold more than maxmemory-clients"

// SetAccount sets the account of the session's memory: the commands of a transaction, and a long
// reply while it is made. Without it nothing is counted. Call it before the session runs commands.
//
// A reply stays counted until [Session.HandedOver].
func (s *Session) SetAccount(a Account) { s.account = a }

// HandedOver ends the counting of the replies so far: the caller counts them from now on.
func (s *Session) HandedOver() { s.reply.set(s.account, 0) }

// extend makes room for a reply of size bytes, and for twice the room before if there is memory, so
// that the reply is not copied often. A reply may have at most most bytes. extend reports false
// when there is no room.
func (c *call) extend(size, most int) bool {
	for _, more := range [...]int{c.roomy, c.roomy / 2} {
		roomy := max(size, min(c.roomy+more, most))
		want := c.from + roomy + replySlack
		if want > cap(c.w) {
			if !c.holdReply(want) {
				continue
			}
			grown := make([]byte, len(c.w), want)
			copy(grown, c.w)
			c.w = grown
		}
		c.roomy = roomy
		return true
	}
	return false
}

// replySlack is the length of the header and the end of a bulk.
const replySlack = 64

// holdReply counts a reply while it is made: a client's reply with its session, a script's with all
// scripts.
func (c *call) holdReply(n int) bool {
	switch {
	case c.scripted:
		return c.s.host.reserve(n)
	case c != &c.s.c: // for a blocked client, of data that another client pushed
		return true
	}
	return c.s.reply.set(c.s.account, n)
}

// SetAccount sets the account of the connection's memory: its session, the commands behind one that
// waits, and the replies and messages that wait to be read. Without room the connection ends. Call
// it before the first Write.
func (c *clientConn) SetAccount(a func() (hold func(bytes int) bool)) {
	c.account = a
	c.s.SetAccount(a)
}

// countOut counts out and pushes, and ends the connection when there is no room. mu is held.
func (c *clientConn) countOut() {
	if c.outHeld.set(c.account, cap(c.out)+cap(c.pushes)) {
		return
	}
	c.out, c.pushes, c.at = nil, nil, 0
	c.outHeld.set(c.account, 0)
	c.ended, c.lost = true, true
	go c.shut()
	c.change.Broadcast()
}

// freePushes forgets messages that are elsewhere. mu is held.
func (c *clientConn) freePushes() {
	c.pushes = c.pushes[:0]
	if cap(c.pushes) > maxIdleReply {
		c.pushes = nil
	}
	c.pushed.Store(false)
}

// Take is Read without a copy. It returns all that waits to be read if that is much, and nil
// otherwise. The caller owns the bytes.
func (c *clientConn) Take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || len(c.out)-c.at <= maxIdleReply {
		return nil
	}
	b := c.out[c.at:]
	c.out, c.at = nil, 0
	c.countOut()
	c.change.Broadcast()
	return b
}
