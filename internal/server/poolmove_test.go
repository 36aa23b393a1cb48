package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
)

// change gives the pool other options under its clients, and returns the one before.
func (p *poolOf) change(t *testing.T, f func(o *proxy.PoolOptions)) (old *proxy.Pool) {
	t.Helper()
	o := p.pool.Options()
	o.Servers = slices.Clone(o.Servers)
	f(&o)
	next, err := proxy.NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	p.pool = next
	return p.SetPool(next)
}

func withoutFirst(o *proxy.PoolOptions) { o.Servers = o.Servers[1:] }

// through has the first server of a pool reached through a network that can be disturbed.
func through(t *testing.T, n **faultnet.Proxy) func(o *proxy.PoolOptions) {
	return func(o *proxy.PoolOptions) {
		b := *o.Servers[0].Backend.(*proxy.Redis)
		*n = faultnet.New(t, b.Addr)
		b.Addr = (*n).Addr()
		o.Servers[0].Backend = &b
	}
}

// blocked reports whether so many clients wait on the first server.
func (p *poolOf) blocked(n string) func() bool {
	return func() bool { return strings.Contains(p.nodes[0].CLI("INFO", "clients"), "blocked_clients:"+n+"\r\n") }
}

// TestPoolMovedWhilePopping: when the keys of a waiting client move to another server, no
// element of the old server is lost, neither one that it has sent already nor a later one.
func TestPoolMovedWhilePopping(t *testing.T) {
	var network *faultnet.Proxy
	p := startPool(t, 2, through(t, &network))
	has, waits := dial(t, p.addr), dial(t, p.addr)
	has.write("BLPOP a 0\r\n")
	waits.write("BLPOP c 0\r\n")
	eventually(t, "they wait", p.blocked("2"))
	network.Blackhole(faultnet.ToClient)
	p.nodes[0].CLI("RPUSH", "a", "x")
	p.change(t, withoutFirst)
	eventually(t, "the server is told", p.blocked("0"))
	p.nodes[0].CLI("RPUSH", "c", "later")
	network.Heal()
	has.expect(array(bulk("a"), bulk("x")))
	waits.expect("-UNBLOCKED redoubt: the servers of the pool have changed: ask again\r\n")
	if n := p.nodes[0].CLI("LLEN", "c"); n != "1" {
		t.Errorf("c has %s elements", n)
	}
	eventually(t, "nobody has a connection of their own", func() bool { return p.Stats().Dedicated == 0 })
}

// TestPoolMovedFromSilentServer: when the old server can't be told, nobody knows whether
// the command has run.
func TestPoolMovedFromSilentServer(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Timeout = 100 * time.Millisecond })
	w := dial(t, p.addr)
	w.write("BLPOP a 0\r\n")
	eventually(t, "it waits", p.blocked("1"))
	p.nodes[0].Pause()
	defer p.nodes[0].Resume()
	p.change(t, withoutFirst)
	if got := w.read(); !strings.HasSuffix(got, ": the command may have run\r\n") {
		t.Errorf("BLPOP: %q", got)
	}
}

// TestPoolDrainedWhileWaiting: what waits when the server ends is ended without anything
// being taken.
func TestPoolDrainedWhileWaiting(t *testing.T) {
	var network *faultnet.Proxy
	p := startPool(t, 1, through(t, &network))
	w := dial(t, p.addr)
	w.write("BLPOP a 0\r\n")
	eventually(t, "it waits", p.blocked("1"))
	network.Blackhole(faultnet.ToClient)
	p.nodes[0].CLI("RPUSH", "a", "x")
	done := make(chan error, 1)
	go func() { done <- p.Shutdown(t.Context()) }()
	eventually(t, "nobody is let in", func() bool {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	network.Heal()
	w.expect(array(bulk("a"), bulk("x")))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPoolOrderWhenMoved: what a client sends after a change of the servers doesn't overtake
// what it has sent before.
func TestPoolOrderWhenMoved(t *testing.T) {
	var network *faultnet.Proxy
	p := startPool(t, 1)
	direct := p.pool.Options()
	p.serve(t, func() proxy.PoolOptions {
		o := direct
		o.Servers = slices.Clone(o.Servers)
		through(t, &network)(&o)
		return o
	}())
	set := func(i, v int) []byte { return resp.AppendCommand(nil, "SET", fmt.Sprint("k", i), strconv.Itoa(v)) }
	clients := make([]*wire, 20)
	for i := range clients {
		clients[i] = dial(t, p.addr)
		clients[i].want("$-1\r\n", "GET k")
	}
	network.Blackhole(faultnet.ToServer)
	for i, w := range clients {
		w.write(string(set(i, 1)))
	}
	eventually(t, "all are sent", func() bool { return p.pool.Nodes()[0].Stats()[resp.RESP2].Waiting == len(clients) })
	p.change(t, func(o *proxy.PoolOptions) { o.Servers = direct.Servers })
	before, n := p.Stats().BytesIn, 0
	for i, w := range clients {
		both := resp.AppendCommand(set(i, 2), "GET", fmt.Sprint("k", i))
		w.write(string(both))
		n += len(both)
	}
	eventually(t, "all are read", func() bool { return p.Stats().BytesIn == before+uint64(n) })
	dial(t, p.addr).want("$-1\r\n", "GET k") // a client without commands under way waits for nobody
	await.Always(t, 100*time.Millisecond, "none has overtaken", func() bool { return p.nodes[0].CLI("DBSIZE") == "0" })
	network.Heal()
	for _, w := range clients {
		w.expect("+OK\r\n")
		w.expect("+OK\r\n")
		w.expect(bulk("2"))
	}
}
