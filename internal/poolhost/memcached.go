package poolhost

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/memcached"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// A memcachedPool is the front of a pool of memcached servers.
type memcachedPool struct {
	*memcached.Pool
	name      string
	opts      Options
	tls       *tls.Config // of the clients; nil: plain text
	certified bool        // clients need a certificate
	log       *slog.Logger
}

// openMemcachedPool returns the front of a pool of memcached servers.
func openMemcachedPool(c poolfile.Pool, opts Options, listen, servers *tls.Config, log *slog.Logger) (front, error) {
	p, err := memcached.New(memcachedOptions(c, opts, servers, log))
	if err != nil {
		return nil, failure(ErrConfig, err)
	}
	return &memcachedPool{Pool: p, name: c.Name, opts: opts, tls: listen, certified: c.ListenTLS.CA != "", log: log}, nil
}

// memcachedMaxValue is the largest item size that memcached can be configured for.
const memcachedMaxValue = 1 << 30

// memcachedOptions returns the options of the pool that the file describes.
func memcachedOptions(c poolfile.Pool, o Options, servers *tls.Config, log *slog.Logger) memcached.Options {
	opts := memcached.Options{
		Name: c.Name, Hash: c.Hash, Distribution: c.Distribution, Tag: c.HashTag,
		Timeout: -1, MaxClients: o.maxClients(c), MaxInFlight: o.MaxPipeline, MaxClientBytes: o.MaxOutput,
		MaxValue: min(o.MaxBulk, memcachedMaxValue), IdleTimeout: o.IdleTimeout, SlowClient: o.WriteTimeout,
		Budget: o.Budget, OnChange: outage.Log(log),
	}
	if c.Timeout > 0 {
		opts.Timeout, opts.DialTimeout = c.Timeout, c.Timeout
	}
	if c.AutoEjectHosts {
		// The file may say 0, which means the default in Options.
		opts.FailureLimit, opts.RetryTimeout = max(1, c.ServerFailureLimit), max(time.Millisecond, c.ServerRetryTimeout)
	}
	for _, s := range c.Servers {
		opts.Servers = append(opts.Servers, memcached.Server{
			Server: s.Server, Network: s.Network, Addr: s.Address, TLS: forServer(servers, s.Address),
		})
	}
	return opts
}

// listen warns about an address that other machines reach. A Redis pool needs a password there;
// memcached has no passwords, though its clients may need a certificate.
func (p *memcachedPool) listen(network, address string) (net.Listener, error) {
	l, err := p.opts.Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	if p.tls != nil {
		l = tls.NewListener(l, p.tls)
	}
	if socket.Exposed(l.Addr()) && !p.certified {
		p.log.Warn("memcached has no passwords: any client that reaches this address can read and write everything",
			slog.String("listen", l.Addr().String()))
	}
	return l, nil
}

func (p *memcachedPool) drained() server.Drained { return server.Drained(p.Drained()) }

func (p *memcachedPool) clients() int        { return p.Stats().Clients }
func (p *memcachedPool) needsPassword() bool { return false }
func (p *memcachedPool) digest() string      { return p.Digest() }

func (p *memcachedPool) health(context.Context) (up, down []string) {
	for _, s := range p.Stats().Servers {
		if s.Up {
			up = append(up, s.Name)
		} else {
			down = append(down, s.Name)
		}
	}
	return up, down
}

func (p *memcachedPool) change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error) {
	return p.Change(memcachedOptions(c, p.opts, t.servers, p.log))
}

func (p *memcachedPool) counters() poolCounters {
	st := p.Stats()
	c := poolCounters{
		digest: st.Digest, clients: st.Clients, accepted: st.Accepted, refused: st.Refused,
		eofs: st.EOFs, faults: st.Faults, passed: st.Retrievals + st.Stores + st.Changes + st.Others, local: st.Invalid,
		errors: st.Errors, fragments: st.Fragments, latency: st.Latency, bytesIn: st.BytesIn, bytesOut: st.BytesOut,
	}
	c.hottest = p.HotKeys(1)
	for _, s := range st.Servers {
		c.servers = append(c.servers, serverCounters{
			name: s.Name, addr: s.Addr, ejected: !s.Live, ejections: s.Ejections, ejectedAt: s.EjectedAt,
			shared: []sharedCounters{{"memcached", proxy.Stats{
				Up: s.Up, Connects: s.Connects, Failures: s.DialFailures, Losses: s.Losses, EOFs: s.EOFs,
				Waiting: s.InFlight, Pending: s.Pending, Queued: s.Queued, InFlight: s.InFlight - s.Queued, InFlightBytes: s.InFlightBytes,
				Traffic: proxy.Traffic{
					Requests: s.Sent, RequestBytes: s.SentBytes, Responses: s.Answers, ResponseBytes: s.AnswerBytes,
					TimedOut: s.Timeouts, Lost: s.Lost, Latency: s.Latency,
				},
			}}},
		})
	}
	return c
}
