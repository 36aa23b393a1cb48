package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// ErrClosed is returned by [Server.Serve] and [Server.Listen] after
// [Server.Shutdown] or [Server.Close].
var ErrClosed = errors.New("server: closed")

// ErrExposed is matched by the error of [Server.Listen], [Server.Serve] and [Server.SetUsers] for an
// address that other machines can reach while clients need no password.
var ErrExposed = errors.New("server: an address beyond this machine needs a password")

// A Server accepts clients and serves them. Its methods may be called by many
// goroutines at once.
type Server struct {
	opts     Options
	env      *command.Env
	table    []*command.Command
	handlers rediscmd.Index[*handler]
	initials [maxName + 1]uint32
	stats    counters

	users    atomic.Pointer[users]
	required atomic.Pointer[string] // the setting requirepass
	idle     atomic.Int64           // see idleTimeout
	saving   sync.Mutex             // held while the users are written to their file
	target   target
	changed  chan struct{} // the target wants a tick now

	lastID atomic.Uint64
	aclLog aclLog
	clock  atomic.Int64 // Unix ms, kept by tick

	ctx    context.Context //nolint:containedctx // the life of the server, for waiting handlers
	cancel context.CancelFunc
	wg     sync.WaitGroup // sessions, accept loops and tick

	accepting sync.WaitGroup // accept loops

	pollers  []*poller
	watchdog watchdog
	leaders  sync.WaitGroup // goroutines of the pollers
	unwatch  chan struct{}
	ended    sync.Once

	mu        sync.Mutex
	closed    bool
	retiring  bool          // closed, and clients have time to leave: see retire
	awaited   int           // clients that are waited for
	left      chan struct{} // none of them is left
	listeners map[net.Listener]struct{}
	sessions  map[uint64]*session
	drained   Drained

	// The back end has RedisBloom, unless asked is false: then it is not known.
	modules struct {
		sync.Mutex

		asked, bloom bool
	}

	identityMu sync.Mutex
	identity   [2][]any // the back end's last answer to HELLO, in RESP2 and RESP3
}

// New returns a Server that begins to connect to its back end. It listens
// nowhere yet. Close or Shutdown ends it.
func New(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, table: command.All(),
		listeners: make(map[net.Listener]struct{}), sessions: make(map[uint64]*session),
		changed: make(chan struct{}, 1), left: make(chan struct{}, 1),
	}
	u, err := opts.parseUsers()
	if err != nil {
		return nil, err
	}
	s.users.Store(u)
	s.required.Store(&opts.Password)
	s.idle.Store(int64(opts.IdleTimeout))
	s.stats.extension = make([]atomic.Uint64, len(s.table))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.clock.Store(time.Now().UnixMilli())
	if err := s.open(); err != nil {
		s.cancel()
		return nil, err
	}
	s.handlers = s.makeHandlers()
	s.initials = initials(s.handlers)
	s.startPollers()
	s.wg.Add(1)
	go s.tick()
	if s.env != nil {
		s.wg.Go(s.runSchedules)
	}
	return s, nil
}

// open makes the target, and what extension commands work with: that stays nil in front of a pool
// where they are refused.
func (s *Server) open() (err error) {
	if s.opts.Pool == nil {
		if s.env, err = command.NewEnv(s.opts.Client); err == nil {
			s.target, err = newBackendTarget(s)
		}
		return err
	}
	t := newPoolTarget(s, s.opts.Pool)
	s.target = t
	if s.opts.Client, err = t.client(); err == nil && s.opts.Client != nil {
		s.env, err = command.NewEnv(s.opts.Client)
	}
	return err
}

