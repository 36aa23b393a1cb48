package memcached

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
)

const (
	firstDelay = 10 * time.Millisecond
	maxDelay   = time.Second
)

var (
	errClosed  = errors.New("the pool is closed")
	errEjected = errors.New("ejected for its failures")
)

// A node is a server of a pool, with a connection that is made anew whenever it
// is lost.
type node struct {
	group  *group
	server Server
	index  int
	conn   atomic.Pointer[conn]
	tried  chan struct{} // closed after the first attempt to connect
	once   sync.Once

	mu       sync.Mutex
	down     error // why there is no conn
	failures int   // without an answer between them
	retryAt  time.Time
	ejected  time.Time // last
	past     traffic   // of conns before

	watch   *outage.Watch // of what is told; nil: nothing is
	left    time.Time     // when it was taken out of the ring, guarded by the group's mu
	largest int64         // bytes of an item that the server takes, guarded by the group's mu; 0: it has not been asked

	failing                                 atomic.Bool // failures is not 0
	sent, connects, losses, timeouts, fails atomic.Uint64
	ejections, eofs, dialFailures, lost     atomic.Uint64
}

// run keeps a connection until ctx ends.
func (n *node) run(ctx context.Context) {
	defer n.tryOver()
	delay := firstDelay
	for ctx.Err() == nil {
		if !n.waitRetry(ctx) {
			break
		}
		began := time.Now()
		conn, err := n.open(ctx)
		if err != nil {
			n.setDown(err)
			n.dialFailures.Add(1)
			n.tryOver()
			if ctx.Err() == nil {
				n.watch.Failed(began, err)
				n.failed()
			}
			// Half of the delay is random, so that many instances don't come back
			// to a restarted server in step.
			wait(ctx, delay/2+rand.N(delay/2)) //nolint:gosec // jitter
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = firstDelay
		n.connects.Add(1)
		n.serve(ctx, conn)
	}
	n.setDown(errClosed)
}

// serve uses a connection until it ends.
func (n *node) serve(ctx context.Context, conn net.Conn) {
	l := newConn(n, conn)
	unhook := context.AfterFunc(ctx, func() { _ = l.close(errClosed) })
	defer unhook()
	watched := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(watched)
		n.watchTimeouts(l, stop)
	}()
	n.conn.Store(l)
	n.answered() // the version
	n.watch.Answered()
	n.group.readmit(n)
	n.tryOver()

	err := l.close(l.read())
	n.setDown(err)
	n.drop(l)
	close(stop)
	<-watched
	n.losses.Add(1)
	if errors.Is(err, errEOF) {
		n.eofs.Add(1)
	}
	n.lost.Add(l.abandon())
	if ctx.Err() == nil && !errors.Is(err, errEjected) {
		n.watch.Failed(time.Now(), err)
		n.failed()
	}
}

// watchTimeouts answers commands whose time-out has passed, until stop is closed.
func (n *node) watchTimeouts(l *conn, stop <-chan struct{}) {
	timeout := n.group.opts.Timeout
	if timeout < 0 {
		return
	}
	tick := time.NewTicker(min(max(timeout/8, time.Millisecond), time.Second))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if l.expire(now, timeout) {
				n.failed()
			}
		case <-stop:
			return
		}
	}
}

func (n *node) tryOver() { n.once.Do(func() { close(n.tried) }) }

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// waitRetry waits until a server that was ejected may be tried again. It reports
// false when ctx has ended.
func (n *node) waitRetry(ctx context.Context) bool {
	n.mu.Lock()
	at := n.retryAt
	n.mu.Unlock()
	if d := time.Until(at); d > 0 {
		wait(ctx, d)
	}
	return ctx.Err() == nil
}

// open connects, and sees the server answer.
func (n *node) open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.group.opts.DialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, n.server.Network, n.server.Addr)
	if err != nil {
		return nil, err
	}
	if cfg := n.server.TLS; cfg != nil {
		conn = tls.Client(conn, cfg) // which begins when something is sent
	}
	unhook := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	largest, err := probe(conn)
	if !unhook() {
		err = errStalled
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	n.group.learn(n, largest)
	return conn, nil
}

