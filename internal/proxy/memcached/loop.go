package memcached

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// A loop reads clients on Linux. One goroutine, the leader, waits for all of them,
// reads what has come from each in turn, and then sends it to the servers, together.
// The answers are written by the goroutines that read the servers.
//
// A goroutine for each client costs a switch of goroutines and a read that finds
// nothing for most commands: a tenth of the processor time of short ones.
//
// The leader waits for nobody. A client that has to wait, for its own answers or for
// room at a server, takes the goroutine that it has, and another leads: see yieldLead.
// It keeps that goroutine for good, as does one that takes its answers slowly, or
// sends commands that are long.
type loop struct {
	pool   *Pool
	ready  *socket.ReadyQueue[*client]
	lastID atomic.Uint64

	// Of the leader.
	unsent  int     // turns whose commands have not been sent
	touched []*node // that have something to send
}

const (
	turnRead = 16 << 10 // bytes that are read in one turn
	maxTurns = 64       // that commands wait for before they are sent

	longCommand = 1 << 20 // to copy one takes longer than others should wait
)

// startLoops starts loops where there are such. There are as many as a server has for
// clients of Redis: half a one for each thread.
func (p *Pool) startLoops() {
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		ready, err := socket.NewReadyQueue[*client]()
		if err != nil {
			break
		}
		l := &loop{pool: p, ready: ready}
		p.loops = append(p.loops, l)
		p.looping.Go(l.lead)
	}
	if len(p.loops) > 0 && p.opts.IdleTimeout > 0 {
		p.looping.Go(p.endIdle)
	}
}

// endLoops ends them, after their last client.
func (p *Pool) endLoops() {
	p.starting.Do(func() {}) // none are started any more
	for _, l := range p.loops {
		_ = l.ready.Close()
	}
	p.looping.Wait()
}

// endIdle ends clients of loops that send nothing.
func (p *Pool) endIdle() {
	tick := time.NewTicker(max(p.opts.IdleTimeout/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, l := range p.loops {
				l.endIdle(now.Add(-p.opts.IdleTimeout))
			}
		case <-p.draining:
			return
		}
	}
}

func (l *loop) endIdle(since time.Time) {
	l.ready.Each(func(c *client) {
		if !c.idle && c.heard.Load() < since.UnixNano() {
			c.idle = true
			l.pool.idle.Add(1)
			_ = c.conn.SetReadDeadline(past) // what was asked is answered
		}
	})
}

// past is a deadline that ends what is read.
var past = time.Unix(1, 0)

// add begins to read a client, which is the loop's from then on. After an error it is
// the caller's.
func (l *loop) add(c *client) error {
	c.heard.Store(time.Now().UnixNano())
	c.id = l.lastID.Add(1)
	return l.ready.Add(c.id, c, c.conn)
}

// lead is the leader. It returns when another goroutine leads, or the poll is closed.
func (l *loop) lead() {
	buf := make([]byte, turnRead)
	l.flush() // what the last leader left
	for {
		for c := l.pick(); c != nil; c = l.pick() {
			if !l.run(c, buf) {
				return
			}
			if l.unsent++; l.unsent == maxTurns {
				l.flush()
			}
		}
		l.flush()
		if !l.wait() {
			return
		}
	}
}

// pick returns the client whose turn it is, or nil after the last.
func (l *loop) pick() *client {
	for t, ok := l.ready.Next(); ok; t, ok = l.ready.Next() {
		if c := t.Client; !t.Requeued || c.more { // else it has had another turn since
			c.last = c.last || t.Last
			return c
		}
	}
	return nil
}

// wait waits for the next turns. It reports false at the end.
func (l *loop) wait() bool {
	if l.ready.Backlogged() {
		runtime.Gosched() // to the goroutines that read the servers
	}
	return l.ready.Wait() == nil
}

// flush sends what has been asked to the servers.
func (l *loop) flush() {
	for i, n := range l.touched {
		n.flushNow()
		l.touched[i] = nil
	}
	l.touched, l.unsent = l.touched[:0], 0
}

