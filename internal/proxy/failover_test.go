package proxy_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A mover is a proxy.Failover that goes from one server to the next at a doubt, if it may.
type mover struct {
	mu      sync.Mutex
	servers []*redistest.Server // the first is where it leads
	settled bool                // it stays
	doubts  int
	until   context.Context //nolint:containedctx // what Until returns
	give    context.CancelCauseFunc
}

func newMover(servers ...*redistest.Server) *mover {
	m := &mover{servers: servers}
	m.until, m.give = context.WithCancelCause(context.Background())
	return m
}

func (m *mover) Open(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	addr := m.servers[0].Addr()
	m.mu.Unlock()
	return (&proxy.Redis{Addr: addr}).Open(ctx)
}
func (*mover) Name() string  { return "mover" }
func (*mover) Database() int { return 0 }

func (m *mover) Until() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

func (m *mover) Doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubts++
	if m.settled || len(m.servers) == 1 {
		return
	}
	m.servers = m.servers[1:]
	m.give(errors.New("it has moved"))
	m.until, m.give = context.WithCancelCause(context.Background())
}

func movingPool(t *testing.T, m *mover) *proxy.Pool {
	t.Helper()
	p, err := proxy.NewPool(proxy.PoolOptions{Name: "alpha", Hash: ring.MD5, Servers: []proxy.PoolServer{
		{Server: ring.Server{Name: "one", Weight: 1}, Backend: m},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestFailoverGivesUp: a server that answers as a replica is doubted, and what was opened to
// it is given up once the back end has moved.
func TestFailoverGivesUp(t *testing.T) {
	old, now := redistest.Start(t), redistest.Start(t)
	m := newMover(old, now)
	n := movingPool(t, m).Nodes()[0]
	u, err := n.Upstream(resp.RESP2)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	lent, err := n.Borrow(t.Context(), resp.RESP2)
	if err != nil {
		t.Fatal(err)
	}
	listener := newCollector()
	d, err := n.Dedicate(t.Context(), resp.RESP2, listener)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SendExpecting(1, proxy.Expect{Subscription: proxy.Channels, Channels: 1}, resp.AppendCommand(nil, "SUBSCRIBE", "c")); err != nil {
		t.Fatal(err)
	}
	d.Flush()
	listener.wait(t, "the subscription", func() bool { return len(listener.replies) == 1 })

	host, port, _ := net.SplitHostPort(now.Addr())
	old.CLI("REPLICAOF", host, port)
	set := resp.AppendCommand(nil, "SET", "k", "v")
	c := newCollector()
	if err := u.Send(c, 1, 1, set); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	c.wait(t, "the reply", func() bool { return strings.HasPrefix(c.replies[1], "-READONLY ") })
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("its own connection is not given up")
	}
	await.Soon(t, "what was lent is lost", func() bool {
		raw, err := lent.Ask(t.Context(), 1, resp.AppendCommand(nil, "GET", "k"))
		return err != nil || strings.Contains(string(raw), "lost")
	})
	await.Soon(t, "the new server is written to", func() bool {
		if err := u.Send(newCollector(), 1, 1, set); err != nil {
			return false
		}
		u.Flush()
		return now.CLI("GET", "k") == "v"
	})
	lent.Close()
}

// TestFailoverWantsMaster: no connection to a replica counts.
func TestFailoverWantsMaster(t *testing.T) {
	master := redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica := redistest.Start(t, "--replicaof", host, port)
	m := newMover(replica, master)
	m.settled = true
	n := movingPool(t, m).Nodes()[0]
	u, err := n.Upstream(resp.RESP3)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Ready(t.Context()); err == nil || err.Error() != "it is no master: its role is slave" {
		t.Errorf("a replica: %v", err)
	}
	m.mu.Lock()
	if m.settled = false; m.doubts == 0 {
		t.Error("it was not doubted")
	}
	m.mu.Unlock()
	await.Soon(t, "the master counts", func() bool { return u.Ready(t.Context()) == nil })
}
