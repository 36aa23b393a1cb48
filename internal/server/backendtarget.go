package server

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A backendTarget is one back end: a server, or an engine in this process.
type backendTarget struct {
	srv     *Server
	backend Backend
	engine  func(client net.Conn) Session // nil: the back end is another process
	watch   *outage.Watch                 // tells when it is lost
	// upstreams are shared by all clients that have no state: for RESP2 and RESP3.
	upstreams [2]lazyUpstream
	// controls carries what the back end answers however long it holds back others' commands.
	controls lazyUpstream
}

// A lazyUpstream connects when it is first used.
type lazyUpstream struct {
	mu   sync.Mutex
	conn atomic.Pointer[proxy.Upstream]
}

func newBackendTarget(s *Server) (*backendTarget, error) {
	o := &s.opts
	t := &backendTarget{srv: s, backend: o.Backend, engine: o.Sessions, watch: outage.NewWatch(o.Backend.Name(), outage.Log(o.Logger))}
	if _, err := t.upstream(resp.RESP2); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *backendTarget) open(c *session, conn net.Conn) route {
	if t.engine == nil {
		r := &single{direct: direct{session: c, target: t}, sender: sender{c: c, upstream: t.upstreams[0].conn.Load()}}
		r.self = r
		return r
	}
	r := &inprocess{direct: direct{session: c, target: t}, engine: t.engine(conn)}
	r.self = r
	r.engine.SetAccount(c.account)
	r.engine.SetLimits(c.scriptLimits.of)
	r.prefetcher, _ = r.engine.(prefetcher)
	if c.counter, _ = r.engine.(counter); c.counter != nil {
		c.counter.SetOuter(ownSettings{c.srv})
		c.counter.SetNamer(func() string { return c.info.get().name })
		c.onFail = c.counter.CountError
	}
	r.lineScanner.Limits = c.srv.opts.Limits
	return r
}

func (t *backendTarget) name() string      { return t.backend.Name() }
func (t *backendTarget) database() int     { return t.backend.Database() }
func (t *backendTarget) polled() bool      { return t.engine != nil }
func (t *backendTarget) remote() bool      { return t.engine == nil }
func (t *backendTarget) usersBehind() bool { return t.engine == nil }
func (t *backendTarget) tick()             {}
func (t *backendTarget) close()            {}

func (t *backendTarget) upstream(p resp.Protocol) (*proxy.Upstream, error) {
	opts := t.options(p)
	opts.Watch = t.watch
	return t.connected(&t.upstreams[p-resp.RESP2], opts)
}

// control returns the connection for commands that must not wait behind other clients' commands.
func (t *backendTarget) control() (*proxy.Upstream, error) {
	return t.connected(&t.controls, proxy.Options{Backend: t.backend, Protocol: resp.RESP2})
}

func (t *backendTarget) connected(l *lazyUpstream, opts proxy.Options) (*proxy.Upstream, error) {
	if u := l.conn.Load(); u != nil {
		return u, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.conn.Load(); u != nil {
		return u, nil
	}
	if t.srv.ctx.Err() != nil {
		return nil, ErrClosed
	}
	u, err := proxy.NewUpstream(opts)
	if err != nil {
		return nil, err
	}
	l.conn.Store(u)
	return u, nil
}

func (t *backendTarget) options(p resp.Protocol) proxy.Options {
	return proxy.Options{Backend: t.backend, Protocol: p, Scripts: command.Scripts(), AskLimits: t.engine == nil}
}

func (t *backendTarget) disconnect() {
	for _, l := range []*lazyUpstream{&t.upstreams[0], &t.upstreams[1], &t.controls} {
		l.mu.Lock() // a client that is just beginning to use it
		u := l.conn.Load()
		l.mu.Unlock()
		if u != nil {
			_ = u.Close()
		}
	}
}

func (t *backendTarget) stats() (all []UpstreamStats) {
	for i := range t.upstreams {
		if u := t.upstreams[i].conn.Load(); u != nil {
			all = append(all, UpstreamStats{Protocol: resp.RESP2 + resp.Protocol(i), Stats: u.Stats()}) //nolint:gosec // 0 or 1
		}
	}
	return all
}

// dirty asks the back end. It leaves out the clients for which no answer comes in time.
func (t *backendTarget) dirty(ctx context.Context, among []*session) map[*session]bool {
	asked := []string{"CLIENT", "LIST", "ID"}
	of := make(map[string]*session)
	for _, c := range among {
		if id, watches := directOf(c).watches(); watches {
			text := strconv.FormatInt(id, 10)
			asked, of[text] = append(asked, text), c
		}
	}
	if len(of) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	u, err := t.control()
	if err != nil {
		return nil
	}
	v, _ := askOn(ctx, u, asked...)
	text, _ := v.(string)
	dirty := make(map[*session]bool)
	for line := range strings.Lines(text) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		_, rest, _ = strings.Cut(rest, " flags=")
		flags, _, _ := strings.Cut(rest, " ")
		if c := of[id]; c != nil && strings.Contains(flags, "d") {
			dirty[c] = true
		}
	}
	return dirty
}

// A direct is what the routes to one back end have in common: the client's own connections to it.
type direct struct {
	*session

	target *backendTarget
	self   route                     // the route that this is part of
	own    atomic.Pointer[dedicated] // nil: the client has no connection of its own
	inbox  inbox
}

// directOf returns what a session in front of one back end has of its own.
func directOf(c *session) *direct {
	return c.route.(interface{ base() *direct }).base() //nolint:forcetypeassert // all routes of a backendTarget have one
}

func (r *direct) base() *direct { return r }

