package server

import (
	"errors"
	"hash/maphash"
	"net"
	"runtime"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A poller serves clients on Linux, in front of an engine in this process and of a pool. One goroutine,
// the leader, waits for all clients, runs the commands of each in turn, and then writes the replies. In
// front of a pool it sends the commands to the servers together. The goroutines that read the servers
// write the replies.
//
// Other clients have a goroutine each, as is usual in Go. That costs a switch of goroutines and a read
// that finds nothing for most commands. Each reply is written before the next command is read, so client
// and server wake each other all the time. Together this is a fifth of the processor time of short
// commands. The kernel takes most of the rest.
//
// One client must not hold up the others:
//
//   - A command that may wait, or writes much, first yields the lead to another goroutine: see
//     yieldLead. The rest of the turn runs beside that goroutine, and then the client returns.
//   - A turn that takes longer than a tick of the watchdog loses the lead too. Its command
//     yields the lead the next time.
//   - A client that needs more than its turn gets a goroutine of its own for good: see leavePoller. Such
//     a client subscribes, waits for a lock, or takes its replies slowly.
type poller struct {
	srv    *Server
	remote bool // commands go to servers; the goroutines that read these write the replies
	ready  *socket.ReadyQueue[*session]

	// role says which goroutine leads. It is odd during a turn, and while replies
	// are written. The lead can be lost only then: adding one ends the turn. If
	// another goroutine than the leader adds it, another one leads from now on.
	role atomic.Uint64

	// Of the leader.
	answered []*session        // their turn is over, and their replies have not left
	commands int               // whose replies these are
	spare    []*session        // for answered
	touched  []*proxy.Upstream // for answer
	at       latency.Time      // when the clients sent the commands of these turns

	guarded atomic.Uint64                  // commands that may take long
	watched struct{ role, guarded uint64 } // at the watchdog's last tick, whose it is

	slow slowCommands
}

// A presence is what a session has in a poller.
type presence struct {
	poller *poller     // nil: the session has a goroutine of its own
	turn   uint64      // the poller's role in a turn that began with the lead, or 0
	left   bool        // it goes on in a goroutine of its own when the turn is over
	slowly atomic.Bool // it has to leave: see leavePollerSoon
	more   bool        // the last turn did not take all
	// unanswered is how many commands of the last turn have replies that wait for [session.answer].
	unanswered int
	last       bool // the client sends no more than what is there
	state      atomic.Uint32
}

// The states of a session in a poller. The goroutine that makes it run owns it until it rests.
const (
	resting uint32 = iota
	running
	runningAgain // something has come meanwhile
)

// begin reports whether the caller owns the session now. If not, its owner is
// told that something has come.
func (p *presence) begin() bool {
	for {
		if p.state.CompareAndSwap(resting, running) {
			return true
		}
		if p.state.CompareAndSwap(running, runningAgain) || p.state.Load() == runningAgain {
			return false
		}
	}
}

// startPollers starts pollers where the target and the system have them.
func (s *Server) startPollers() {
	if !s.target.polled() {
		return
	}
	// One does as much as one Redis. A second for two cores gained nothing beside
	// clients on the same machine, and made the batches of both smaller.
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		ready, err := socket.NewReadyQueue[*session]()
		if err != nil {
			break
		}
		s.pollers = append(s.pollers, &poller{srv: s, remote: s.target.remote(), ready: ready, slow: slowCommands{seed: maphash.MakeSeed()}})
	}
	if len(s.pollers) == 0 {
		return
	}
	for _, p := range s.pollers {
		s.leaders.Go(p.lead)
	}
	s.watchdog.call, s.unwatch = make(chan struct{}, 1), make(chan struct{})
	s.leaders.Go(s.watch)
}

// endPollers ends them, after their last session.
func (s *Server) endPollers() {
	s.ended.Do(func() {
		for _, p := range s.pollers {
			_ = p.ready.Close()
		}
		if s.unwatch != nil {
			close(s.unwatch)
		}
	})
	s.leaders.Wait()
}

// add begins to serve a session.
func (p *poller) add(c *session) error {
	c.poller = p
	return p.ready.Add(c.id, c, c.conn)
}

