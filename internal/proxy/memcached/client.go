package memcached

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/socket"
)

const (
	firstBuffer = 4 << 10  // of a client; an idle one keeps it
	idleBuffer  = 64 << 10 // larger buffers are given back when they are empty
	slowPart    = 1 << 20  // what a client must take within SlowClient
)

// A client is one connection to the pool. A [loop] reads its commands, or a goroutine
// of its own; the goroutines that read the servers' replies write its answers, as far
// as its socket takes them without waiting.
type client struct {
	pool *Pool
	conn *socket.Conn

	mu       sync.Mutex
	changed  sync.Cond // with waiting: something below became less
	waiting  bool
	queue    queue
	inFlight int // commands that servers have to answer
	held     int // bytes of answers that have not been written
	holds    budget.Part
	out      []byte // of these, what may be written
	spare    []byte
	writing  bool   // somebody writes
	flushing bool   // somebody is going to flush
	dead     bool   // nothing can be written any more
	rest     []byte // what the socket didn't take, until the client has left the loop
	loop     *loop  // nil: a goroutine of its own reads
	turning  bool   // the loop reads
	leaving  bool   // a goroutine of its own goes on after that

	share budget.Share // of what all clients of the process may have

	// using is what the goroutine that reads may send to, while it works.
	using atomic.Pointer[group]

	// In a loop.
	id    uint64
	idle  bool         // it is at its end for that; the loop's mu guards it
	heard atomic.Int64 // when something came, in ns

	// Of the goroutine that reads.
	group    *group // what it has sent to
	buf      []byte // from from to to
	from, to int
	has      budget.Part // of buf, while it is the client's own
	scanner  requestScanner
	sampler  hotkeys.Sampler
	command  command
	line     []byte  // of a retrieval
	touched  []*node // that have something to be flushed
	now      time.Time
	why      error // what ended it; nil: it has quit
	more     bool  // the last turn did not read all
	last     bool  // the client sends no more than what is there
}

// newClient returns a client, for a loop if there is one.
func (p *Pool) newClient(conn net.Conn) *client {
	c := &client{pool: p}
	c.scanner.maxLine = p.opts.MaxLine
	c.changed.L = &c.mu
	c.share.Join(p.opts.Budget, c.shed)
	c.has.Of(&c.share)
	c.holds.Of(&c.share)
	p.starting.Do(p.startLoops)
	if n := len(p.loops); n > 0 {
		if detached, err := socket.Detach(conn); err == nil {
			c.conn, c.loop = detached, p.loops[p.accepted.Load()%uint64(n)]
			return c
		}
	}
	c.conn = socket.New(conn)
	return c
}

// end answers what was asked, and closes the connection.
func (c *client) end() {
	c.countEnd()
	c.mu.Lock()
	for !c.dead && (c.inFlight > 0 || c.held > 0 || c.writing) {
		c.await()
	}
	c.dead = true
	c.mu.Unlock()
	_ = c.conn.Close()
	c.conn.Release()
	c.share.Leave()
	c.pool.gone(c)
}

// shed ends the client because it has the most of all, and all have too much.
func (c *client) shed() {
	c.pool.shed.Add(1)
	c.mu.Lock()
	c.kill()
	c.mu.Unlock()
}

// await waits until something changes. The caller holds mu.
func (c *client) await() {
	c.waiting = true
	c.changed.Wait()
	c.waiting = false
}

// read reads once, and begins to carry out what has come. It reports false at the end.
func (c *client) read() bool {
	if !c.makeSpace() {
		return false
	}
	n, err := c.receive(c.buf[c.to:])
	c.to += n
	goOn := c.process()
	c.flushNodes()
	c.why = err
	return goOn && err == nil
}

// makeSpace makes room in the buffer for the next read. The buffer grows as bytes come, whatever length a
// command announces. It reports false when the budget has no room, and the unread bytes can't be
// dropped.
func (c *client) makeSpace() bool {
	var full bool
	c.from, c.to, full = socket.MakeRoom(c.buf, c.from, c.to)
	if c.to == 0 && (c.buf == nil || len(c.buf) > idleBuffer) {
		c.buf = make([]byte, firstBuffer)
		c.has.Hold(firstBuffer)
	}
	if !full {
		return true
	}
	size := 2 * len(c.buf)
	if c.scanner.need > c.to-c.from { // more than that only for what follows it
		size = min(size, max(c.scanner.need, firstBuffer))
	}
	if !c.has.Hold(size) {
		return c.dropRequest()
	}
	c.buf = socket.Grow(c.buf[c.from:c.to], size)
	c.from, c.to = 0, c.to-c.from
	return true
}

