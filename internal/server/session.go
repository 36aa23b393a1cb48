package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A session serves one client. Its goroutine reads commands, in order, and
// sends each on its way; replies come back through the output.
type session struct {
	srv    *Server
	id     uint64
	conn   *socket.Conn
	ctx    context.Context //nolint:containedctx // the life of the connection
	cancel context.CancelCauseFunc
	born   time.Time

	// Of the goroutine that reads.
	buf      []byte
	from, to int
	has      budget.Part // of buf, while it is the session's own
	words    budget.Part // of scanner
	scanner  resp.CommandScanner
	authed   bool
	replies  replyMode
	quit     bool // close after the replies so far
	broken   bool // the client has broken the protocol
	heavy    bool // the replies to the client are large
	rights   rights
	route    route // never changes
	tx       transaction
	// queuedBytes is what tx keeps here until EXEC: answers, and in a pool commands.
	queuedBytes budget.Part
	filled      bool // the last read took all that there was room for
	known       knownKeys
	responder
	tally
	presence

	// Other goroutines use these fields too.
	share        budget.Share
	traffic      traffic
	active       atomic.Int64  // when the last command came or the last wait ended, Unix ms
	sent         atomic.Uint64 // next, as others may see it
	draining     atomic.Bool
	retirement   retirement
	killed       atomic.Bool                        // nothing more is to be run
	asking       atomic.Pointer[context.CancelFunc] // ends what the session waits for itself
	waiting      atomic.Pointer[waiting]            // nil: no handler waits
	scriptLimits scriptLimits
	counter      counter                     // nil: commands are counted, and held back, elsewhere
	command      atomic.Pointer[acl.Command] // the last, as far as it is known; see note
	marker       atomic.Pointer[string]      // of a queue, that the last command that blocks waits for
	waited       bool                        // at the last tick, whose it is
	info         sharedInfo
}

type replyMode uint8

const (
	repliesOn replyMode = iota
	repliesOff
	skipNext // from CLIENT REPLY SKIP until the next command
)

const (
	firstRead = 8 << 10
	maxRead   = 64 << 10 // a buffer for many small commands
)

func newSession(s *Server, conn net.Conn) *session {
	c := &session{srv: s, id: s.lastID.Add(1), born: time.Now(), responder: responder{protocol: resp.RESP2}}
	c.info.info = clientInfo{protocol: resp.RESP2, database: s.target.database()}
	c.scanner.Limits = s.opts.Limits
	c.scriptLimits.note = func(u *acl.User, d *acl.Denial) {
		noteDenial(c, d.Reason, "lua", d.Object, u.Name(), input{})
	}
	c.enter()
	c.connect(conn)
	c.out.client = conn.RemoteAddr()
	c.out.conn, c.out.timeout, c.out.max, c.out.traffic = c.conn, s.opts.WriteTimeout, s.opts.MaxOutput, &c.traffic
	c.out.onPanic, c.out.onLost, c.out.onSlow = c.panicked, s.takeBack, c.slow
	c.share.Join(s.opts.Budget, c.shed)
	c.has.Of(&c.share)
	c.words.Of(&c.share)
	c.queuedBytes.Of(&c.share)
	c.out.share.Of(&c.share)
	c.out.to = &s.stats.latency[c.id%latencyShards]
	c.out.init()
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.route = s.target.open(c, c.conn)
	c.carrier = c.route
	c.active.Store(s.clock.Load())
	return c
}

const sessionSize = unsafe.Sizeof(session{})

var past = time.Unix(1, 0)

var errGone = errors.New("the client closed the connection")

// connect gives the session its connection, as a poller needs it or as a
// goroutine of its own does.
func (c *session) connect(conn net.Conn) {
	if len(c.srv.pollers) > 0 {
		if detached, err := socket.Detach(conn); err == nil {
			c.conn, c.poller = detached, c.srv.pollers[c.id%uint64(len(c.srv.pollers))]
			c.out.unable = true
			return
		}
	}
	c.conn, c.buf = socket.New(conn), make([]byte, firstRead)
}

// serve reads commands until the client or the server ends it.
func (c *session) serve() {
	c.close(c.loop())
}

func (c *session) close(err error) {
	c.srv.stats.countEnd(err, c.broken)
	c.finish(err)
	c.cancel(err)
	// The client first: it gets no error for what its end ends.
	c.out.fail(cmp.Or(err, errGone))
	c.route.close()
}

