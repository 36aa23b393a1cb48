package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/socket"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/proxy/budget"
	"github.com/redoubt-go/redoubt/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/proxy/latency"
	"github.com/redoubt-go/redoubt/resp"
)

// A session serves one client. Its goroutine reads commands, in order, and
// sends each on its way; replies come back through the output.
type session struct {
	srv    *Server
	id     uint64
	conn   *socket.Conn
	out    output
	ctx    context.Context //nolint:containedctx // the life of the connection
	cancel context.CancelCauseFunc
	born   time.Time

	// Of the goroutine that reads.
	buf       []byte
	from, to  int
	has       budget.Part // of buf, while it is the session's own
	scanner   resp.CommandScanner
	sampler   hotkeys.Sampler
	next      uint64 // the tag of the next command
	protocol  resp.Protocol
	authed    bool
	replies   replyMode
	muted     bool // the command at hand gets no reply
	quit      bool // close after the replies so far
	broken    bool // the client has broken the protocol
	upstream  *proxy.Upstream
	control   *proxy.Upstream // it has something of this client's to send
	dedicated *proxy.Dedicated
	scripted  uint64 // on a dedicated connection: no reply yet to the script with tag scripted-1
	apart     uint64 // a command with a lower tag went apart, and may not have its reply; 0: none
	heavy     bool   // the replies to the client are large
	lost      bool   // the client went while a command waited for its turn: nothing more is sent
	elsewhere bool   // another database than the back end's own is selected; settle before reading it
	tx        transaction
	queueHeld budget.Part // of tx, in front of a pool
	capture   *[]byte     // replies made here go there instead
	scratch   []byte
	commands  [kinds]uint64 // not yet in traffic
	local     local
	filled    bool // the last read took all that there was room for
	readAt    latency.Time
	presence
	pooled

	// span is commands that pass through: they lie one behind the other in buf,
	// or have been run here.
	span struct {
		from, to int
		tag      uint64
		n        int
		apart    bool
	}

	// Of everybody.
	share    budget.Share
	traffic  traffic
	active   atomic.Int64  // when the last command came or the last wait ended, Unix ms
	sent     atomic.Uint64 // next, as others may see it
	draining atomic.Bool
	killed   atomic.Bool // nothing more is to be run
	detached atomic.Bool // the dedicated connection is closed on purpose
	hanging  atomic.Bool // a command that waits on the back end is to be ended: see hangUp
	own      atomic.Pointer[proxy.Dedicated]
	waiting  atomic.Pointer[waiting]     // nil: no handler waits
	command  atomic.Pointer[acl.Command] // the last, as far as it is known; see note
	tracked  atomic.Pointer[tracked]     // nil: CLIENT TRACKING is off; settle before reading it
	inbox    inbox
	waited   bool       // at the last tick, whose it is
	mu       sync.Mutex // guards what CLIENT LIST shows
	about
}