// Listen opens a listener for [Server.Serve]: network is tcp, with an address
// like 127.0.0.1:6380, or unix, with a path. Without a password, an address
// beyond this machine gives an error that matches [ErrExposed].
func (s *Server) Listen(network, address string) (net.Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("server: network is %q; want tcp or unix", network)
	}
	// Listening first resolves names: what counts is what is listened on.
	l, err := s.opts.Listen(s.ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := s.users.Load().mayListen(l.Addr(), address); err != nil {
		_ = l.Close()
		return nil, err
	}
	if network != "unix" && s.opts.TLS != nil {
		l = tls.NewListener(l, s.opts.TLS)
	}
	return l, nil
}

// Serve accepts clients on l until the server is shut down, and then returns
// [ErrClosed]. It closes l. It may be called for several listeners. Without a password,
// it refuses an l that other machines can reach, with an error that matches [ErrExposed].
func (s *Server) Serve(l net.Listener) error {
	if err := s.addListener(l); err != nil {
		_ = l.Close()
		return err
	}
	defer s.wg.Done()
	defer s.accepting.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		_ = l.Close()
	}()
	delay := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err == nil {
			s.accept(conn) // also one that came while the server was closed
		}
		if s.ctx.Err() != nil || s.isClosed() {
			return ErrClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			// Too many open files, most likely: it passes when clients leave.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.opts.Logger.Error("accepting a client failed", "error", err, "retry_in", delay)
			select {
			case <-time.After(delay):
			case <-s.ctx.Done():
			}
			continue
		}
		delay = 0
	}
}

// addListener begins to serve on l. The caller calls Done of wg and accepting afterwards.
func (s *Server) addListener(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.users.Load().mayListen(l.Addr(), l.Addr().String()); err != nil {
		return err
	}
	s.listeners[l] = struct{}{}
	s.wg.Add(1)
	s.accepting.Add(1)
	return nil
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// keepAlive replaces the periods that package net has set.
func keepAlive(conn net.Conn) {
	if tc, ok := conn.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Minute, Interval: 75 * time.Second, Count: 4})
	}
}

var tooManyClients = []byte("-ERR max number of clients reached\r\n")

func (s *Server) accept(conn net.Conn) {
	s.stats.accepted.Add(1)
	keepAlive(conn)
	s.mu.Lock()
	if s.closed && !s.retiring {
		s.mu.Unlock()
		_ = conn.Close()
		return
	}
	if len(s.sessions) >= s.opts.MaxClients {
		s.mu.Unlock()
		s.stats.refused.Add(1)
		s.wg.Go(func() { // a TLS handshake may wait
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(tooManyClients)
			_ = conn.Close()
		})
		return
	}
	c := newSession(s, conn)
	if s.retiring {
		c.retirement.awaited = true
		s.awaited++
		c.retirement.begun.Store(true)
	}
	s.sessions[c.id] = c
	s.wg.Add(1)
	s.mu.Unlock()
	if c.poller == nil {
		go s.serve(c)
	} else if err := c.poller.add(c); err != nil {
		p := c.poller
		c.leavePoller()
		p.serveAlone(c)
	}
}

// serve is the goroutine of a client that has one of its own.
func (s *Server) serve(c *session) {
	c.serve()
	s.gone(c)
}

// gone forgets a session that has ended.
func (s *Server) gone(c *session) {
	s.mu.Lock()
	delete(s.sessions, c.id)
	c.share.Leave()
	s.stats.ended.add(&c.traffic)
	if s.closed {
		s.drained.Commands += c.next - c.out.head.Load()
	}
	if c.retirement.awaited {
		if s.awaited--; s.awaited == 0 {
			select {
			case s.left <- struct{}{}:
			default:
			}
		}
	}
	s.mu.Unlock()
	s.wg.Done()
}

// clients returns the sessions now.
func (s *Server) clients() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.sessions))
	for _, c := range s.sessions {
		all = append(all, c)
	}
	return all
}

// takeBack undoes what a script did for a client that has gone. It doesn't wait.
func (s *Server) takeBack(u undo, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					s.panicked(v)
				}
			}()
			u(s.ctx, scriptReply(raw))
		})
	}
}