// run runs a command, in the way that single, inprocess and dedicated have in common.
func (r *direct) run(h *handler, args [][]byte, raw []byte) {
	if h == nil {
		r.as(Passed)
		r.carrier.forward(raw, nil)
		return
	}
	r.handle(h, args, raw)
}

// extends lets a back end that has the module run its commands.
func (r *direct) extends(h *handler, args [][]byte, raw []byte) bool {
	e := h.command
	if e.Module && r.srv.module(r.ctx) {
		r.as(Passed)
		r.carrier.forward(raw, nil)
		return false
	}
	r.srv.stats.extension[h.index].Add(1)
	if fault := e.CheckArity(len(args)); fault != "" {
		r.reject(fault)
		return false
	}
	return true
}

func (r *direct) queue([]byte, translate) {
	panic("server: a transaction without its own connection")
}
func (r *direct) hello(resp.Protocol, []any) (answered, ok bool) { return false, true }
func (r *direct) abandon(text string)                            { r.fail(text) }
func (r *direct) reset()                                         {}
func (r *direct) cannotWait() string                             { return "" }
func (r *direct) occupies() bool                                 { return false }
func (r *direct) watchesKeys() bool                              { return false }
func (r *direct) hangUp(time.Time)                               {}

// client runs the subcommands of CLIENT that are about the connection to the back end. A subcommand
// that changes the connection moves the client to one of its own first, so that OK is true.
func (r *direct) client(sub string, args [][]byte, raw []byte) bool {
	switch sub {
	case "tracking":
		if r.own.Load() == nil && len(args) == 3 && strings.EqualFold(string(args[2]), "OFF") {
			r.ok()
		} else if d := r.dedicate(); d != nil {
			d.track(args, raw)
		}
	case "caching", "no-touch":
		if d := r.dedicate(); d != nil {
			d.forward(raw, nil)
		}
	case "getredir", "trackinginfo", "help":
		r.carrier.forward(raw, nil) // a client without its own connection tracks nothing, as the shared one
	default:
		return false
	}
	return true
}

// dedicate makes a connection of the client's own its carrier, with its protocol and name, once
// everything that it sent before has been answered. It returns nil when the command has been
// answered with an error instead.
func (r *direct) dedicate() *dedicated {
	if d := r.own.Load(); d != nil {
		return d
	}
	if !r.quiesce() {
		return nil
	}
	opts := r.target.options(r.protocol)
	opts.Scripts = nil // the shared connection has loaded them; one that is missing is sent again
	if e, ok := opts.Backend.(limiter); ok {
		opts.Backend = limited{opts.Backend, e, r.session}
	}
	var setup [][]string
	if name := r.info.get().name; name != "" {
		setup = append(setup, []string{"CLIENT", "SETNAME", name})
	}
	ctx, cancel := context.WithTimeout(r.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	d := &dedicated{direct: r}
	var err error
	if d.conn, err = proxy.OpenDedicated(ctx, opts, d, setup...); err != nil {
		r.refused(err)
		return nil
	}
	r.srv.stats.dedicated.Add(1)
	r.out.alone.Store(true)
	r.own.Store(d)
	r.carrier = d
	if r.out.failed() {
		d.conn.Close() // killed meanwhile
	}
	return d
}

// A limiter is an engine as a back end. The scripts on a connection of OpenFor may not run what limits refuse:
// see [Session.SetLimits]. CONFIG there has the server's own settings too.
type limiter interface {
	OpenFor(ctx context.Context, client net.Conn, limits func(digest string, keys [][]byte) (asks, runs func(args [][]byte) string), outer outerSettings) (net.Conn, error)
}

// A limited is a back end for connections of a client, within limits.
type limited struct {
	Backend

	engine limiter
	client *session
}

func (l limited) Open(ctx context.Context) (net.Conn, error) {
	return l.engine.OpenFor(ctx, l.client.conn, l.client.scriptLimits.of, ownSettings{l.client.srv})
}

// refused answers a command for which no connection could be opened.
func (r *direct) refused(cause error) {
	r.srv.stats.backendErrors.Add(1)
	if refused, ok := errors.AsType[resp.Error](cause); ok {
		r.fail(string(refused)) // as the back end put it
		return
	}
	r.scratch = append(r.scratch[:0], proxy.Unreachable(r.target.name(), cause).Reply()...)
	r.reply(r.scratch)
}

func (r *direct) close() {
	if d := r.own.Load(); d != nil {
		d.end()
	}
	r.closeInbox()
}

func (r *direct) forget() {}

func (r *direct) kill() {
	if d := r.own.Load(); d != nil {
		d.conn.Close() // the session may be sending, to a back end that takes nothing
	}
}

func (r *direct) holdings() holdings {
	h := holdings{inbox: r.inbox.conn.Load() != nil}
	if d := r.own.Load(); d != nil {
		h.monitors, h.tracked = d.conn.Monitors(), d.tracked.Load()
		for f := range h.subscriptions {
			h.subscriptions[f] = d.conn.Subscriptions(proxy.Subscription(f)) //nolint:gosec // at most 3
		}
	}
	return h
}

func (r *direct) unblock(ctx context.Context, how proxy.Unblocking) (bool, error) {
	d := r.own.Load()
	if d == nil {
		return false, nil
	}
	u, err := r.target.control()
	if err != nil {
		return false, err
	}
	return d.conn.UnblockOnce(ctx, u, how, r.out.blocked)
}

// watches returns what the back end calls the client's own connection, if keys are watched there.
func (r *direct) watches() (id int64, watches bool) {
	if d := r.own.Load(); d != nil && r.info.get().watches {
		return d.conn.ID()
	}
	return 0, false
}
