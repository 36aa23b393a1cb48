package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/command"
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
	slow      *proxy.SlowLog // nil: none is kept
	pool      atomic.Pointer[proxy.Pool]
	sentinels *sentinel.Group // of pool; nil: none. Of the goroutine that reloads
}

// openRedisPool makes what serves a pool of Redis servers.
func openRedisPool(c poolfile.Pool, f serveFlags, password string, listen *tls.Config, t poolTLS, log *slog.Logger) (_ front, err error) {
	var slow *proxy.SlowLog
	if f.slowerThan >= 0 {
		slow = proxy.NewSlowLog(f.slowerThan, f.slowMaxLen)
	}
	pool, sentinels, err := newPool(c, t, slow, log)
	if err != nil {
		return nil, fail(exitUsage, err)
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
		Pool: pool, Strict: f.strict, Password: clients.Password, Users: clients.Users, TLS: listen, Limits: resp.Limits{MaxBulk: int(f.maxBulk)},
		MaxClients: f.maxClientsOf(c), MaxPipeline: f.maxPipeline, MaxOutput: int(f.maxOutput),
		IdleTimeout: f.idleTimeout, WriteTimeout: f.writeTimeout, Budget: f.budget, Logger: log,
	})
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	if c.Preconnect {
		for _, n := range pool.Nodes() {
			if _, err := n.Upstream(resp.RESP2); err != nil {
				return nil, fail(exitFault, err)
			}
		}
	}
	return p, nil
}

// clientsOf returns the options that say who the clients of a pool may be. The password of the flag
// is for pools that say nothing.
func clientsOf(c poolfile.Pool, password string) server.Options {
	o := server.Options{Users: usersOf(c)}
	if !hasDefaultUser(c) {
		o.Password = cmp.Or(c.RedisAuth, password)
	}
	return o
}

// hasDefaultUser reports whether the default user is one of those that the file names.
func hasDefaultUser(c poolfile.Pool) bool {
	return slices.ContainsFunc(c.Users, func(u poolfile.User) bool { return u.Name == "default" })
}

// usersOf returns the rules of a pool's users.
func usersOf(c poolfile.Pool) map[string]string {
	users := make(map[string]string, len(c.Users))
	for _, u := range c.Users {
		users[u.Name] = u.Rules
	}
	return users
}

// newPool returns the pool that a file describes, and its Sentinels if it has any.
func newPool(c poolfile.Pool, t poolTLS, slow *proxy.SlowLog, log *slog.Logger) (_ *proxy.Pool, _ *sentinel.Group, err error) {
	opts := proxy.PoolOptions{Name: c.Name, Hash: c.Hash, Distribution: c.Distribution, Tag: c.HashTag,
		Timeout: max(0, c.Timeout), Timeouts: c.Timeouts, Eject: c.AutoEjectHosts, FailureLimit: c.ServerFailureLimit, RetryTimeout: c.ServerRetryTimeout, SlowLog: slow,
		Told: outage.Log(log)}
	if c.HashTag == "{}" { // else there are no extension commands
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
			Seeds:   c.Cluster,
			Backend: func(addr string) proxy.Backend { return redis("tcp", addr, addr) },
			Told:    func(masters []string, err error) { tellNodes(log, masters, err) },
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

// tellNodes logs what has become known of a cluster.
func tellNodes(log *slog.Logger, masters []string, err error) {
	if err != nil {
		log.Error("the nodes of a cluster can't be found out", slog.Any("error", err))
		return
	}
	log.Info("the masters of a cluster", slog.Any("masters", masters))
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

// serverLabel is how errors call a server: by its name, and where it is.
func serverLabel(s poolfile.Server) string {
	if s.Name == s.Address {
		return s.Name
	}
	return s.Name + " (" + s.Address + ")"
}

// Close implements front.
func (p *redisPool) Close() error {
	err := p.Server.Close()
	closePool(p.pool.Load(), p.sentinels)
	return err
}

func (p *redisPool) listen(network, address string) (net.Listener, error) {
	return p.Listen(network, address)
}

func (p *redisPool) clients() int   { return p.Stats().Clients }
func (p *redisPool) digest() string { return p.pool.Load().Digest() }

// health connects to the servers that nobody has used.
func (p *redisPool) health(ctx context.Context) (up int, down []string) {
	for _, n := range p.pool.Load().Nodes() {
		if u, err := n.Upstream(resp.RESP2); err == nil {
			_ = u.Ready(ctx) // the first attempt is over
		}
		if n.Up() {
			up++
		} else {
			down = append(down, n.Name())
		}
	}
	return up, down
}

func (p *redisPool) change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error) {
	pool, sentinels, err := newPool(c, t, p.slow, p.log)
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
