package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// patientUpstream returns the connection to the server at addr, of a pool with this patience, once it is there.
func patientUpstream(t *testing.T, addr string, most time.Duration) *proxy.Upstream {
	t.Helper()
	p, err := proxy.NewPool(proxy.PoolOptions{Name: "alpha", Patience: most, Servers: []proxy.PoolServer{
		{Server: ring.Server{Name: "one", Weight: 1}, Backend: &proxy.Redis{Addr: addr}},
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
	u := patientUpstream(t, s.Addr(), time.Hour)
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
	u := patientUpstream(t, s.Addr(), 10*time.Millisecond)
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
	u := patientUpstream(t, s.Addr(), time.Hour)
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

// TestReadsAreSentAgain: a command that only reads, and is lost with its connection, is sent again on the next, once. Writes, and whole transactions, are answered with an error: they may have run.
func TestReadsAreSentAgain(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.CLI("SET", "k", "v")
	u := patientUpstream(t, s.Addr(), time.Hour)
	get, set := resp.AppendCommand(nil, "GET", "k"), resp.AppendCommand(nil, "SET", "other", "x")
	script := redoubt.NewScript("reads", "return redis.call('GET', KEYS[1])")
	s.CLI("SCRIPT", "LOAD", script.Source())
	c := newCollector()
	lost := func(tags ...uint64) {
		t.Helper()
		for _, tag := range tags {
			c.wait(t, fmt.Sprint("the error of ", tag), func() bool {
				return strings.Contains(c.replies[tag], "lost before the reply: the command may have run")
			})
		}
	}
	s.Pause()
	for _, err := range []error{
		u.Send(c, 1, 3, slices.Concat(get, set, get)),
		u.Send(c, 4, 1, set),
		u.SendScript(c, 5, &redoubt.Cmd{Script: script, Keys: []string{"k"}, Flags: redoubt.ReadOnly}),
		u.SendScript(c, 6, &redoubt.Cmd{Script: script, Keys: []string{"k"}}),
		u.WithTimeout(0).Whole().Send(c, 7, 3, slices.Concat(resp.AppendCommand(nil, "MULTI"), get, resp.AppendCommand(nil, "EXEC"))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	u.Flush()
	await.Soon(t, "they have left", func() bool { return u.Stats().Pending == 0 })
	lose(t, s, u)
	lost(2, 4, 6, 7, 8, 9)
	s.Restart()
	s.CLI("SCRIPT", "LOAD", script.Source())
	for _, tag := range []uint64{1, 3, 5} {
		c.want(t, tag, "$1\r\nv\r\n")
	}
	// Later reads on the next connection, too.
	s.Pause()
	if err := u.Send(c, 10, 1, get); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	await.Soon(t, "it has left", func() bool { return u.Stats().Pending == 0 })
	s.Kill()
	await.Soon(t, "the connection is lost", func() bool { return u.Stats().Losses == 2 })
	s.Restart()
	c.want(t, 10, "$1\r\nv\r\n")
}

// TestReadsAreSentAgainOnce: a read that is lost twice is answered with an error.
func TestReadsAreSentAgainOnce(t *testing.T) {
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	u := patientUpstream(t, network.Addr(), time.Hour)
	c := newCollector()
	for range 2 {
		network.SwallowNextReply("GET") // and break the connection
	}
	if err := u.Send(c, 1, 1, resp.AppendCommand(nil, "GET", "k")); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	c.wait(t, "the error", func() bool { return strings.Contains(c.replies[1], "lost before the reply") })
	if got := s.CLI("INFO", "commandstats"); !strings.Contains(got, "cmdstat_get:calls=2,") {
		t.Errorf("the server has had it another number of times: %s", got)
	}
}
