package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// Options configure connections to a back end.
type Options struct {
	// Backend opens the connections.
	Backend Backend
	// Protocol is the version of RESP that replies come in. Defaults to RESP2.
	Protocol resp.Protocol
	// Scripts are loaded whenever a connection is made, before anything else
	// is sent.
	Scripts []*redoubt.Script
	// AskLimits makes the upstream ask the server for what [Upstream.Limited] reports: at each
	// connect, and once a second while commands are sent.
	AskLimits bool
	// Watch, when set, is told when the server is lost and when it is back.
	Watch *outage.Watch
	// MaxPending is how many bytes may wait to be sent before Send waits.
	// Defaults to 16 MiB.
	MaxPending int
	// MaxReply is the greatest length of one reply. A longer one is dropped as it
	// comes, and an error takes its place; it breaks a [Dedicated]. Defaults to 1 GiB.
	MaxReply int
}

// A config is Options, and more for the servers of a [Pool].
type config struct {
	Options

	probe   bool          // a connection counts once the server has answered PING on it
	replica bool          // and is a replica that has its data: ROLE takes the place of PING
	timeout time.Duration // for a reply; 0: none
	soonest time.Duration // the shortest of all time-outs, of [Sender] too; 0: there is none
	health  health
	slow    *SlowLog        // may be nil
	limits  func(reply any) // takes the reply to configLimits, which is asked first; may be nil

	node      *Node // whose gate a new connection passes; nil: none
	clustered *Node // of a cluster, which redirects; nil: of none

	patience time.Duration // see PoolOptions
}

func (o Options) validate() error {
	var errs []error
	if o.Backend == nil {
		errs = append(errs, errors.New("proxy: Backend is nil"))
	}
	if o.Protocol != resp.RESP2 && o.Protocol != resp.RESP3 {
		errs = append(errs, fmt.Errorf("proxy: Protocol is %d, want 2 or 3", o.Protocol))
	}
	if o.MaxPending < 0 || o.MaxReply < 0 {
		errs = append(errs, errors.New("proxy: MaxPending and MaxReply must not be negative"))
	}
	return errors.Join(errs...)
}