// dropRequest refuses the command that has arrived in part, because all clients together hold too much.
// It reports false when the start of the next command is unknown.
func (c *client) dropRequest() bool {
	buf := c.buf[c.from:c.to]
	c.from, c.to, c.buf = 0, 0, make([]byte, firstBuffer)
	if c.scanner.need == 0 {
		c.command = command{}
		c.command.refuseLast(errNoRead)
	} else {
		c.scanner.drop(buf, &c.command, errNoStore)
	}
	c.has.Hold(firstBuffer)
	c.now = time.Now()
	c.enter()
	defer c.using.Store(nil)
	c.do(&c.command)
	c.flushOut()
	return !c.command.last
}

// process begins to carry out what is in the buffer. It reports false when there is to
// be no more.
func (c *client) process() (goOn bool) {
	if c.isBinary(c.buf[c.from:c.to]) {
		return false
	}
	c.now = time.Now()
	c.enter()
	defer c.using.Store(nil)
	for c.from < c.to {
		n := c.scanner.next(c.buf[c.from:c.to], &c.command)
		if n == 0 {
			break
		}
		c.from += n
		if k := c.command.kind; k == quit || k == hangUp {
			c.pool.commands[k].Add(1)
			return false
		}
		if c.do(&c.command); c.command.last {
			return false
		}
	}
	c.flushOut()
	return true
}

// receive reads what the client sends, for IdleTimeout at most.
func (c *client) receive(buf []byte) (int, error) {
	if c.pool.opts.IdleTimeout == 0 {
		n, err := c.conn.Read(buf)
		c.pool.bytesIn.Add(uint64(n)) //nolint:gosec // not negative
		return n, err
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.pool.opts.IdleTimeout))
	if c.pool.isDraining() { // which has set another deadline, perhaps before this one
		return 0, ErrClosed
	}
	n, err := c.conn.Read(buf)
	c.pool.bytesIn.Add(uint64(n)) //nolint:gosec // not negative
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.pool.isDraining() {
		c.pool.idle.Add(1)
	}
	return n, err
}

// enter has what comes next sent to the servers that the pool has now, once those
// before have answered: else a command might overtake another.
func (c *client) enter() {
	for {
		g := c.pool.group.Load()
		c.using.Store(g)
		if c.pool.group.Load() == g {
			break // and it stays open until using is another
		}
	}
	g := c.using.Load()
	c.scanner.maxValue = int(g.largest.Load())
	if c.group == g {
		return
	}
	if c.group != nil {
		c.awaitFor(func() bool { return c.inFlight > 0 })
	}
	c.group = g
}

// do begins to carry out a command.
func (c *client) do(cmd *command) {
	if cmd.kind == nothing {
		return
	}
	c.pool.commands[cmd.kind].Add(1)
	c.ask(cmd.keys)
	c.makeRoom()
	switch cmd.kind {
	case refused:
		c.local([]byte(cmd.refusal))
	case ownStats:
		c.local(c.pool.ownStats())
	case hotStats:
		c.local(c.pool.hotStats())
	case retrieval:
		c.retrieve(cmd)
	case storage, keyed:
		a := c.begin(whole, 1, cmd.noreply)
		r := request{answer: a, sent: c.now, store: cmd.kind == storage}
		c.send(c.group.pick(cmd.keys[0]), r, cmd.line, cmd.data)
	case broadcast:
		c.all(agree, cmd)
	case version:
		c.all(first, cmd)
	case stats:
		c.all(sums, cmd)
	default: // there is nothing to do
	}
}

// retrieve asks the servers of the keys.
func (c *client) retrieve(cmd *command) {
	n := c.group.pick(cmd.keys[0])
	if len(cmd.keys) == 1 {
		c.send(n, request{answer: c.begin(whole, 1, false), sent: c.now}, cmd.verb, space, cmd.keys[0], crlf)
		return
	}
	size := len(cmd.verb) + len(lineEnd)
	alone := true
	for _, k := range cmd.keys {
		alone = alone && c.group.pick(k) == n
		size += len(" ") + len(k)
	}
	if !alone || size > longest {
		// The parts are made before any is sent: the ring must not change meanwhile,
		// and the answer must know how many there are.
		c.split(cmd)
		return
	}
	line := append(c.line[:0], cmd.verb...)
	for _, k := range cmd.keys {
		line = append(append(line, ' '), k...)
	}
	c.line = append(line, lineEnd...)
	c.send(n, request{answer: c.begin(whole, 1, false), sent: c.now}, c.line)
}

