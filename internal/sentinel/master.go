package sentinel

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// MasterOptions configure a [Master].
type MasterOptions struct {
	// Name is how the Sentinels call it.
	Name string
	// Label is how errors and logs call it. Defaults to Name.
	Label string
	// Server returns what opens connections to the server at addr.
	Server func(addr string) *proxy.Redis
	// Database is the number of the database that these begin in.
	Database int
}

// A Master is a [proxy.Failover] for the master of a name.
type Master struct {
	opts  MasterOptions
	group *Group

	mu     sync.Mutex
	addr   string          // "": not known
	epoch  uint64          // of the answer that named addr
	asked  time.Time       // when addr was last named; zero after a doubt
	failed bool            // it was not when it was asked for last
	until  context.Context //nolint:containedctx // what Until returns
	move   context.CancelCauseFunc
}

var _ proxy.Failover = (*Master)(nil)

// Master returns the back end for a master, which is asked for from now on.
func (g *Group) Master(o MasterOptions) *Master {
	if o.Label == "" {
		o.Label = o.Name
	}
	m := &Master{opts: o, group: g}
	m.until, m.move = context.WithCancelCause(context.Background())
	g.mu.Lock()
	g.masters = append(g.masters, m)
	g.mu.Unlock()
	g.check()
	return m
}

// Name implements [proxy.Backend].
func (m *Master) Name() string { return m.opts.Label }

// Database implements [proxy.Backend].
func (m *Master) Database() int { return m.opts.Database }

// Open implements [proxy.Backend]. The Sentinels are asked first.
func (m *Master) Open(ctx context.Context) (net.Conn, error) {
	addr := m.fresh()
	if addr == "" {
		var err error
		if addr, err = m.ask(ctx); err != nil {
			return nil, err
		}
	}
	return m.opts.Server(addr).Open(ctx)
}

// Until implements [proxy.Failover].
func (m *Master) Until() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// Doubt implements [proxy.Failover]: the Sentinels are asked anew.
func (m *Master) Doubt() {
	m.mu.Lock()
	m.asked = time.Time{}
	m.mu.Unlock()
	m.group.check()
}

// fresh returns the address if it was named right now: many connections may be opened at
// once.
func (m *Master) fresh() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) < rest/2 {
		return m.addr
	}
	return ""
}

// ask returns the address of the master, as the Sentinels know it or as they last knew it.
func (m *Master) ask(ctx context.Context) (addr string, err error) {
	m.mu.Lock()
	known := m.epoch
	m.mu.Unlock()
	a := m.group.ask(ctx, m.opts.Name, known)
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.err != nil {
		m.fails(a.err)
		if m.addr == "" {
			return "", fmt.Errorf("no Sentinel knows where the master %q is: %w", m.opts.Name, a.err)
		}
		return m.addr, nil
	}
	m.failed = false
	m.learn(a)
	return m.addr, nil
}

// fails logs why nobody says where the master is, once until somebody does. The caller holds mu.
func (m *Master) fails(err error) {
	if m.group.ctx.Err() != nil || m.failed {
		return
	}
	m.failed = true
	m.group.opts.Logger.Warn("no Sentinel says where the master of a server is",
		slog.String("server", m.opts.Label), slog.String("master", m.opts.Name), slog.Any("error", err))
}

// learn takes an answer, and gives up the connections to another server. An answer that is
// older than the last counts only after a doubt, and if it is that of a majority: Sentinels
// may have been set up anew. The caller holds mu.
func (m *Master) learn(a answer) {
	if doubted := m.asked.IsZero(); a.epoch < m.epoch && (!doubted || !a.majority) {
		return
	}
	old := m.addr
	m.addr, m.epoch, m.asked = a.addr, a.epoch, time.Now()
	if old == "" || old == a.addr {
		return
	}
	m.move(fmt.Errorf("the master is another server now: %s", a.addr))
	m.until, m.move = context.WithCancelCause(context.Background())
	m.group.opts.Logger.Info("a server's master has changed", slog.String("server", m.opts.Label),
		slog.String("master", m.opts.Name), slog.String("from", old), slog.String("to", a.addr))
}