// open makes a connection and prepares it: the protocol, more commands if
// there are any, the scripts.
func (o config) open(ctx context.Context, more ...[]string) (net.Conn, error) {
	conn, err := o.Backend.Open(ctx)
	if err != nil {
		return nil, err
	}
	must := 0 // replies that must not be errors
	var setup []byte
	if o.Protocol == resp.RESP3 {
		setup = resp.AppendCommand(setup, "HELLO", "3")
		must++
	}
	probe, role := must, o.role() // which reply is that to the probe
	pinged := role == nil && o.probe
	switch {
	case role != nil:
		more = append([][]string{{"ROLE"}}, more...)
	case pinged:
		more = append([][]string{{"PING"}}, more...)
	}
	for _, c := range more {
		setup = resp.AppendCommand(setup, c...)
		must++
	}
	for _, s := range o.Scripts {
		setup = resp.AppendCommand(setup, "SCRIPT", "LOAD", s.Source())
	}
	all := must + len(o.Scripts)
	if o.limits != nil {
		setup = append(setup, configLimits...)
		all++
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultDialTimeout)
	defer cancel()
	replies, err := exchange(ctx, conn, setup, all)
	if err == nil {
		// A script that can't be loaded now, while the server loads its data
		// for instance, is found missing and sent again when it is used.
		for i, v := range replies[:must] {
			if e, ok := v.(resp.Error); ok && (!pinged || i != probe || !refusesPing(e)) {
				err = e
				break
			}
		}
		if err == nil && role != nil {
			err = role(replies[probe])
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if o.limits != nil {
		o.limits(replies[all-1])
	}
	return conn, nil
}

// refusesPing reports whether an error to PING says no more than that the server doesn't have the command,
// whose name may have been changed, or that the user may not run it.
func refusesPing(e resp.Error) bool {
	return strings.HasPrefix(string(e), "ERR unknown command") || e.Code() == "NOPERM"
}

// An Upstream is one connection to a back end, shared by many callers and made
// anew whenever it is lost. All methods may be called by many goroutines at
// once.
type Upstream struct {
	opts      config
	conn      atomic.Pointer[conn]
	tried     chan struct{}   // closed after the first attempt to connect
	ctx       context.Context //nolint:containedctx // the life of the upstream
	stop      context.CancelFunc
	done      chan struct{}
	reconnect chan struct{} // holds one after ReconnectNow

	limited   atomic.Bool // see Limited
	blocked   recently    // see RecentlyBlocked
	hugeSeen  recently    // see RecentlyHuge
	isolation isolation

	mu   sync.Mutex
	down error         // why there is no conn
	past Traffic       // of conns before
	next chan struct{} // see patience.go

	connects, losses, eofs, failures, lost atomic.Uint64

	redirected redirections
}

// NewUpstream begins to connect in the background. Close it after use.
func NewUpstream(opts Options) (*Upstream, error) { return newUpstream(config{Options: opts}) }

func newUpstream(opts config) (*Upstream, error) {
	if opts.Protocol == 0 {
		opts.Protocol = resp.RESP2
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	u := &Upstream{opts: opts, tried: make(chan struct{}), ctx: ctx, stop: stop, done: make(chan struct{}), reconnect: make(chan struct{}, 1)}
	u.isolation.permits.most, u.isolation.ration.most = maxIsolated, maxRationed
	u.setDown(errors.New("not connected yet"))
	u.opts.health.watch = opts.Watch
	if opts.AskLimits {
		u.opts.limits = u.noteLimits
		u.isolation.running.Add(1)
		go u.watchLimits()
	}
	go u.run(ctx)
	return u, nil
}

const (
	firstDelay = 10 * time.Millisecond
	maxDelay   = 500 * time.Millisecond // waiters for a lock there wait that much longer
)

// errClosed is why a closed Upstream has no conn.
var errClosed = errors.New("closed")

// ReconnectNow ends the pause before the next attempt to connect. The caller knows that the server is back.
func (u *Upstream) ReconnectNow() {
	if u.up() {
		return
	}
	select {
	case u.reconnect <- struct{}{}:
	default:
	}
}

func (u *Upstream) run(ctx context.Context) {
	defer close(u.done)
	delay := firstDelay
	first := true
	for ctx.Err() == nil {
		until, began := u.opts.until(), time.Now()
		conn, err := u.opts.openUntil(ctx, until)
		if err != nil {
			u.setDown(err)
			if ctx.Err() == nil {
				u.failures.Add(1)
				u.opts.health.fail(began, err)
			}
			if first {
				close(u.tried)
				first = false
			}
			// Half of the delay is random, so that many instances don't come
			// back to a restarted server in step.
			wait := time.NewTimer(delay/2 + rand.N(delay/2)) //nolint:gosec // jitter
			select {
			case <-wait.C:
			case <-u.reconnect:
				wait.Stop()
			case <-until.Done(): // there is another server to try
				wait.Stop()
			case <-ctx.Done():
				wait.Stop()
			}
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = firstDelay
		u.connects.Add(1)
		l := newConn(conn, true, u.opts)
		l.skips, l.up = true, u
		unhook := context.AfterFunc(ctx, func() { l.close(errClosed) })
		stay := context.AfterFunc(until, func() { l.close(context.Cause(until)) })
		if u.opts.node != nil {
			u.opts.node.pass(u)
		}
		u.conn.Store(l)
		u.arrived()
		if u.opts.node != nil {
			u.opts.node.passed(u)
		}
		if first {
			close(u.tried)
			first = false
		}
		u.opts.health.ok()
		err = l.read(readBuffer, l.reply)
		unhook()
		stay()
		u.setDown(err)
		l.close(err)
		u.drop(l)
		u.limitWaits()
		if u.opts.clustered != nil {
			u.opts.clustered.pool.cluster.check()
		}
		u.losses.Add(1)
		if errors.Is(err, errEOF) {
			u.eofs.Add(1)
		}
		u.lost.Add(l.abandon())
		if ctx.Err() == nil {
			u.opts.health.fail(time.Now(), err)
		}
	}
	u.setDown(errClosed)
	u.endWaits()
	if first {
		close(u.tried)
	}
}

func (u *Upstream) setDown(err error) {
	u.mu.Lock()
	u.down = err
	u.mu.Unlock()
}

// get returns the conn, or why there is none. It waits for the first attempt to
// connect, so that the first commands are answered, and for a conn that takes the place of a
// lost one: see [PoolOptions].Patience.
func (u *Upstream) get() (*conn, error) {
	if l := u.conn.Load(); l != nil {
		return l, nil
	}
	<-u.tried
	if u.opts.node != nil {
		if soon := u.opts.node.returned(); soon != nil {
			<-soon
		}
	}
	if next := u.expected(); next != nil {
		<-next
	}
	return u.now()
}

// drop puts an end to a conn, and keeps what it has counted.
func (u *Upstream) drop(l *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l.mu.Lock()
	l.counted()
	u.past.Add(&l.traffic)
	l.mu.Unlock()
	u.conn.Store(nil)
}

// now returns the conn, or why there is none.
func (u *Upstream) now() (*conn, error) {
	if l := u.conn.Load(); l != nil {
		return l, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return nil, u.down
}

// tryGet is like get but never blocks.
func (u *Upstream) tryGet() (*conn, error) {
	if l := u.conn.Load(); l != nil {
		return l, nil
	}
	select {
	case <-u.tried:
		if u.opts.patience == 0 {
			return u.get()
		}
		if u.expected() != nil {
			return nil, ErrConnecting
		}
		return u.now()
	default:
		return nil, ErrConnecting
	}
}

// Name is how errors call the back end.
func (u *Upstream) Name() string { return u.opts.Backend.Name() }

// up reports whether there is a connection now, on which replies come in time.
func (u *Upstream) up() bool {
	l := u.conn.Load()
	return l != nil && !l.silent()
}

// Send appends n commands as they are on the wire. Their replies come to c
// with the tags tag, tag+1, …. They leave with the next [Upstream.Flush] of any
// caller. Send waits while more than MaxPending bytes wait to be sent. It copies
// the bytes.
//
// After an error nothing was appended and no reply will come.
func (u *Upstream) Send(c ReplyHandler, tag uint64, n int, commands []byte) error {
	return u.WithTimeout(0).Send(c, tag, n, commands)
}

// TrySend is like Send but never blocks: it returns [ErrBusy] instead.
func (u *Upstream) TrySend(c ReplyHandler, tag uint64, n int, commands []byte) error {
	return u.WithTimeout(0).TrySend(c, tag, n, commands)
}

// SendScript is Send for a command that runs a script. It sends the script by its
// digest, and by its source once the server says that it doesn't know it. The Cmd
// must not change until its reply came.
func (u *Upstream) SendScript(c ReplyHandler, tag uint64, cmd *redoubt.Cmd) error {
	return u.WithTimeout(0).SendScript(c, tag, cmd)
}

// Flush sends the appended commands. It lets other goroutines that are ready append
// first. If another goroutine is sending, that one takes the commands along.
func (u *Upstream) Flush() {
	if l := u.conn.Load(); l != nil {
		l.flushPending()
	}
}

// FlushNow is Flush that never blocks. It doesn't let other goroutines append first, and
// bytes that the connection doesn't take at once leave later.
func (u *Upstream) FlushNow() {
	if l := u.conn.Load(); l != nil {
		l.flushNow()
	}
}

// Tried is closed after the first attempt to connect.
func (u *Upstream) Tried() <-chan struct{} { return u.tried }

// Ready waits as a command would, for the first attempt to connect or for a connection that takes the
// place of a lost one. It reports why there is no connection now, or nil.
func (u *Upstream) Ready(ctx context.Context) error {
	select {
	case <-u.tried:
	case <-ctx.Done():
		return ctx.Err()
	}
	if next := u.expected(); next != nil {
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err := u.now()
		return err
	}
	_, err := u.get()
	return err
}

// Stats are counters of an [Upstream].
type Stats struct {
	Up       bool   // there is a connection
	Connects uint64 // connections made
	Failures uint64 // connections that could not be made
	Losses   uint64 // connections lost
	EOFs     uint64 // of these, closed by the server
	Waiting  int    // messages that wait for replies; those being handed out are not counted
	Pending  int    // bytes that wait to be sent
	Queued   int    // commands that wait to be sent
	InFlight int    // commands sent that wait for replies, as of when something came last
	// InFlightBytes are the bytes of all batches with a command in flight.
	InFlightBytes   int
	Isolated        int // large commands that have a connection for themselves, or wait for it to be made
	IsolatedWaiting int // large commands that wait for one

	Traffic
}

// Add adds other to s, which is Up if either is.
func (s *Stats) Add(other *Stats) {
	s.Up = s.Up || other.Up
	s.Connects += other.Connects
	s.Failures += other.Failures
	s.Losses += other.Losses
	s.EOFs += other.EOFs
	s.Waiting += other.Waiting
	s.Pending += other.Pending
	s.Queued += other.Queued
	s.InFlight += other.InFlight
	s.InFlightBytes += other.InFlightBytes
	s.Isolated += other.Isolated
	s.IsolatedWaiting += other.IsolatedWaiting
	s.Traffic.Add(&other.Traffic)
}

// Stats returns the counters now.
func (u *Upstream) Stats() Stats {
	s := Stats{Connects: u.connects.Load(), Failures: u.failures.Load(), Losses: u.losses.Load(), EOFs: u.eofs.Load()}
	u.mu.Lock()
	defer u.mu.Unlock()
	s.Traffic = u.past
	if l := u.conn.Load(); l != nil {
		s.Up = true
		l.stats(&s)
	}
	s.Lost = u.lost.Load()
	s.Isolated, s.IsolatedWaiting = u.isolation.counts()
	return s
}

// Close ends the connection and waits until every command in flight has an error.
// It may be called more than once.
func (u *Upstream) Close() error {
	u.stop()
	<-u.done
	u.isolation.close()
	u.noteLimits(nil)
	return nil
}

// life ends when the upstream is closed.
func (u *Upstream) life() context.Context { return u.ctx }

// sent returns how many messages were ever sent on the shared connection that there is now.
func (u *Upstream) sent() uint64 {
	l := u.conn.Load()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appended
}
