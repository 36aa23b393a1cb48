package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy/memcached"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A memcachedPool is the front of a pool of memcached servers.
type memcachedPool struct {
	*memcached.Pool
	name      string
	flags     serveFlags
	tls       *tls.Config // with the clients
	certified bool        // they need a certificate
	log       *slog.Logger
}

// openMemcachedPool makes what serves a pool of memcached servers.
func openMemcachedPool(c poolfile.Pool, f serveFlags, listen, servers *tls.Config, log *slog.Logger) (front, error) {
	p, err := memcached.New(memcachedOptions(c, f, servers, log))
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	return &memcachedPool{Pool: p, name: c.Name, flags: f, tls: listen, certified: c.ListenTLS.CA != "", log: log}, nil
}

// memcachedMaxValue is the greatest value that memcached can be told to take.
const memcachedMaxValue = 1 << 30

// memcachedOptions are those of the pool that a file describes.
func memcachedOptions(c poolfile.Pool, f serveFlags, servers *tls.Config, log *slog.Logger) memcached.Options {
	opts := memcached.Options{
		Name: c.Name, Hash: c.Hash, Distribution: c.Distribution, Tag: c.HashTag,
		Timeout: -1, MaxClients: f.maxClientsOf(c), MaxInFlight: f.maxPipeline, MaxClientBytes: int(f.maxOutput),
		MaxValue: min(int(f.maxBulk), memcachedMaxValue), IdleTimeout: f.idleTimeout, SlowClient: f.writeTimeout,
		Budget: f.budget, Told: outage.Log(log),
	}
	if c.Timeout > 0 {
		opts.Timeout, opts.DialTimeout = c.Timeout, c.Timeout
	}
	if c.AutoEjectHosts {
		// 0 is what a file may say, and a default of Options.
		opts.FailureLimit, opts.RetryTimeout = max(1, c.ServerFailureLimit), max(time.Millisecond, c.ServerRetryTimeout)
	}
	for _, s := range c.Servers {
		opts.Servers = append(opts.Servers, memcached.Server{
			Server: s.Server, Network: s.Network, Addr: s.Address, TLS: forServer(servers, s.Address),
		})
	}
	return opts
}

// listen warns of an address beyond this machine, where a pool of Redis servers wants
// a password: clients of memcached have none, though they may need a certificate.
func (p *memcachedPool) listen(network, address string) (net.Listener, error) {
	l, err := socket.Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	if p.tls != nil {
		l = tls.NewListener(l, p.tls)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && !p.certified {
		p.log.Warn("whoever reaches this address can read and change everything: memcached has no passwords",
			slog.String("listen", l.Addr().String()))
	}
	return l, nil
}

func (p *memcachedPool) clients() int   { return p.Stats().Clients }
func (p *memcachedPool) digest() string { return p.Digest() }

func (p *memcachedPool) health(context.Context) (up int, down []string) {
	for _, s := range p.Stats().Servers {
		if s.Up {
			up++
		} else {
			down = append(down, s.Name)
		}
	}
	return up, down
}

func (p *memcachedPool) change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error) {
	return p.Change(memcachedOptions(c, p.flags, t.servers, p.log))
}
