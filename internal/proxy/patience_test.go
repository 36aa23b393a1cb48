package proxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// patientUpstream returns the connection to a server of a pool with this patience, once it is there.
func patientUpstream(t *testing.T, s *redistest.Server, most time.Duration) *proxy.Upstream {
	t.Helper()
	p, err := proxy.NewPool(proxy.PoolOptions{Name: "alpha", Patience: most, Servers: []proxy.PoolServer{
		{Server: ring.Server{Name: "one", Weight: 1}, Backend: &proxy.Redis{Addr: s.Addr()}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	u, err := p.Nodes()[0].Upstream(resp.RESP2)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

func lose(t *testing.T, s *redistest.Server, u *proxy.Upstream) {
	t.Helper()
	s.Kill()
	await.Soon(t, "the connection is lost", func() bool { return u.Stats().Losses == 1 })
}

// TestPatience: commands for a lost server wait for the next connection, and are then sent.
func TestPatience(t *testing.T) {
	s := redistest.Start(t)
	u := patientUpstream(t, s, time.Hour)
	lose(t, s, u)
	set := resp.AppendCommand(nil, "SET", "k", "v")
	if err := u.TrySend(newCollector(), 1, 1, set); !errors.Is(err, proxy.ErrConnecting) {
		t.Errorf("what must not wait: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := u.Ready(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ready with a deadline: %v", err)
	}
	c, sent := newCollector(), make(chan error, 1)
	go func() {
		err := u.Send(c, 1, 1, set)
		u.Flush()
		sent <- err
	}()
	await.Soon(t, "it tries to connect", func() bool { return u.Stats().Failures > 1 })
	select {
	case err := <-sent:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	s.Restart()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	c.want(t, 1, "+OK\r\n")
}

// TestPatienceEnds: a server that is not back in time is down, and then commands fail at once.
func TestPatienceEnds(t *testing.T) {
	s := redistest.Start(t)
	u := patientUpstream(t, s, 10*time.Millisecond)
	lose(t, s, u)
	for range 2 {
		if err := u.Send(newCollector(), 1, 1, resp.AppendCommand(nil, "PING")); err == nil {
			t.Error("a server that is down has taken a command")
		}
	}
	s.Restart()
	await.Soon(t, "it is back", func() bool { return u.Ready(t.Context()) == nil })
}

// TestPatienceClosed: Close ends the waiting.
func TestPatienceClosed(t *testing.T) {
	s := redistest.Start(t)
	u := patientUpstream(t, s, time.Hour)
	lose(t, s, u)
	sent := make(chan error, 1)
	go func() { sent <- u.Send(newCollector(), 1, 1, resp.AppendCommand(nil, "PING")) }()
	await.Soon(t, "it tries to connect", func() bool { return u.Stats().Failures > 1 })
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err == nil {
		t.Error("a closed upstream has taken a command")
	}
}
