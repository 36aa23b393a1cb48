package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A ReplyHandler gets the replies to the commands that it sent. Its methods are
// called from the goroutine that reads the connection, or from the one that
// sends, and must not block.
type ReplyHandler interface {
	// Reply takes the reply to the command with this tag. The bytes are valid
	// only during the call. It reports whether Flush is to be called once the
	// replies that arrived together have been handed out.
	Reply(tag uint64, raw []byte) (flush bool)
	// Flush follows the last of the replies that arrived together.
	Flush()
}

const (
	readBuffer    = 64 << 10
	maxIdleBuffer = 1 << 20 // larger buffers are given back when they are empty

	// DefaultMaxPending is how many bytes may wait to be sent on a connection
	// before Send waits.
	DefaultMaxPending = 16 << 20

	// DefaultMaxReply is the greatest length of one reply.
	DefaultMaxReply = 1 << 30
)

// A conn shared by many sends what gathers as one batch. On a short conn at
// most two batches are on their way: the back end works on one while the other
// gathers, and what comes meanwhile leaves together when one has landed. Large
// batches cost both sides less for each command. On a long conn a command would
// wait for that longer than it saves.
const (
	maxBatches    = 2
	longRoundTrip = 500 * time.Microsecond // round trip
)

// A request stands in the queue for commands that were sent together.
type request struct {
	handler ReplyHandler  // nil: nobody wants the reply
	tag     uint64        // of the first reply still to come
	n       int           // replies still to come
	expect  Expect        // what a Dedicated looks for
	retry   *redoubt.Cmd  // a script sent by its digest
	sent    time.Time     // when its time-out began, if there is one
	expired bool          // answered with an error, because its reply is late
	timeout time.Duration // 0: the conn's; negative: none
	moves   *moves        // nil: it is never sent on, or again
}

// A conn is a connection with a queue of the requests that wait for replies.
type conn struct {
	socket     *socket.Conn
	shared     bool   // by many clients
	skips      bool   // replies that are too long: they don't break it
	name       string // of the back end
	maxPending int
	maxReply   int

	mu          sync.Mutex
	congested   atomic.Bool          // see Upstream.Congested; written by the goroutine that reads
	space       sync.Cond            // pending became shorter, or err was set
	pending     []byte               // to be sent
	going       int                  // bytes that are being sent
	pendingHeld func(bytes int) bool // counts both; nil: nobody does
	spares      [][]byte             // buffers that were sent
	flushing    bool                 // somebody is sending, or yields before it sends
	waiting     int                  // in Send, for space
	queue       []request            // sent after what is in front
	appended    uint64               // entries ever appended to queue
	written     uint64               // of these, given to conn at least in part
	batches     []batch              // on their way, oldest first; not kept for a conn of one client
	shortest    time.Duration        // round trip of a batch that was alone
	err         error                // why the conn ended
	overdue     int                  // replies that are late
	requests    uint64               // commands ever appended
	traffic     Traffic              // of replies, those before the last read
	meter       latency.Meter        // of commands that have left

	timeout  time.Duration // for a reply; 0: none
	soonest  time.Duration // the shortest time-out, of entries too; 0: there is none
	health   health
	slow     *SlowLog   // may be nil
	doubt    func()     // if not nil, to be told that the server is no master
	up       *Upstream  // of a shared or isolated conn; nil: a Dedicated
	lender   *isolation // has it back after the last reply; nil: nobody
	rationed bool       // it holds a permit of the lender's ration, whose mu guards this

	node     *Node // of a cluster, whose refusals are sent on; nil: of none
	waits    bool  // commands wait for the next conn: see PoolOptions.Patience
	repeats  bool  // the commands of a request, which may be sent again
	protocol resp.Protocol

	// Of the goroutine that reads.
	front    []request // of the queue, taken out of it
	at       int       // where front is
	taken    uint64    // entries ever completed
	flush    []ReplyHandler
	resent   bool
	targets  []*Upstream // of what was sent on since the last flush
	moved    []moved     // refused, and to be sent on; with a lender only
	failedAt time.Time   // when late replies were last reported
	due      bool        // for expire
	scanner  resp.ReplyScanner
	skipping bool // the reply at hand
	skipWhy  string
	dropped  bool      // the connection, with the rest of the reply at hand
	large    uint64    // the conn is congested until as many entries are completed; 0: it is not
	largeAt  time.Time // when it became congested
	huge     bool      // the reply at hand; see isolation.huge
	listener Counted   // of a connection for it alone, or nil
	payer    Counted   // counts charged, the bytes of the read buffer beyond what the conn keeps
	charged  int
	mayDrop  func(first byte) bool // nil: any reply may be skipped

	replies, replyBytes uint64 // ever
	readAt              latency.Time
	heardAt             latency.Time // when something came before
}