func (c *session) loop() error {
	for {
		c.sent.Store(c.next + 1) // not idle while a command runs here
		before := c.next
		ok := c.process()
		if ok && c.next != before && c.retirement.possible(c) {
			if c.retirement.run(c) {
				return ErrClosed
			}
			if c.from != c.to {
				c.answer()
				continue
			}
		}
		c.answer()
		switch {
		case !ok, c.quit:
			return nil
		case c.draining.Load():
			return ErrClosed
		case c.out.crowded() && !c.relax():
			return errGone
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

// answer lets the replies so far leave.
func (c *session) answer() {
	if !c.srv.target.remote() {
		latency.Now() // no other goroutine reads the clock when the replies are there
	}
	c.leave()
}

// leave is answer for a caller that has just read the clock.
func (c *session) leave() {
	c.flush()
	c.count()
}

// finish lets the client have the replies that it still waits for.
func (c *session) finish(err error) {
	patience := c.srv.opts.WriteTimeout
	gone := !errors.Is(err, ErrClosed) && err != nil
	if gone && !errors.Is(err, io.EOF) {
		return
	}
	occupies := gone && c.carrier.occupies()
	if occupies {
		// It may have closed only its sending side. But what occupies a
		// connection of its own ends with the client.
		patience = 100 * time.Millisecond
	}
	deadline := time.Now().Add(patience)
	if errors.Is(err, ErrClosed) {
		deadline = time.Time{} // Shutdown's ctx bounds it
	}
	c.flush()
	c.out.end(c.next)
	if errors.Is(err, ErrClosed) {
		c.carrier.hangUp(noDeadline)
	}
	over := func() bool {
		return (c.out.head.Load() == c.next || c.out.hungUp) && len(c.out.buf) == 0 && !c.out.writing
	}
	waits := false
	if occupies && c.out.await(deadline, func() bool {
		waits = c.out.head.Load() != c.next && c.out.slot(c.out.head.Load()).blocks
		return waits || over()
	}) && waits {
		// A command that waits, like BLPOP, takes nothing any more for a client that is gone. But it may not wait, and its
		// reply be on the way. The back end knows: a wait ends there.
		deadline = time.Now().Add(c.srv.opts.WriteTimeout)
		c.carrier.hangUp(deadline)
	}
	c.out.await(deadline, over)
}

// process handles the complete commands in the buffer. It reports false when
// the session is to end.
func (c *session) process() bool {
	for c.from < c.to && !c.killed.Load() {
		n, err := c.scanner.Next(c.buf[c.from:c.to])
		if err != nil {
			c.broke()
			c.fail("ERR " + err.Error())
			return false
		}
		if n == 0 {
			break
		}
		args := c.scanner.Args()
		if len(args) == 0 {
			c.from += n
			continue
		}
		if !c.reserve() {
			return false
		}
		if c.from+n == c.to { // who asks about the client meanwhile sees the last
			c.note(args)
		}
		if c.counter != nil {
			c.tx.writes = c.tx.writes || c.tx.active && mayWrite(c, args)
			if c.counter.Holds() && !awaitPause(c, args) {
				return false
			}
		}
		c.carrier.dispatch(args, c.buf[c.from:c.from+n])
		c.from += n
		if c.quit {
			return false
		}
	}
	return true
}

// reserve makes room for one more reply, and waits for it when as many are in
// flight as may be. There may be fewer where replies are large: the back end
// holds them, and others wait behind them. There may be fewer at first, until their
// size is known.
func (c *session) reserve() bool {
	head := c.out.head.Load()
	inFlight := c.next - head
	most := min(uint64(c.srv.opts.MaxPipeline), max(firstPipeline, 2*head)) //nolint:gosec // positive
	typical := c.out.typical.Load()
	c.heavy = typical > largeReply
	if typical > smallReply {
		if c.out.crowded() {
			c.leavePoller()
			c.flush()
			if !c.relax() {
				return false
			}
		}
		most = min(most, uint64(max(1, min(int64(c.srv.opts.MaxOutput), largeInFlight)/typical))) //nolint:gosec // positive
	}
	if inFlight < most {
		if inFlight == uint64(len(c.out.slots)) {
			c.out.grow(c.next)
		}
		return true
	}
	c.leavePoller() // it would have to wait again and again
	// Down to half, so that the next commands leave together again.
	return c.awaitReplies(c.next - most/2)
}

// relax waits until the client has taken half of what waits for it.
func (c *session) relax() bool {
	return c.out.await(noDeadline, func() bool { return len(c.out.buf) <= c.out.max/2 })
}

// settle waits until every command so far has its reply.
func (c *session) settle() bool { return c.awaitReplies(c.next) }

// awaitReplies waits until every command before a tag has its reply. All commands leave first. It
// reports false when the client is gone, or the server ends and an earlier command waits on the back
// end.
func (c *session) awaitReplies(before uint64) bool {
	c.carrier.sendSpan()
	if c.out.head.Load() >= before {
		return true
	}
	c.yieldLead()
	c.flush()
	enough := func() bool { return c.out.head.Load() >= before }
	if !c.out.await(noDeadline, func() bool { return enough() || c.draining.Load() }) {
		return false
	}
	if !enough() {
		c.carrier.hangUp(noDeadline)
		c.quit = !c.out.await(noDeadline, func() bool { return enough() || c.out.hungUp }) || !enough()
		return !c.quit
	}
	return true
}

// catchUp waits until every command so far has its reply, and lets these leave, before what may take
// long. It reports false when the client is gone.
func (c *session) catchUp() bool {
	if !c.settle() {
		return false
	}
	c.out.Flush()
	return true
}

// quiesce is catchUp before what holds a connection or leaves state in it: the session leaves its
// poller first.
func (c *session) quiesce() bool {
	c.leavePoller()
	return c.catchUp()
}

// flush sends what waits to be sent, in both directions.
func (c *session) flush() {
	c.out.asked.Store(c.next)
	c.out.askedAt(c.next, c.readAt, familyRedis)
	c.carrier.flush()
	c.out.Flush()
}

// unreachable answers a command that could not be sent to the back end of this name.
func (c *session) unreachable(tag uint64, name string, cause error) {
	c.srv.stats.backendErrors.Add(1)
	c.out.Reply(tag, proxy.Unreachable(name, cause).Reply())
}

// count lets others see what was counted.
func (c *session) count() {
	c.sent.Store(c.next)
	for k, n := range c.commands {
		if n > 0 {
			c.traffic.commands[k].Add(n)
			c.commands[k] = 0
		}
	}
}

// account counts memory of the session: see [proxy.Accountant].
func (c *session) account() (hold func(bytes int) bool) {
	part := new(budget.Part)
	part.Of(&c.share)
	return part.Hold
}

// lostConnection ends the session because a connection was lost that held state of the client's. The
// client gets the replies to what was in flight first.
func (c *session) lostConnection(err error) {
	if c.ctx.Err() != nil {
		return
	}
	c.srv.opts.Logger.Warn("a client's own connection to the back end was lost", "client", c.id, "error", err)
	c.drain(errMessagesLost)
}

func (c *session) panicked(v any) { c.srv.panicked(v, "client", c.id) }

// kill ends the session from outside.
func (c *session) kill(cause error) {
	c.killed.Store(true)
	c.cancel(cause)
	c.out.fail(cause)
	c.route.kill()
	if cancel := c.asking.Load(); cancel != nil {
		(*cancel)()
	}
}

// drain makes the session end, for that cause, once the client has its replies.
func (c *session) drain(cause error) {
	c.draining.Store(true)
	c.cancel(cause)
	_ = c.conn.SetReadDeadline(past)
	c.out.wake()
}

// gone reports whether the session is ending.
func (c *session) gone() bool { return c.ctx.Err() != nil }

// closeIfIdle is called at every tick, and closes a client that has been idle for most, not counting the time before
// since. A client that waits is not idle: once it has what it waited for, the time begins anew.
func (c *session) closeIfIdle(now, since time.Time, most time.Duration) {
	waits := c.route.holdings().listening() || c.out.head.Load() != c.sent.Load() || c.out.busy()
	if waits || c.waited {
		c.waited = waits
		c.active.Store(now.UnixMilli())
		return
	}
	if idle := time.Duration(now.UnixMilli()-max(c.active.Load(), since.UnixMilli())) * time.Millisecond; idle >= most {
		c.srv.stats.idleClosed.Add(1)
		c.kill(errors.New("idle for too long"))
	}
}

// broke notes that the client has broken the protocol.
func (c *session) broke() {
	c.srv.stats.protocolErrors.Add(1)
	c.broken = true
}
