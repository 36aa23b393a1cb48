package server

import "github.com/redoubt-go/redoubt/internal/socket"

// read reads more of what the client sends.
func (c *session) read() error {
	var full bool
	c.from, c.to, full = socket.MakeRoom(c.buf, c.from, c.to)
	if c.to == 0 && c.scanner.Held() > maxRead {
		forgetInput(c)
	}
	switch {
	case !c.words.Hold(c.scanner.Held()):
		c.refuseRest()
		return nil
	case c.to == 0 && len(c.buf) > maxRead:
		c.buf = make([]byte, firstRead)
		c.has.Hold(firstRead)
		forgetInput(c)
	case full && !c.has.Hold(2*len(c.buf)):
		c.refuseRest()
		return nil
	case full:
		c.buf = socket.Grow(c.buf[c.from:c.to], 2*len(c.buf))
		c.from, c.to = 0, c.to-c.from
	}
	n, err := c.conn.Read(c.buf[c.to:])
	c.filled = n == len(c.buf)-c.to
	if n == 0 && err != nil {
		if c.draining.Load() {
			return ErrClosed
		}
		return err
	}
	if n == len(c.buf) && n < maxRead && c.to == 0 {
		// This client sends much at once, so read more at once, after these bytes.
		defer func() { c.enlarge() }()
	}
	c.to += n
	if !c.polled() {
		c.readItNow()
	}
	c.traffic.bytesIn.Add(uint64(n)) //nolint:gosec // not negative
	c.active.Store(c.srv.clock.Load())
	return nil
}

// forgetInput drops all references to a buffer that is given up, and what grew with its command.
func forgetInput(c *session) {
	c.scanner.Forget()
	c.rights.positions = nil
	c.route.forget()
}

// refuseRest answers a command for which there is no room with an error, and ends the
// session.
func (c *session) refuseRest() {
	c.fail("ERR redoubt: " + errNoRoom.Error() + ": the command was not read")
	c.from, c.to, c.buf = 0, 0, make([]byte, firstRead)
	c.has.Hold(firstRead)
	c.quit = true
}

// shed ends the session because it holds the most of all.
func (c *session) shed() {
	c.srv.opts.Logger.Warn("a client was closed: it held the most", "client", c.id, "addr", c.conn.RemoteAddr(), "error", errNoRoom)
	c.kill(errNoRoom)
}

func (c *session) enlarge() {
	if !c.has.Hold(maxRead) {
		return
	}
	c.buf = socket.Grow(c.buf[c.from:c.to], maxRead)
	c.from, c.to = 0, c.to-c.from
}