// lead is the leader. It returns when it has lost the lead, or the poll is closed.
func (p *poller) lead() {
	buf := make([]byte, turnRead)
	if !p.answer() { // what the last leader left: it doesn't wait for the turns to come
		return
	}
	for {
		for c := p.next(); c != nil; c = p.next() {
			if !p.run(c, buf) {
				return
			}
			if (len(p.answered) == maxTurns || p.commands >= maxCommands) && !p.answer() {
				return
			}
		}
		if !p.answer() || !p.wait() {
			return
		}
	}
}

// A reply waits for this many turns, and commands in them.
const (
	maxTurns    = 64
	maxCommands = 256
)

// next returns the session whose turn it is, which the caller owns, or nil
// after the last.
func (p *poller) next() *session {
	for t, ok := p.ready.Next(); ok; t, ok = p.ready.Next() {
		switch c := t.Client; {
		case !c.begin():
		case t.Requeued && !c.more:
			p.rest(c, nil) // it has had another turn since
		default:
			c.last = c.last || t.Last
			return c
		}
	}
	return nil
}

// wait waits for the next turns. It reports false at the end.
func (p *poller) wait() bool {
	if p.ready.Backlogged() && p.remote {
		runtime.Gosched() // to the goroutines that read the servers
	}
	err := p.ready.Wait()
	p.at = latency.Now()
	return err == nil
}

// run is the turn of a session, with the lead. It reports whether the caller
// leads still.
func (p *poller) run(c *session, buf []byte) (leads bool) {
	c.readAt = p.at // which is another leader's once the turn has begun
	turn := p.role.Add(1)
	c.turn = turn
	over, err := p.takeTurn(c, buf, c.last)
	c.turn = 0
	leads = p.role.CompareAndSwap(turn, turn+1)
	switch {
	case over && leads:
		p.srv.leaders.Go(func() { p.end(c, err) }) // which may wait
	case over:
		p.end(c, err)
	case leads:
		p.answered = append(p.answered, c)
		p.commands += c.unanswered
		if c.more {
			p.ready.Requeue(c.id)
		}
	default:
		c.answer()
		p.rest(c, buf)
	}
	return leads
}

// take makes another goroutine lead, unless the turn has ended. It reports
// whether it did.
func (p *poller) take(turn uint64) (taken bool) {
	if taken = p.role.CompareAndSwap(turn, turn+1); taken {
		p.srv.leaders.Go(p.lead)
	}
	return taken
}

// answer lets the replies to all turns so far leave: together, so that a client
// is not woken for each. Replies that must be on disk first wait for that
// elsewhere, also together. It is like a turn: it reports whether the caller
// leads still.
func (p *poller) answer() (leads bool) {
	if len(p.answered) == 0 {
		return true
	}
	// Another may lead before the end: from here on what was gathered is ours alone.
	batch, touched := p.answered, p.touched
	p.answered, p.spare, p.touched, p.commands = p.spare, nil, nil, 0
	turn := p.role.Add(1)
	var unsaved []*session
	if !p.remote {
		latency.Now()
	}
	for i, c := range batch {
		batch[i] = nil
		var ready bool
		if touched, ready = c.route.gather(touched); !ready {
			unsaved = append(unsaved, c)
			continue
		}
		c.leave()
		p.rest(c, nil)
	}
	for _, u := range touched {
		u.FlushNow()
	}
	clear(touched)
	if len(unsaved) > 0 {
		p.srv.leaders.Go(func() {
			for _, c := range unsaved {
				c.answer()
				p.rest(c, nil)
			}
		})
	}
	if !p.role.CompareAndSwap(turn, turn+1) {
		return false
	}
	p.spare, p.touched = batch[:0], touched[:0]
	return true
}

// rest ends the ownership of a session. If commands have come meanwhile it runs
// them, in this goroutine if buf is set.
func (p *poller) rest(c *session, buf []byte) {
	for {
		if c.slowly.Load() {
			c.leavePoller()
		}
		switch {
		case c.quit:
			p.end(c, nil)
			return
		case c.left:
			p.serveAlone(c)
			return
		case buf != nil && c.more:
		case c.state.CompareAndSwap(running, resting):
			return
		case buf == nil:
			p.srv.leaders.Go(func() { p.rest(c, make([]byte, turnRead)) })
			return
		}
		c.state.Store(running)
		c.readItNow()
		if over, err := p.takeTurn(c, buf, true); over {
			p.end(c, err)
			return
		}
		c.answer()
	}
}