// run is the turn of a client. It reports whether the caller leads still.
func (l *loop) run(c *client, buf []byte) (leads bool) {
	c.mu.Lock()
	if c.loop != l {
		c.mu.Unlock()
		return true
	}
	c.turning = true
	c.mu.Unlock()

	over := c.turn(buf)
	rest := c.readLoop
	if over {
		rest = c.end
	}

	c.mu.Lock()
	if c.loop != l {
		c.mu.Unlock()
		c.flushNodes()
		rest()
		return false
	}
	l.touch(c)
	switch {
	case over && !c.writing && (c.dead || c.inFlight == 0 && c.held == 0):
		c.loop, c.dead = nil, true // nobody writes any more
		l.ready.Remove(c.id)
	case over || c.leaving:
		c.leaveLoop()
	default:
		if c.more {
			l.ready.Requeue(c.id)
		}
		c.turning = false
		c.mu.Unlock()
		return true
	}
	c.mu.Unlock()
	l.pool.looping.Go(rest)
	return true
}

// touch takes over which servers have something to be flushed.
func (l *loop) touch(c *client) {
	for i, n := range c.touched {
		if !slices.Contains(l.touched, n) {
			l.touched = append(l.touched, n)
		}
		c.touched[i] = nil
	}
	c.touched = c.touched[:0]
}

// turn reads once what has come, and begins to carry it out. It reports whether it is
// the last.
func (c *client) turn(buf []byte) (over bool) {
	lent := c.from == c.to
	if lent {
		c.buf, c.from, c.to = buf, 0, 0
	}
	if !c.makeSpace() {
		return true
	}
	n, err := c.conn.Read(c.buf[c.to:])
	switch {
	case err == nil:
		c.to += n
		c.count(n)
		c.more = c.to == len(c.buf) || c.last
		over = !c.process() || c.pool.isDraining()
	case errors.Is(err, socket.ErrWouldBlock):
		c.more = false
		over = c.pool.isDraining()
	default:
		over, c.why = true, err
	}
	if lent || c.from == c.to {
		over = !c.keep(buf, over) || over
	}
	if c.scanner.need > longCommand {
		c.mu.Lock()
		c.leaving = true
		c.mu.Unlock()
	}
	return over
}

// count notes that n bytes came.
func (c *client) count(n int) {
	c.pool.bytesIn.Add(uint64(n)) //nolint:gosec // not negative
	if c.pool.opts.IdleTimeout > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
}

// keep returns buf to its owner. If there is no room for the beginning of a command, the client refuses
// that command. keep reports false when the client has to end then.
func (c *client) keep(buf []byte, over bool) bool {
	rest := c.buf[c.from:c.to]
	switch {
	case len(rest) == 0 || over:
		c.buf, c.from, c.to = nil, 0, 0
		return c.has.Hold(0)
	case &c.buf[0] == &buf[0]:
		size := max(firstBuffer, 2*len(rest))
		if !c.has.Hold(size) {
			return c.dropRequest()
		}
		c.buf = make([]byte, size)
		c.from, c.to = 0, copy(c.buf, rest)
	}
	return true
}

// readLoop reads a client in a goroutine of its own.
func (c *client) readLoop() {
	for c.read() {
	}
	c.end()
}

// yieldLead has another goroutine lead the loop, and the one that reads this client be
// its own for good.
func (c *client) yieldLead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.loop; p != nil {
		c.leaveLoop()
		p.pool.looping.Go(p.lead)
	}
}

// leaveLoop takes a client out of its loop. The caller holds mu, and the right to read;
// a goroutine of the client's own goes on.
func (c *client) leaveLoop() {
	for c.writing && c.rest == nil {
		c.await() // for the writer, which doesn't block
	}
	c.loop.ready.Remove(c.id)
	c.loop, c.turning = nil, false
	if _, err := c.conn.Attach(); err != nil {
		c.kill()
	}
	if c.rest != nil {
		c.pool.serving.Go(c.writeSlowly)
	}
}
