package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestPoolCounts: what is counted of a server, while it is well, frozen, late, and killed.
func TestPoolCounts(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) {
		o.Timeout, o.Eject, o.FailureLimit, o.RetryTimeout = 200*time.Millisecond, true, 1000, time.Second
	})
	stats := func() proxy.Stats { return p.pool.Nodes()[1].Stats()[resp.RESP2] }
	const incr = "*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n"
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("SET", "b", "0") == "+OK\r\n" })
	eventually(t, "that is counted", func() bool { return stats().Responses == stats().Requests })
	before := stats()
	if got := w.do("INCR", "b"); got != ":1\r\n" {
		t.Fatal(got)
	}
	eventually(t, "a command is counted", func() bool { return stats().Responses == before.Responses+1 })
	now := stats()
	if now.Requests != before.Requests+1 || now.RequestBytes != before.RequestBytes+uint64(len(incr)) ||
		now.ResponseBytes != before.ResponseBytes+4 || now.InFlight != 0 || now.TimedOut != before.TimedOut {
		t.Errorf("after INCR: %+v, before: %+v", now, before)
	}

	p.nodes[1].Pause()
	w.write(incr + incr)
	eventually(t, "two are in flight", func() bool { s := stats(); return s.InFlight == 2 && s.InFlightBytes == 2*len(incr) })
	for range 2 {
		if got := w.read(); !strings.Contains(got, "no reply from back end redis-2") {
			t.Fatal(got)
		}
	}
	eventually(t, "both are late", func() bool { return stats().TimedOut == now.TimedOut+2 })
	await.Always(t, 100*time.Millisecond, "each is counted once", func() bool { return stats().TimedOut == now.TimedOut+2 })
	p.nodes[1].Resume()
	eventually(t, "both are answered", func() bool { s := stats(); return s.InFlight == 0 && s.Responses == now.Responses+2 })
	if s := stats(); s.InFlightBytes != 0 || s.TimedOut != now.TimedOut+2 || s.Losses != 0 {
		t.Errorf("when all is answered: %+v", s)
	}

	p.nodes[1].Kill()
	eventually(t, "the connection is lost, and cannot be made", func() bool { s := stats(); return s.Losses == 1 && s.Failures > 0 })
	if s := stats(); s.EOFs != 1 || s.Requests != now.Requests+2 || s.Up {
		t.Errorf("after the server was killed: %+v", s)
	}
}

// TestPoolCountsLost: commands in flight when the connection is lost.
func TestPoolCountsLost(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Eject, o.FailureLimit, o.RetryTimeout = true, 1, time.Minute })
	n := p.pool.Nodes()[1]
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("SET", "b", "0") == "+OK\r\n" })
	if !n.EjectedAt().IsZero() {
		t.Errorf("ejected at %v", n.EjectedAt())
	}
	p.nodes[1].Pause()
	began := time.Now()
	w.write("GET b\r\nGET b\r\n")
	eventually(t, "both are in flight", func() bool { return n.Stats()[resp.RESP2].InFlight >= 2 }) // and the question for limits, at times
	p.nodes[1].Kill()
	for range 2 {
		if got := w.read(); !strings.Contains(got, "lost before the reply") {
			t.Fatal(got)
		}
	}
	eventually(t, "they are counted", func() bool { return n.Stats()[resp.RESP2].Lost == 2 })
	eventually(t, "redis-2 is ejected", func() bool { return !n.EjectedAt().IsZero() })
	if at := n.EjectedAt(); at.Before(began) || at.After(time.Now()) {
		t.Errorf("ejected at %v, begun at %v", at, began)
	}
}

// TestPoolCountsClients: how clients end, and parts of commands.
func TestPoolCountsClients(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("MSET", "a", "1", "b", "2") == "+OK\r\n" })
	before := p.Stats()
	if got := w.do("MGET", "a", "b", "c"); !strings.HasPrefix(got, "*3") {
		t.Fatal(got)
	}
	w.do("MGET", "a", "c") // has one server
	if got := p.Stats().Fragments - before.Fragments; got != 2 {
		t.Errorf("%d fragments, want 2", got)
	}
	w.do("QUIT")
	eventually(t, "QUIT is an end", func() bool { return p.Stats().ClientEOFs == before.ClientEOFs+1 })
	_ = dial(t, p.addr).conn.Close()
	eventually(t, "so is closing", func() bool { return p.Stats().ClientEOFs == before.ClientEOFs+2 })
	if n := p.Stats().ClientErrors; n != 0 {
		t.Errorf("%d clients ended by an error", n)
	}
	broken := dial(t, p.addr)
	broken.write("*1\r\n!nonsense\r\n")
	eventually(t, "breaking the protocol is an error", func() bool { return p.Stats().ClientErrors == 1 })
	reset := dial(t, p.addr)
	reset.do("PING")
	_ = reset.conn.(*net.TCPConn).SetLinger(0)
	_ = reset.conn.Close()
	eventually(t, "so is a reset", func() bool { return p.Stats().ClientErrors == 2 })
	if n := p.Stats().ClientEOFs; n != before.ClientEOFs+2 {
		t.Errorf("%d clients ended well, want 2 more than %d", n, before.ClientEOFs)
	}
}
