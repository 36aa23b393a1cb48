package memcached

import "time"

// write appends to what may be written. The caller holds mu.
func (c *client) write(p []byte) {
	if !c.dead {
		c.out = append(c.out, p...)
		c.held += len(p)
	}
}

// advance writes the answers whose turn it is, and reports whether the caller has
// to flush. The caller holds mu.
func (c *client) advance() (flush bool) {
	for a := c.queue.front(); a != nil && a.wait == 0; a = c.queue.front() {
		a.finish()
		c.queue.pop()
		c.recycle(a)
	}
	if len(c.out) == 0 || c.flushing {
		return false
	}
	c.flushing = true
	return true
}

// flushOut writes what may be written. It doesn't wait for the client.
func (c *client) flushOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing = false
	if c.writing {
		return // and whoever writes goes on with this
	}
	for len(c.out) > 0 && !c.dead {
		c.writing = true
		buf := c.takeOut()
		c.mu.Unlock()
		n, err := c.conn.TryWrite(buf)
		c.mu.Lock()
		if err == nil && n < len(buf) {
			c.sent(n)
			c.rest = buf[n:]
			c.slow()
			return
		}
		c.wrote(buf, len(buf), err)
	}
	c.writing = false
	c.tell()
}

// slow has what the socket didn't take at once written, which a goroutine has to wait
// for. The caller holds mu, and the right to write.
func (c *client) slow() {
	switch {
	case c.loop == nil:
		c.pool.serving.Go(c.writeSlowly)
	case c.turning:
		c.leaving = true
		c.tell()
	default:
		c.leaveLoop()
		c.pool.looping.Go(c.readLoop)
	}
}

// writeSlowly writes the rest, and what comes meanwhile. A client that doesn't read
// for long is disconnected.
func (c *client) writeSlowly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf := c.rest
	c.rest = nil
	for {
		rest := buf
		for len(rest) > 0 && !c.dead {
			part := rest[:min(len(rest), slowPart)]
			c.mu.Unlock()
			_ = c.conn.SetWriteDeadline(time.Now().Add(c.pool.opts.SlowClient))
			_, err := c.conn.Write(part)
			c.mu.Lock()
			if err != nil && !c.dead {
				c.pool.slow.Add(1)
			}
			c.wrote(nil, len(part), err)
			rest = rest[len(part):]
		}
		if len(c.out) == 0 || c.dead {
			break
		}
		buf = c.takeOut()
	}
	_ = c.conn.SetWriteDeadline(time.Time{})
	c.writing = false
	c.tell()
}

// takeOut takes what may be written. The caller holds mu.
func (c *client) takeOut() []byte {
	buf := c.out
	c.out, c.spare = c.spare[:0], nil
	return buf
}

// wrote notes that n bytes were written. buf is reused; it may be nil. The caller holds mu.
func (c *client) wrote(buf []byte, n int, err error) {
	c.sent(n)
	if cap(buf) <= idleBuffer {
		c.spare = buf[:0]
	}
	if err != nil {
		c.kill()
	}
	c.tell()
}

// sent notes that n bytes are the client's. The caller holds mu.
func (c *client) sent(n int) {
	c.held -= n
	c.holds.Hold(c.held)
	c.pool.bytesOut.Add(uint64(n)) //nolint:gosec // not negative
}

// kill disconnects the client. The caller holds mu.
func (c *client) kill() {
	c.dead = true
	c.out = nil
	c.conn.Drop()
	c.tell()
}

// tell wakes the goroutine that reads, if it waits. The caller holds mu.
func (c *client) tell() {
	if c.waiting {
		c.changed.Broadcast()
	}
}