// probe asks for the version, and for the size of the largest item that the server takes. That
// is 0 if the server doesn't say.
func probe(conn net.Conn) (largest int, err error) {
	r := bufio.NewReaderSize(conn, maxReplyLine)
	ask := func(command string) ([]byte, error) {
		if _, err := io.WriteString(conn, command+lineEnd); err != nil {
			return nil, err
		}
		return r.ReadSlice('\n')
	}
	line, err := ask("version")
	switch {
	case bytes.HasPrefix(line, []byte("VERSION ")) && err == nil:
	case len(line) > 0:
		return 0, fmt.Errorf("it is not memcached: it answers %.40q to version", line)
	default:
		return 0, err
	}
	for line, err = ask("stats settings"); err == nil && bytes.HasPrefix(line, []byte("STAT ")); line, err = r.ReadSlice('\n') {
		if name, rest := word(line[len("STAT "):]); string(name) == "item_size_max" {
			largest, _ = length(bytes.TrimSpace(rest))
		}
	}
	return largest, err
}

func (n *node) setDown(err error) {
	n.mu.Lock()
	n.down = err
	n.mu.Unlock()
}

// send appends a command. After an error nothing was appended.
func (n *node) send(r request, parts ...[]byte) error {
	l := n.conn.Load()
	if l == nil {
		select {
		case <-n.tried:
		default:
			r.answer.client.mayWait()
			<-n.tried
		}
		if l = n.conn.Load(); l == nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.down
		}
	}
	n.sent.Add(1)
	return l.send(r, parts...)
}

func (n *node) flush() {
	if l := n.conn.Load(); l != nil {
		l.flushPending()
	}
}

// flushNow is flush that doesn't let others append first.
func (n *node) flushNow() {
	if l := n.conn.Load(); l != nil {
		l.flushNow()
	}
}

// answered notes that the server answers.
func (n *node) answered() {
	if n.failing.Load() {
		n.mu.Lock()
		n.failures = 0
		n.failing.Store(false)
		n.mu.Unlock()
	}
}

// failed notes a failure, and ejects the server when it was one too many.
func (n *node) failed() {
	n.fails.Add(1)
	n.mu.Lock()
	n.failures++
	n.failing.Store(true)
	limit := n.group.opts.FailureLimit
	eject := limit > 0 && n.failures >= limit
	if eject {
		n.ejected = time.Now()
		n.retryAt = n.ejected.Add(n.group.opts.RetryTimeout)
	}
	n.mu.Unlock()
	if eject {
		n.group.eject(n)
		if l := n.conn.Load(); l != nil {
			_ = l.close(errEjected)
		}
	}
}

// stats returns its counters, without what the ring knows.
func (n *node) stats() ServerStats {
	s := ServerStats{
		Name: n.server.Name, Addr: n.server.Addr, Sent: n.sent.Load(), Connects: n.connects.Load(), Losses: n.losses.Load(),
		Timeouts: n.timeouts.Load(), Failures: n.fails.Load(), Ejections: n.ejections.Load(),
		EOFs: n.eofs.Load(), DialFailures: n.dialFailures.Load(), Lost: n.lost.Load(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.EjectedAt = n.ejected
	t := n.past
	if l := n.conn.Load(); l != nil {
		t.add(l.stats(&s))
	} else if n.down != nil {
		s.LastError = n.down.Error()
	}
	s.Latency, s.poolLatency = t.server, t.pool
	s.SentBytes, s.Answers, s.AnswerBytes = t.requestBytes, t.responses, t.responseBytes
	return s
}

func serverError(format string, args ...any) []byte {
	text := strings.NewReplacer("\r", " ", "\n", " ").Replace(fmt.Sprintf(format, args...))
	return []byte("SERVER_ERROR redoubt: " + text + lineEnd)
}

func (n *node) lostReply() []byte {
	return serverError("connection to server %s lost before the reply: the command may have run", n.server.Name)
}

func (n *node) unsentReply() []byte {
	return serverError("connection to server %s lost: the command was not sent", n.server.Name)
}

func (n *node) timeoutReply() []byte {
	return serverError("server %s did not answer within %v: the command may have run", n.server.Name, n.group.opts.Timeout)
}

func (n *node) unreachable(cause error) []byte {
	return serverError("server %s is unreachable: %v", n.server.Name, cause)
}
