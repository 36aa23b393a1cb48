package poolhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/memcached"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// Options are the settings that all pools of a Host share. Fields without a comment mean the same as in
// [server.Options].
type Options struct {
	MaxClients  int // of each pool that doesn't set client_connections
	MaxPipeline int
	MaxBulk     int
	MaxOutput   int

	IdleTimeout  time.Duration
	WriteTimeout time.Duration
	DrainTimeout time.Duration // for the clients of a pool that Reload removes

	Strict        bool          // close clients on commands that twemproxy refuses
	SlowerThan    time.Duration // threshold of INFO slowlog; negative: none is kept
	SlowLogMaxLen int

	Listen func(ctx context.Context, network, address string) (net.Listener, error) // opens sockets; nil: socket.Listen

	Budget *budget.Budget // of the memory of all clients
	// MetricsNames is how many names of each kind the metrics of a pool show; 0: none.
	MetricsNames int
	Logger       *slog.Logger // required
	Version      string       // of this program, for the statistics
}

// A Host serves the pools of a file. Serve, Reload, Shutdown and Close are for one goroutine; the
// other methods may be called concurrently with them.
type Host struct {
	opts     Options
	path     string
	password string
	log      *slog.Logger
	attrs    []any          // logged when a pool begins to serve
	failed   chan error     // a listener ended by itself
	leaving  sync.WaitGroup // removed pools and replaced servers that are being closed
	stats    *statsServer   // nil: none

	mu    sync.Mutex
	pools []*pool
}

// Open listens on the addresses of all pools. It lets no client in before Serve.
func Open(file *File, opts Options) (*Host, error) {
	if opts.Listen == nil {
		opts.Listen = socket.Listen
	}
	h := &Host{opts: opts, path: file.path, password: file.password, log: opts.Logger, failed: make(chan error, 1)}
	for _, c := range file.Pools {
		if err := h.open(c, file.tls[c.Name]); err != nil {
			h.Close()
			return nil, err
		}
	}
	return h, nil
}

// Serve lets clients in and returns. attrs are added to the log line of each pool that begins to
// serve, now or after a reload.
func (h *Host) Serve(attrs ...any) {
	h.attrs = attrs
	for _, p := range h.current() {
		h.serve(p)
	}
}

// Failed returns a channel with the error of the first listener that ended by itself. The error
// matches [ErrListen].
func (h *Host) Failed() <-chan error { return h.failed }

// Clients returns how many clients are connected to all pools.
func (h *Host) Clients() (n int) {
	for _, p := range h.current() {
		n += p.front.clients()
	}
	return n
}

// Shutdown stops listening, lets clients finish the commands that they have sent, and closes them.
// When ctx ends first, it closes all clients and returns the error of ctx.
func (h *Host) Shutdown(ctx context.Context) error {
	pools := h.current()
	errs := make(chan error, len(pools))
	for _, p := range pools {
		go func() { errs <- p.front.Shutdown(ctx) }()
	}
	var err error
	for range pools {
		err = errors.Join(err, <-errs)
	}
	return err
}

// Drained returns what the Shutdown that has returned could not finish.
func (h *Host) Drained() (sum server.Drained) {
	for _, p := range h.current() {
		d := p.front.drained()
		sum.Clients += d.Clients
		sum.Commands += d.Commands
	}
	return sum
}

// Close closes all listeners and connections at once.
func (h *Host) Close() {
	if h.stats != nil {
		h.stats.close()
	}
	for _, p := range h.current() {
		p.close()
	}
	h.leaving.Wait()
}

// A Probe asks which servers of a pool answer, and connects to a server that no client has used yet. It sends no
// command that writes. When ctx ends, the others count as down.
type Probe struct {
	Pool string
	Ask  func(ctx context.Context) (up, down []string)
}

// Probes returns one Probe for each pool that is served.
func (h *Host) Probes() (all []Probe) {
	for _, p := range h.current() {
		all = append(all, Probe{p.name, p.front.health})
	}
	return all
}

// current returns the pools that are served.
func (h *Host) current() []*pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pools)
}

// open opens a pool and adds it to the others.
func (h *Host) open(c poolfile.Pool, t poolTLS) error {
	p, err := openPool(c, t, h.opts, h.password)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.pools = append(h.pools, p)
	h.mu.Unlock()
	return nil
}

// serve lets the clients of a pool in.
func (h *Host) serve(p *pool) {
	password := "none"
	if p.front.needsPassword() {
		password = "required"
	}
	h.log.With(
		slog.String("pool", p.name), slog.String("listen", p.addresses()),
		slog.Int("servers", len(p.conf.Servers)+len(p.conf.Cluster)), slog.String("ring", p.front.digest()),
		slog.String("password", password),
	).Info("serving", h.attrs...)
	for _, l := range p.listening() {
		h.accept(p, l)
	}
}

// accept lets clients in by one address of a pool.
func (h *Host) accept(p *pool, l net.Listener) {
	go func() {
		// A reload closes listeners.
		if err := p.front.Serve(l); !errors.Is(err, server.ErrClosed) && !errors.Is(err, memcached.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case h.failed <- failure(ErrListen, fmt.Errorf("pool %q: listening on %s ended: %w", p.name, l.Addr(), err)):
			default:
			}
		}
	}()
}

// maxClients is how many clients a pool may have.
func (o *Options) maxClients(c poolfile.Pool) int { return cmp.Or(c.ClientConnections, o.MaxClients) }