func newConn(nc net.Conn, shared bool, opts config) *conn {
	l := &conn{
		socket: socket.New(nc), shared: shared, name: opts.Backend.Name(),
		maxPending: opts.MaxPending, maxReply: opts.MaxReply,
		timeout: opts.timeout, soonest: opts.soonest, health: opts.health, slow: opts.slow, doubt: opts.doubt(),
		node: opts.clustered, waits: shared && opts.patience > 0, protocol: opts.Protocol,
	}
	l.repeats = l.node != nil || l.waits
	if l.maxPending == 0 {
		l.maxPending = DefaultMaxPending
	}
	if l.maxReply == 0 {
		l.maxReply = DefaultMaxReply
	}
	l.space.L = &l.mu
	if l.soonest > 0 {
		_ = l.socket.SetReadDeadline(time.Now().Add(l.sweep()))
	}
	return l
}

// ErrBusy is returned by [Upstream.TrySend] when Send would wait.
var ErrBusy = errors.New("proxy: the send buffer is full")

// ErrConnecting is returned by [Upstream.TrySend] before the first attempt to connect is
// over. It matches [ErrBusy].
var ErrConnecting = fmt.Errorf("%w: not connected yet", ErrBusy)

// trySend is like send but never blocks.
func (l *conn) trySend(e *request, commands []byte) error {
	err := ErrBusy
	l.mu.Lock()
	if !l.full(len(commands)) {
		err = l.append(e, commands)
	}
	l.mu.Unlock() // without defer, which costs a twentieth of a small command
	return err
}

// full reports whether n more bytes exceed the send buffer. The caller holds mu.
func (l *conn) full(n int) bool {
	return l.err == nil && l.overdue == 0 && len(l.pending) > 0 && len(l.pending)+n > l.maxPending
}

// send appends commands. They leave with the next flushPending.
func (l *conn) send(e request, commands []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaitRoom(len(commands))
	return l.append(&e, commands)
}

// awaitRoom waits until the send buffer has room for n more bytes. The caller holds mu.
func (l *conn) awaitRoom(n int) {
	for l.full(n) {
		l.mu.Unlock()
		l.flushPending()
		l.mu.Lock()
		if l.err == nil && l.overdue == 0 && len(l.pending) > 0 && (l.flushing || !l.mayLeave()) {
			l.waiting++
			l.space.Wait()
			l.waiting--
		}
	}
}

// append adds commands to the send buffer. The caller holds mu.
func (l *conn) append(e *request, commands []byte) error {
	if l.err != nil {
		return l.err
	}
	if l.overdue > 0 {
		return errSilent
	}
	if l.pendingHeld != nil && !l.pendingHeld(l.going+len(l.pending)+len(commands)) {
		return errNoRoom
	}
	l.pending = append(l.pending, commands...)
	if l.repeats {
		e.keep(commands)
	}
	l.push(e)
	return nil
}

// trySendScript is like sendScript but never blocks.
func (l *conn) trySendScript(e request, c *redoubt.Cmd) error {
	e.n, e.retry = 1, c
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.full(1):
		return ErrBusy
	case l.err != nil || l.overdue > 0:
		return l.append(&e, nil) // which says why not
	}
	l.pending = AppendEvalSHA(l.pending, c)
	if l.repeats {
		e.keep(nil)
	}
	l.push(&e)
	return nil
}

// sendScript appends a script by its digest.
func (l *conn) sendScript(e request, c *redoubt.Cmd) error {
	e.n, e.retry = 1, c
	l.mu.Lock()
	if l.err == nil && l.overdue == 0 && len(l.pending) < l.maxPending {
		l.pending = AppendEvalSHA(l.pending, c)
		if l.repeats {
			e.keep(nil)
		}
		l.push(&e)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.send(e, AppendEvalSHA(nil, c))
}

func (l *conn) push(e *request) {
	if l.soonest > 0 && e.sent.IsZero() {
		e.sent = time.Now()
	}
	l.queue = append(l.queue, *e)
	l.appended++
	l.requests += uint64(e.n) //nolint:gosec // positive
}

// fail ends the conn. The caller holds mu.
func (l *conn) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	_ = l.socket.Close() // the reader goroutine ends, and answers the waiting requests
	l.space.Broadcast()
}

// close ends the conn with err, unless it has ended already.
func (l *conn) close(err error) {
	l.mu.Lock()
	l.fail(err)
	l.mu.Unlock()
}

// idle reports whether a shared conn has nothing to send or to wait for.
func (l *conn) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.batches) == 0 && len(l.pending) == 0 && len(l.queue) == 0
}

// usable reports whether the connection is not known to have ended, and no reply is late.
func (l *conn) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && l.overdue == 0
}

// errEOF is why a conn ended: the server has closed it.
var errEOF = errors.New("closed by the back end")

func (l *conn) flushHandlers() {
	for i, c := range l.flush {
		c.Flush()
		l.flush[i] = nil
	}
	l.flush = l.flush[:0]
	for i, u := range l.targets {
		u.FlushNow()
		l.targets[i] = nil
	}
	l.targets = l.targets[:0]
	if l.shared && l.landed() || l.resent {
		l.resent = false
		go l.flushPending() // sending may wait; reading must go on
	}
}