func (s *Server) panicked(v any, more ...any) {
	s.stats.panics.Add(1)
	s.opts.Logger.Error("a command panicked", append(more, "panic", v, "stack", string(debug.Stack()))...)
}

// tickEvery is how often tick looks for clients that have been idle for some time.
func tickEvery(idle time.Duration) time.Duration {
	if idle == 0 {
		return time.Second
	}
	return min(time.Second, max(idle/4, time.Millisecond))
}

// tick keeps the clock and closes idle clients.
func (s *Server) tick() {
	defer s.wg.Done()
	var since time.Time // from when on the clock is fine enough for idle
	idle := s.idleTimeout()
	every := tickEvery(idle)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.changed:
			s.target.tick()
		case now := <-t.C:
			s.clock.Store(now.UnixMilli())
			s.target.tick()
			if is := s.idleTimeout(); is != idle {
				idle, since, every = is, now, tickEvery(is)
				t.Reset(every)
			}
			for _, c := range s.clients() {
				if idle > 0 {
					c.closeIfIdle(now, since, idle)
				}
				if now.UnixMilli()-c.active.Load() > every.Milliseconds() {
					c.out.trim()
				}
			}
		}
	}
}

// Shutdown ends the server gracefully: it stops accepting, and closes each client
// with the replies to its next commands, or as quiet: see retire. Then it ends the waiting of
// extension commands, lets what is in flight finish, and closes each client
// once it has its replies. When ctx ends first, it closes the rest and returns
// ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.retire(ctx)
	for _, c := range s.clients() {
		c.drain(ErrClosed)
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	s.cancel()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		s.drained.Clients = len(s.sessions)
		s.mu.Unlock()
	}
	_ = s.Close()
	<-done
	return err
}

// Drained is what a [Server.Shutdown] could not finish.
type Drained struct {
	Clients  int    // closed because ctx had ended
	Commands uint64 // that got no reply and may have run; a BLPOP that was ended has not
}

// Drained returns what the Shutdown that has returned could not finish.
func (s *Server) Drained() Drained {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// Close ends the server at once. Clients are closed without the replies that
// they wait for. It may be called more than once.
func (s *Server) Close() error {
	s.stopAccepting()
	s.cancel()
	for _, c := range s.clients() {
		c.kill(ErrClosed)
	}
	// Before the sessions have ended: one may be sending, to a back end that
	// takes nothing.
	s.target.disconnect()
	s.wg.Wait()
	s.endPollers()
	s.target.close()
	return nil
}

func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
}

// Client returns the client with which the server's own commands wait, or nil in front of a pool that
// refuses these commands. It is the server's, which closes it in front of a pool.
func (s *Server) Client() *redoubt.Client { return s.opts.Client }

// Decisions returns what the commands of rate limits have decided here: see [command.Env.Decisions].
func (s *Server) Decisions() command.Decisions {
	if s.env == nil {
		return command.Decisions{}
	}
	return s.env.Decisions()
}

// CommandCounts returns what the commands have done here: see [command.Env.Counts].
func (s *Server) CommandCounts() command.Counts {
	if s.env == nil {
		return command.Counts{}
	}
	return s.env.Counts()
}

// Filters returns the keys that BF commands have used here: see [command.Env.Filters].
func (s *Server) Filters() map[string]command.Asked {
	if s.env == nil {
		return nil
	}
	return s.env.Filters()
}

// Takers returns how many clients wait here for messages of each queue, by the key of the queue's wake-up
// marker: in QUEUE.TAKE, or as a consumer of the library does, in BZPOPMIN on the marker.
func (s *Server) Takers() map[string]int {
	all := map[string]int{}
	if s.env != nil {
		s.env.Takers(all)
	}
	for _, c := range s.clients() {
		if marker := c.marker.Load(); marker != nil && waits(c) {
			all[*marker]++
		}
	}
	return all
}

// client returns the session with an id, or nil.
func (s *Server) client(id int64) *session {
	if id <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[uint64(id)]
}