// longest is how long a line may be for a server to be certain to read it.
const longest = 1024

var (
	space = []byte(" ")
	crlf  = []byte(lineEnd)
)

// split asks several servers, or one in several commands that are shorter.
func (c *client) split(cmd *command) {
	type part struct {
		node *node
		line []byte
	}
	var parts []part
	at := make(map[*node]int, len(c.group.nodes))
	for _, k := range cmd.keys {
		n := c.group.pick(k)
		i, ok := at[n]
		if !ok || len(parts[i].line)+len(k)+len(" \r\n") > longest {
			i = len(parts)
			at[n] = i
			parts = append(parts, part{n, append([]byte(nil), cmd.verb...)})
		}
		parts[i].line = append(append(parts[i].line, ' '), k...)
	}
	c.pool.fragments.Add(uint64(len(parts)))
	a := c.begin(values, len(parts), false)
	for _, p := range parts {
		c.send(p.node, request{answer: a, sent: c.now}, p.line, crlf)
	}
}

// all asks all servers.
func (c *client) all(j join, cmd *command) {
	a := c.begin(j, len(c.group.nodes), cmd.noreply)
	for _, n := range c.group.nodes {
		c.send(n, request{answer: a, sent: c.now}, cmd.line)
	}
}

// send sends a command, or answers that it can't be sent.
func (c *client) send(n *node, r request, parts ...[]byte) {
	if n == nil {
		c.pool.errors.Add(1)
		c.answer(r.answer, c.pool.noServer())
		return
	}
	if err := n.send(r, parts...); err != nil {
		c.pool.errors.Add(1)
		c.answer(r.answer, n.unreachable(err))
		return
	}
	if !slices.Contains(c.touched, n) {
		c.touched = append(c.touched, n)
	}
}

// answer gives a part of an answer from here.
func (c *client) answer(a *answer, line []byte) {
	if a.part(line, true) {
		c.flushOut()
	}
}

// begin queues an answer in which so many servers take part.
func (c *client) begin(j join, servers int, quiet bool) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, _ := answers.Get().(*answer)
	a.client, a.join, a.wait, a.quiet = c, j, servers, quiet
	c.inFlight++
	if !quiet {
		c.queue.push(a)
	}
	return a
}

// local queues an answer that is known.
func (c *client) local(text []byte) {
	a := c.begin(whole, 1, false)
	if a.part(text, true) {
		c.flushOut()
	}
}

// answers are kept for other commands, of any client.
var answers = sync.Pool{New: func() any { return new(answer) }}

// recycle keeps an answer for another command. The caller holds mu.
func (c *client) recycle(a *answer) {
	if cap(a.buf) > idleBuffer {
		a.buf = nil
	}
	*a = answer{buf: a.buf[:0]}
	answers.Put(a)
}

// makeRoom waits while too much waits for the client.
func (c *client) makeRoom() {
	c.awaitFor(func() bool {
		return c.inFlight >= c.pool.opts.MaxInFlight || c.held > c.pool.opts.MaxClientBytes/2
	})
}

// awaitFor waits while something is so that mu guards.
func (c *client) awaitFor(while func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || !while() {
		return
	}
	c.mu.Unlock()
	c.mayWait()
	c.mu.Lock()
	for !c.dead && while() {
		c.await()
	}
	c.now = time.Now()
}

// mayWait is called before the goroutine that reads waits for others: what has been
// asked leaves, and other clients are read elsewhere.
func (c *client) mayWait() {
	c.flushNodes()
	c.flushOut()
	c.yieldLead()
}

func (c *client) flushNodes() {
	for i, n := range c.touched {
		n.flush()
		c.touched[i] = nil
	}
	c.touched = c.touched[:0]
}

// isBinary reports whether the client speaks memcached's binary protocol, and
// tells it in that protocol that no command is known.
func (c *client) isBinary(b []byte) bool {
	const magic, header, unknown = 0x80, 24, 0x81
	if len(b) == 0 || b[0] != magic || c.scanner.skip > 0 || c.scanner.need > 0 {
		return false
	}
	var reply [header]byte
	reply[0] = magic + 1
	if len(b) >= header {
		reply[1] = b[1]              // the command
		copy(reply[12:16], b[12:16]) // what the client calls it
	}
	reply[7] = unknown
	c.local(reply[:])
	return true
}
