package poolhost

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/sentinel"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A redisPool is the front of a pool of Redis servers.
type redisPool struct {
	*server.Server
	name      string
	log       *slog.Logger
	slow      *proxy.SlowLog     // may be nil
	watcher   *dashboard.Watcher // nil: names are not read
	pool      atomic.Pointer[proxy.Pool]
	sentinels *sentinel.Group // of pool, may be nil; owned by the goroutine that reloads
}

// openRedisPool returns the front of a pool of Redis servers.
func openRedisPool(c poolfile.Pool, opts Options, password string, listen *tls.Config, t poolTLS, log *slog.Logger) (_ front, err error) {
	var slow *proxy.SlowLog
	if opts.SlowerThan >= 0 {
		slow = proxy.NewSlowLog(opts.SlowerThan, opts.SlowLogMaxLen)
	}
	pool, sentinels, err := newPool(c, t, slow, 0, log)
	if err != nil {
		return nil, failure(ErrConfig, err)
	}
	defer func() {
		if err != nil {
			closePool(pool, sentinels)
		}
	}()
	p := &redisPool{name: c.Name, log: log, slow: slow, sentinels: sentinels}
	p.pool.Store(pool)
	clients := clientsOf(c, password)
	p.Server, err = server.New(server.Options{
		Pool: pool, Strict: opts.Strict, Password: clients.Password, Users: clients.Users, TLS: listen, Limits: resp.Limits{MaxBulk: opts.MaxBulk},
		MaxClients: opts.maxClients(c), MaxPipeline: opts.MaxPipeline, MaxOutput: opts.MaxOutput,
		IdleTimeout: opts.IdleTimeout, WriteTimeout: opts.WriteTimeout, Budget: opts.Budget, Listen: opts.Listen, Logger: log,
	})
	if err != nil {
		return nil, failure(ErrConfig, err)
	}
	if client := p.Client(); client != nil && opts.MetricsNames > 0 {
		p.watcher = dashboard.NewWatcher(client, p.Takers, opts.MetricsNames)
	}
	if c.Preconnect {
		for _, n := range pool.Nodes() {
			if _, err := n.Upstream(resp.RESP2); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// clientsOf returns the password and the users of a pool's clients. password is for pools that set
// none.
func clientsOf(c poolfile.Pool, password string) server.Options {
	o := server.Options{Users: usersOf(c)}
	if !hasDefaultUser(c) {
		o.Password = cmp.Or(c.RedisAuth, password)
	}
	return o
}

// hasDefaultUser reports whether the file sets the rules of the default user.
func hasDefaultUser(c poolfile.Pool) bool {
	return slices.ContainsFunc(c.Users, func(u poolfile.User) bool { return u.Name == "default" })
}

// usersOf returns the rules of each user of a pool.
func usersOf(c poolfile.Pool) map[string]string {
	users := make(map[string]string, len(c.Users))
	for _, u := range c.Users {
		users[u.Name] = u.Rules
	}
	return users
}

// newPool returns the pool that the file describes, and its Sentinels, or nil if it has none. patience is that
// of [proxy.PoolOptions].
func newPool(c poolfile.Pool, t poolTLS, slow *proxy.SlowLog, patience time.Duration, log *slog.Logger) (_ *proxy.Pool, _ *sentinel.Group, err error) {
	opts := proxy.PoolOptions{Name: c.Name, Hash: c.Hash, Distribution: c.Distribution, Tag: c.HashTag,
		Timeout: max(0, c.Timeout), Timeouts: c.Timeouts, Eject: c.AutoEjectHosts, FailureLimit: c.ServerFailureLimit, RetryTimeout: c.ServerRetryTimeout, SlowLog: slow,
		Patience: patience, OnChange: outage.Log(log)}
	if c.HashTag == "{}" { // without it a pool serves no extension commands
		opts.Scripts = command.Scripts()
	}
	redis := func(network, address, label string) *proxy.Redis {
		return &proxy.Redis{
			Network: network, Addr: address, Label: label, Username: c.ServerUser, Password: c.RedisAuth, DB: c.RedisDB,
			TLS: forServer(t.servers, address),
		}
	}
	if c.HasCluster() {
		opts.Cluster = &proxy.Cluster{
			Seeds:    c.Cluster,
			Backend:  func(addr string) proxy.Backend { return redis("tcp", addr, addr) },
			OnChange: func(masters []string, err error) { tellNodes(log, masters, err) },
		}
	}
	sentinels, err := newSentinels(c, t, log)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range c.Servers {
		server := proxy.PoolServer{Server: s.Server}
		if sentinels == nil {
			server.Backend = redis(s.Network, s.Address, serverLabel(s))
		} else {
			m := sentinels.Master(sentinel.MasterOptions{Name: c.MasterOf(s.Name), Label: s.Name, Database: c.RedisDB,
				Server: func(addr string) *proxy.Redis { return redis("tcp", addr, s.Name) }})
			server.Backend = m
			if c.Sentinel.Replicas {
				server.Replicas = append(server.Replicas, m.Replica())
			}
		}
		for _, r := range c.Replicas {
			if r.Of == s.Name {
				server.Replicas = append(server.Replicas, redis("tcp", r.Address, s.Name+" replica "+r.Address))
			}
		}
		opts.Servers = append(opts.Servers, server)
	}
	pool, err := proxy.NewPool(opts)
	if err != nil {
		closePool(nil, sentinels)
		return nil, nil, err
	}
	return pool, sentinels, nil
}

// tellNodes logs the masters of a cluster after they were found or have changed.
func tellNodes(log *slog.Logger, masters []string, err error) {
	if err != nil {
		log.Error("can't find the nodes of a cluster", slog.Any("error", err))
		return
	}
	log.Info("found the masters of a cluster", slog.Any("masters", masters))
}

// newSentinels returns the Sentinels of a pool, or nil if it has none.
func newSentinels(c poolfile.Pool, t poolTLS, log *slog.Logger) (*sentinel.Group, error) {
	if len(c.Sentinel.Addresses) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	return sentinel.New(sentinel.Options{
		Addrs: c.Sentinel.Addresses, Username: c.Sentinel.User, Password: c.Sentinel.Password, Logger: log,
		TLS: func(addr string) *tls.Config { return forServer(t.sentinels, addr) },
	})
}

// closePool closes what newPool returned. Either may be nil.
func closePool(p *proxy.Pool, s *sentinel.Group) {
	if p != nil {
		_ = p.Close()
	}
	if s != nil {
		_ = s.Close()
	}
}

// serverLabel is how errors call a server: its name and its address.
func serverLabel(s poolfile.Server) string {
	if s.Name == s.Address {
		return s.Name
	}
	return s.Name + " (" + s.Address + ")"
}

// Close implements front.
func (p *redisPool) Close() error {
	if p.watcher != nil {
		_ = p.watcher.Close()
	}
	err := p.Server.Close()
	closePool(p.pool.Load(), p.sentinels)
	return err
}

func (p *redisPool) listen(network, address string) (net.Listener, error) {
	return p.Listen(network, address)
}

func (p *redisPool) drained() server.Drained { return p.Drained() }

func (p *redisPool) clients() int        { return p.Stats().Clients }
func (p *redisPool) needsPassword() bool { return !p.Open() }
func (p *redisPool) digest() string      { return p.pool.Load().Digest() }

// health connects to all servers at once: one that is silent takes no time from the others.
func (p *redisPool) health(ctx context.Context) (up, down []string) {
	nodes := p.pool.Load().Nodes()
	for _, n := range nodes {
		_, _ = n.Upstream(resp.RESP2)
	}
	for _, n := range nodes {
		if u, err := n.Upstream(resp.RESP2); err == nil {
			select {
			case <-u.Tried():
			case <-ctx.Done():
			}
		}
		if n.Up() {
			up = append(up, n.Name())
		} else {
			down = append(down, n.Name())
		}
	}
	return up, down
}

func (p *redisPool) change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error) {
	pool, sentinels, err := newPool(c, t, p.slow, 0, p.log)
	if err != nil {
		return nil, err
	}
	old, before := p.SetPool(pool), p.sentinels
	p.pool.Store(pool)
	p.sentinels = sentinels
	return func(ctx context.Context) {
		_ = old.Retire(ctx)
		closePool(nil, before)
	}, nil
}

func (p *redisPool) counters() poolCounters {
	st := p.Stats()
	c := poolCounters{
		digest: p.digest(), clients: st.Clients, accepted: st.Accepted, refused: st.Refused,
		eofs: st.ClientEOFs, faults: st.ClientErrors, passed: st.Commands[server.Passed], local: st.Commands[server.Local],
		errors: st.BackendErrors, fragments: st.Fragments, latency: st.Latency, bytesIn: st.BytesIn, bytesOut: st.BytesOut,
	}
	c.hottest = p.HotKeys(1)
	if p.slow != nil {
		c.slow = p.slow.Total()
	}
	for _, n := range p.pool.Load().Nodes() {
		s := countersOf(n, n.Name())
		s.addr = n.Backend().Name()
		s.ejected, s.ejections = n.Ejected()
		s.ejectedAt = n.EjectedAt()
		c.servers = append(c.servers, s)
		for _, r := range n.Replicas() {
			s := countersOf(r, r.Backend().Name())
			s.replica, s.addr = true, s.name
			c.servers = append(c.servers, s)
		}
	}
	return c
}

// countersOf returns the statistics of the connections to a server or a replica.
func countersOf(n *proxy.Node, name string) serverCounters {
	s := serverCounters{name: name, borrowed: n.Borrowed()}
	s.lent, s.kept = n.Lent()
	for protocol, st := range n.Stats() {
		s.shared = append(s.shared, sharedCounters{"resp" + strconv.Itoa(int(protocol)), st})
	}
	slices.SortFunc(s.shared, func(a, b sharedCounters) int { return cmp.Compare(a.protocol, b.protocol) })
	return s
}