// turnRead is how much is read in one turn.
const turnRead = 16 << 10

// takeTurn runs the commands that have come, and leaves the replies to answer. It
// reports whether the session is over, and why. With all, the end of the connection
// may follow the commands.
func (p *poller) takeTurn(c *session, buf []byte, all bool) (over bool, err error) {
	c.more = false
	if c.killed.Load() {
		return true, errGone
	}
	lent := c.from == c.to
	switch {
	case lent:
		c.buf, c.from, c.to = buf, 0, 0
	case c.to-c.from >= maxRead:
		c.yieldLead() // a large command, which will be copied
	}
	switch err = c.read(); {
	case err == nil:
		c.sent.Store(c.next + 1) // not idle
		if c.retirement.begun.Load() {
			c.leavePoller() // loop runs what was read, and may wait for the client
			break
		}
		over, c.more = !c.process() || c.quit, c.filled || all
		if !over && c.draining.Load() {
			over, err = true, ErrClosed
		}
	case errors.Is(err, socket.ErrWouldBlock):
		err = nil
	default:
		over = true
	}
	c.unanswered = c.carrier.endTurn()
	if lent || c.from == c.to {
		keep(c, buf)
	}
	return over, err
}

// keep returns buf to its owner. The session gets a copy of the unread bytes.
func keep(c *session, buf []byte) {
	switch rest := c.buf[c.from:c.to]; {
	case len(rest) == 0:
		if &c.buf[0] != &buf[0] || c.scanner.Held() > maxRead {
			forgetInput(c)
			c.words.Hold(c.scanner.Held())
		}
		c.buf, c.from, c.to = nil, 0, 0
		c.has.Hold(0)
	case &c.buf[0] == &buf[0]:
		n := max(firstRead, 2*len(rest))
		if !c.has.Hold(n) {
			c.refuseRest()
			return
		}
		c.buf = make([]byte, n)
		c.from, c.to = 0, copy(c.buf, rest)
	}
}

// yieldLead gives the lead to another goroutine, because the caller may wait next,
// or take long.
func (p *presence) yieldLead() {
	if p.turn == 0 {
		return
	}
	if p.poller.take(p.turn) {
		// The next leader goes first. Another thread would take it over only
		// once it is awake, and has a processor.
		runtime.Gosched()
	}
	p.turn = 0
}

// leavePoller gives the session a goroutine of its own, which is the caller's until the turn
// is over. The connection is one of package net again. A command that waits for longer
// than the turn calls it.
func (c *session) leavePoller() {
	if c.poller == nil || c.left {
		return
	}
	c.yieldLead()
	c.left = true
	c.out.alone.Store(true)
	var conn net.Conn
	var err error
	c.out.makeAble(func() { conn, err = c.conn.Attach() })
	if err != nil {
		c.kill(err)
		return
	}
	keepAlive(conn)
	if c.draining.Load() { // which may not have met the new connection
		_ = c.conn.SetReadDeadline(past)
	}
}

// polled reports whether a poller has the session: what waits would hold up others.
func (p *presence) polled() bool { return p.poller != nil && !p.left }

// slow is called when the client doesn't take its replies at once.
func (c *session) slow() {
	if c.poller.remote {
		c.leavePollerSoon()
		return
	}
	c.leavePoller() // its owner writes
}

// leavePollerSoon has the session leave the poller once its turn is over. Any goroutine may call it.
func (c *session) leavePollerSoon() {
	c.slowly.Store(true)
	if c.begin() {
		c.srv.leaders.Go(func() { c.poller.rest(c, nil) })
	}
}

// serveAlone serves a session that has left the poller.
func (p *poller) serveAlone(c *session) {
	p.ready.Remove(c.id)
	if c.buf == nil {
		c.buf = make([]byte, firstRead)
	}
	go c.srv.serve(c)
}

// end ends a session that the poller has.
func (p *poller) end(c *session, err error) {
	p.ready.Remove(c.id)
	if p.remote && (c.out.head.Load() != c.next || c.out.busy()) {
		c.leavePoller() // others will write
	}
	c.answer()
	c.close(err)
	c.conn.Release()
	c.srv.gone(c)
}