// head returns the request whose reply comes next, or nil.
func (l *conn) head() *request {
	if l.at == len(l.front) {
		clear(l.front)
		l.mu.Lock()
		l.front, l.queue = l.queue, l.front[:0]
		l.mu.Unlock()
		l.at = 0
		if len(l.front) == 0 {
			return nil
		}
	}
	return &l.front[l.at]
}

// advance completes one reply of the head.
func (l *conn) advance(e *request) {
	e.tag++
	e.n--
	if e.n == 0 {
		l.at++
		l.taken++
		if e.moves != nil {
			e.moves = nil // the front may stay for long
		}
	}
}

func (l *conn) hand(c ReplyHandler, tag uint64, raw []byte) {
	if c != nil && c.Reply(tag, raw) {
		l.flush = append(l.flush, c)
	}
}

// fault is hand for a fault in the place of a reply.
func (l *conn) fault(c ReplyHandler, tag uint64, f *Fault) {
	if fail(c, tag, f) {
		l.flush = append(l.flush, c)
	}
}

var noScript = []byte("-NOSCRIPT ")

// reply hands raw to the head of the queue, or sends a missing script again.
func (l *conn) reply(raw []byte) error {
	e := l.head()
	if e == nil {
		return errors.New("a reply that nobody asked for")
	}
	l.count(raw)
	if e.retry != nil && bytes.HasPrefix(raw, noScript) {
		cmd, again := e.retry, request{handler: e.handler, tag: e.tag, n: 1, timeout: e.timeout, moves: e.moves}
		l.advance(e)
		l.resend(cmd, again)
		return nil
	}
	switch {
	case e.moves == nil || e.expired:
	case l.node == nil:
		e.moves.done++
	default:
		var sent bool
		if raw, sent = l.redirect(e, raw); sent {
			return nil
		}
	}
	if l.doubt != nil && notMaster(raw) {
		l.doubt()
	}
	handler, tag := e.handler, e.tag
	if e.expired {
		l.caughtUp()
	}
	l.advance(e)
	if l.lender != nil {
		l.returnIsolated(raw)
	}
	l.hand(handler, tag, raw)
	return nil
}

// resend sends a script with its source. SCRIPT LOAD comes first, since servers
// evict scripts that only EVAL has brought. EVAL can't miss.
func (l *conn) resend(c *redoubt.Cmd, e request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.fault(e.handler, e.tag, Unsent(l.name))
		return
	}
	l.pending = resp.AppendCommand(l.pending, "SCRIPT", "LOAD", c.Script.Source())
	l.push(&request{n: 1})
	l.pending = AppendEval(l.pending, c)
	if e.moves != nil { // it is no retry any more, and may be redirected
		e.moves.commands, e.moves.done = AppendEval(nil, c), 0
	}
	l.push(&e)
	l.resent = true
}

// abandon answers all waiting requests after the conn has ended: some commands
// may have run, and the rest was not sent. It returns how many. With [PoolOptions].Patience, it has
// those wait for the next conn that never left or only read.
func (l *conn) abandon() (n uint64) {
	lost, unsent := Lost(l.name), Unsent(l.name)
	l.mu.Lock()
	written := l.written
	l.mu.Unlock()
	for e := l.head(); e != nil; e = l.head() {
		f, again := unsent, (*conn).sendAgain
		if l.taken < written {
			f, again = lost, (*conn).readAgain
		}
		if again(l, e) {
			continue
		}
		handler, tag := e.handler, e.tag
		l.advance(e)
		if handler != nil {
			n++
		}
		l.fault(handler, tag, f)
	}
	l.resent = false
	l.moveOn()
	l.flushHandlers()
	return n
}

func errorReply(text string) []byte { return resp.AppendError(nil, text) }

// returnIsolated returns the connection to its lender once raw is the last reply that it waits for.
// Called before the caller has the reply, which may have it ask for the next connection.
func (l *conn) returnIsolated(raw []byte) {
	l.shrunk()
	l.mu.Lock()
	over := l.taken == l.appended
	l.mu.Unlock()
	switch {
	case !over:
		return
	case l.dropped, bytes.HasPrefix(raw, protocolError): // it ends, or the server is about to close it
		_ = l.socket.Close()
	default:
		l.lender.put(l)
	}
	l.moveOn()
}

// stats fills in what the conn knows.
func (l *conn) stats(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Waiting, s.Pending = len(l.queue), len(l.pending)
	s.Queued = int(l.requests - l.traffic.Requests)            //nolint:gosec // what is appended and not sent
	s.InFlight = int(l.traffic.Requests - l.traffic.Responses) //nolint:gosec // what is sent and not answered
	for _, f := range l.batches {
		s.InFlightBytes += f.bytes
	}
	s.Traffic.Add(&l.traffic)
}

// count notes replies, so that others see them with the next [conn.landed].
func (l *conn) count(raw []byte) {
	l.replies++
	l.replyBytes += uint64(len(raw))
}

// counted lets others see what count has noted. The caller holds mu, and reads.
func (l *conn) counted() {
	l.traffic.Responses, l.traffic.ResponseBytes = l.replies, l.replyBytes
	l.meter.End(l.replies, l.readAt, func(_ uint8, d time.Duration, n uint64) { l.traffic.Latency.Observe(d, n) })
}