// about is what CLIENT LIST shows of a session.
type about struct {
	name, libName, libVer string
	user                  *acl.User // nil: nobody, so far
	behind                string    // the user of the back end that the client is; empty: Redoubt's own
	shownDB               int
	shownProtocol         resp.Protocol
	inTransaction         bool
	queued, queuedBytes   int  // commands in the transaction
	noEvict               bool // CLIENT NO-EVICT
	readonly              bool // READONLY
	watches               bool // keys on the client's own connection, as far as is known here
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
	c := &session{srv: s, id: s.lastID.Add(1), born: time.Now(), protocol: resp.RESP2}
	c.upstream, c.pool = s.upstreams[0].get(), s.pool.Load()
	if c.pool != nil {
		c.slots = c.pool.Slots()
	}
	c.shownProtocol, c.shownDB = resp.RESP2, s.opts.Backend.Database()
	c.scanner.Limits = s.opts.Limits
	c.enter()
	c.connect(conn)
	c.out.client = conn.RemoteAddr()
	c.out.conn, c.out.timeout, c.out.max, c.out.traffic = c.conn, s.opts.WriteTimeout, s.opts.MaxOutput, &c.traffic
	c.out.onPanic, c.out.onLost, c.out.onSlow = c.panicked, s.takeBack, c.slow
	if pool := s.pool.Load(); pool != nil && (c.slots != nil || len(pool.Nodes()) > 1) {
		c.out.holder = &s.holder
	}
	if s.inPool() {
		c.out.to = &s.stats.latency[c.id%latencyShards]
	}
	c.share.Join(s.opts.Budget, c.shed)
	c.has.Of(&c.share)
	c.out.share.Of(&c.share)
	c.queueHeld.Of(&c.share)
	c.out.init()
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.openLocal(c.conn)
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
		if bare, err := socket.Bare(conn); err == nil {
			c.conn, c.poller = bare, c.srv.pollers[c.id%uint64(len(c.srv.pollers))]
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
	c.countEnd(err)
	c.finish(err)
	c.cancel(err)
	// The client first: it gets no error for what its end ends.
	c.out.fail(cmp.Or(err, errGone))
	c.undedicate()
	c.closeInbox()
	c.closeLocal()
}

func (c *session) loop() error {
	for {
		c.sent.Store(c.next + 1) // not idle while a command runs here
		ok := c.process()
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
	c.sendSpan()
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
	if gone && c.dedicated != nil {
		// It may have closed only its sending side. But what occupies a
		// connection of its own, like BLPOP, ends with the client.
		patience = 100 * time.Millisecond
	}
	deadline := time.Now().Add(patience)
	if errors.Is(err, ErrClosed) {
		deadline = time.Time{} // Shutdown's ctx bounds it
	}
	c.flush()
	c.out.end(c.next)
	if errors.Is(err, ErrClosed) {
		c.hangUp()
	}
	c.out.await(deadline, func() bool {
		return (c.out.head.Load() == c.next || c.out.hungUp) && len(c.out.buf) == 0 && !c.out.writing
	})
}

// process handles the complete commands in the buffer. It reports false when
// the session is to end.
func (c *session) process() bool {
	for c.from < c.to && !c.killed.Load() {
		n, err := c.scanner.Next(c.buf[c.from:c.to])
		if err != nil {
			c.sendSpan()
			c.broke()
			c.fail("ERR " + err.Error())
			return false
		}
		if n == 0 {
			break
		}
		args := c.scanner.Args()
		if len(args) == 0 {
			c.sendSpan()
			c.from += n
			continue
		}
		if !c.reserve() {
			return false
		}
		if c.from+n == c.to { // who asks about the client meanwhile sees the last
			c.note(args)
		}
		c.dispatch(args, c.buf[c.from:c.from+n])
		c.from += n
		if c.quit {
			return false
		}
	}
	return true
}

// reserve makes room for one more reply, and waits for it when as many are in
// flight as may be. There may be fewer where replies are large: the server behind
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
			c.leave()
			c.sendSpan()
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
	c.leave() // it would have to wait again and again
	c.sendSpan()
	c.flush()
	// Down to half, so that the next commands leave together again.
	low := most / 2
	return c.awaitReplies(func() bool { return c.next-c.out.head.Load() <= low })
}

// relax waits until the client has taken half of what waits for it.
func (c *session) relax() bool {
	return c.out.await(noDeadline, func() bool { return len(c.out.buf) <= c.out.max/2 })
}

// settle waits until every command so far has its reply.
func (c *session) settle() bool {
	c.sendSpan()
	if c.out.head.Load() == c.next {
		return true
	}
	c.stepAside()
	c.flush()
	return c.awaitReplies(func() bool { return c.out.head.Load() == c.next })
}

// awaitReplies waits until there are enough replies. It reports false when the client is gone, or
// the server ends and an earlier command waits on the back end.
func (c *session) awaitReplies(enough func() bool) bool {
	if !c.out.await(noDeadline, func() bool { return enough() || c.draining.Load() }) {
		return false
	}
	if !enough() {
		c.hangUp()
		c.quit = !c.out.await(noDeadline, func() bool { return enough() || c.out.hungUp }) || !enough()
		return !c.quit
	}
	return true
}

// flush sends what waits to be sent, in both directions.
func (c *session) flush() {
	c.out.asked.Store(c.next)
	c.out.askedAt(c.next, c.readAt)
	if c.control != nil {
		c.control.Flush()
		c.control = nil
	}
	switch {
	case c.dedicated != nil:
		c.dedicated.Flush()
	case c.srv.inPool():
		c.flushNodes()
	case !c.here():
		c.upstream.Flush()
	}
	c.out.Flush()
}

// sendSpan sends the commands that pass through and have not been sent yet.
func (c *session) sendSpan() {
	if c.span.n == 0 {
		return
	}
	n := c.span.n
	c.span.n = 0
	if c.here() {
		c.deliver(c.span.tag, n)
		return
	}
	commands := c.buf[c.span.from:c.span.to]
	var err error
	if c.dedicated != nil {
		err = c.dedicated.Send(c.span.tag, n, commands)
	} else {
		err = c.send(c.span.tag, c.span.apart, &c.out, c.span.tag, n, commands)
	}
	if err != nil {
		for i := range n {
			c.unreachable(c.span.tag+uint64(i), err) //nolint:gosec // positive
		}
	}
}

// unreachable answers a command that could not be sent.
func (c *session) unreachable(tag uint64, cause error) {
	c.srv.stats.backendErrors.Add(1)
	name := c.srv.opts.Backend.Name()
	if c.srv.inPool() && c.upstream != nil {
		name = c.upstream.Name()
	}
	c.out.Reply(tag, proxy.UnreachableReply(name, cause))
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

// Reply, Flush and Push are the output's; a dedicated connection calls them.

// Reply implements proxy.Listener.
func (c *session) Reply(tag uint64, raw []byte) bool { return c.out.Reply(tag, raw) }

// Count implements proxy.Counted.
func (c *session) Count(n int) bool { return c.out.Count(n) }

// Account implements proxy.Accountant.
func (c *session) Account() (hold func(bytes int) bool) {
	part := new(budget.Part)
	part.Of(&c.share)
	return part.Hold
}

// Flush implements proxy.Listener.
func (c *session) Flush() { c.out.Flush() }

// Push implements proxy.Listener.
func (c *session) Push(raw []byte) bool {
	if bytes.HasPrefix(raw, redirBroken) {
		raw = c.withOwnID(raw)
	}
	return c.out.Push(raw)
}

// Gone implements proxy.Listener. The state that the connection held is lost,
// so the client is closed, once it has the replies to what was in flight.
func (c *session) Gone(err error) {
	if c.detached.Load() || c.ctx.Err() != nil {
		return
	}
	c.srv.opts.Logger.Warn("a client's own connection to the back end was lost", "client", c.id, "error", err)
	c.drain(errUnheard)
}

func (c *session) panicked(v any) { c.srv.panicked(v, "client", c.id) }

// kill ends the session from outside.
func (c *session) kill(cause error) {
	c.killed.Store(true)
	c.cancel(cause)
	c.out.fail(cause)
	if d := c.own.Load(); d != nil {
		d.Close() // the session may be sending, to a back end that takes nothing
	}
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

// listening reports whether messages may come unasked.
func (c *session) listening() bool {
	if s := c.subscribed.Load(); s != nil && s.total.Load() > 0 {
		return true
	}
	d := c.own.Load()
	return d != nil && (c.tracked.Load() != nil || d.Listening()) || c.inbox.conn.Load() != nil
}

// closeIfIdle is called at every tick. A client that waits is not idle: once it
// has what it waited for, the time begins anew.
func (c *session) closeIfIdle(now time.Time) {
	waits := c.listening() || c.out.head.Load() != c.sent.Load() || c.out.busy()
	if waits || c.waited {
		c.waited = waits
		c.active.Store(now.UnixMilli())
		return
	}
	if idle := time.Duration(now.UnixMilli()-c.active.Load()) * time.Millisecond; idle >= c.srv.opts.IdleTimeout {
		c.srv.stats.idleClosed.Add(1)
		c.kill(errors.New("idle for too long"))
	}
}
