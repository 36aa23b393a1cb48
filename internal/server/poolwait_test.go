package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestPoolScripts: scripts are loaded on all servers, run on that of their keys, and one
// that is missing is the client's affair.
func TestPoolScripts(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	if got := w.do("EVALSHA", strings.Repeat("0", 40), "1", "b"); !strings.HasPrefix(got, "-NOSCRIPT ") {
		t.Errorf("EVALSHA: %q", got)
	}
	digest := fmt.Sprint(w.value("SCRIPT", "LOAD", "return KEYS[1]"))
	for _, k := range []string{"a", "b"} {
		w.want(bulk(k), "EVALSHA "+digest+" 1 "+k)
	}
	w.want("*1\r\n:1\r\n", "SCRIPT EXISTS "+digest)
	p.nodes[1].CLI("SCRIPT", "FLUSH")
	w.want("*1\r\n:0\r\n", "SCRIPT EXISTS "+digest)
}

// TestPoolScatters: where a key has no server of its own, what depends on one is refused.
func TestPoolScatters(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Distribution, o.Tag = ring.Random, "{}" })
	w := dial(t, p.addr)
	for _, c := range []string{"BLPOP a 0", "WATCH a", "SUBSCRIBE a", "LOCK.ACQUIRE a 1000"} {
		if got := w.do(strings.Fields(c)...); !strings.Contains(got, "is refused where distribution is random") {
			t.Errorf("%s: %q", c, got)
		}
	}
	w.want("+OK\r\n", "MULTI")
	if got := w.do("GET", "a"); !strings.Contains(got, "GET is refused where distribution is random") {
		t.Errorf("GET in a transaction: %q", got)
	}
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	for range 20 {
		w.want("*2\r\n$-1\r\n$-1\r\n", "MGET a b")
	}
}

// TestPoolWaits: extension commands wait through a pool for what happens on the servers
// of their keys, and one that is down holds nobody else up.
func TestPoolWaits(t *testing.T) {
	slow.Test(t, "servers of a pool stop while clients wait")
	p := startPool(t, 3, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	names := make([]string, 3) // a name on each server
	for i := 0; slices.Contains(names, ""); i++ {
		n := fmt.Sprintf("n%d", i)
		names[slices.Index(p.pool.Nodes(), p.pool.Pick([]byte(n)))] = n
	}
	other := dial(t, p.addr)
	round := func(names []string) {
		t.Helper()
		for at, n := range names {
			p.waits(t, other, p.nodes[at], n)
		}
	}
	round(names)
	p.nodes[2].Kill()
	eventually(t, "the loss is known", func() bool { return !p.pool.Nodes()[2].Up() })
	round(names[:2])
	if got := other.do("LOCK.ACQUIRE", names[2], "1000", "BLOCK", "0"); !strings.Contains(got, "redis-3") {
		t.Errorf("on the server that is down: %q", got)
	}
	p.nodes[2].Restart()
	eventually(t, "it is back", func() bool { return p.pool.Nodes()[2].Up() })
	round(names)
}

// waits has clients wait for the lock, the queue and the limit called name, which are on
// node.
func (p *poolOf) waits(t *testing.T, other *wire, node *redistest.Server, name string) {
	t.Helper()
	w := dial(t, p.addr)
	if got := other.do("LOCK.ACQUIRE", name, "600000", "ID", "me"); !strings.HasPrefix(got, "*3\r\n"+bulk("me")) {
		t.Fatalf("LOCK.ACQUIRE %s: %q", name, got)
	}
	w.send("LOCK.ACQUIRE", name, "600000", "BLOCK", "0", "ID", "you")
	eventually(t, "it waits", func() bool { return strings.Contains(other.do("LOCK.INFO", name), bulk("waiters")+":1\r\n") })
	other.want(":1\r\n", "LOCK.RELEASE "+name+" me")
	if got := w.read(); !strings.HasPrefix(got, "*3\r\n"+bulk("you")) {
		t.Errorf("LOCK.ACQUIRE %s BLOCK: %q", name, got)
	}
	other.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 1000 BLOCK 10")
	w.want(":1\r\n", "LOCK.RELEASE "+name+" you")

	blocked := func() bool { return strings.Contains(node.CLI("INFO", "clients"), "blocked_clients:1") }
	w.send("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
	eventually(t, "it waits", blocked)
	other.do("QUEUE.PUT", name, "hello", "ID", "m")
	if got := messages(t, w.read()); len(got) != 1 || got[0].payload != "hello" {
		t.Errorf("QUEUE.TAKE %s: %+v", name, got)
	}
	limited(t, w, "LIMIT.WAIT "+name+" 1 2 30 2", 1)
	eventually(t, "nothing waits", func() bool { return !blocked() })
	node.CLI("FLUSHALL")
}

// TestPoolWaitsInBothProtocols: whoever waits for a lock or a permit is woken, on whichever server
// it is, when the client that gives it back speaks the other version of RESP.
func TestPoolWaitsInBothProtocols(t *testing.T) {
	p := startPool(t, 3, tagged)
	p.waitsInBothProtocols(t)
}

func (p *poolOf) waitsInBothProtocols(t *testing.T) {
	const ttl = " 600000 "
	for i, n := range p.namesOn() {
		for of, c := range map[string]struct{ hold, wait, info, release string }{
			"lock":      {"LOCK.ACQUIRE " + n + ttl, "LOCK.ACQUIRE " + n + ttl + "BLOCK 0 ", "LOCK.INFO " + n, "LOCK.RELEASE " + n},
			"fair":      {"LOCK.ACQUIRE " + n + ttl, "LOCK.ACQUIRE " + n + ttl + "FAIR BLOCK 0 ", "LOCK.INFO " + n, "LOCK.RELEASE " + n},
			"shared":    {"LOCK.ACQUIRE " + n + ttl, "LOCK.ACQUIRE " + n + ttl + "SHARED BLOCK 0 ", "LOCK.INFO " + n, "LOCK.RELEASE " + n},
			"semaphore": {"SEM.ACQUIRE " + n + " 1" + ttl, "SEM.ACQUIRE " + n + " 1" + ttl + "BLOCK 0 ", "SEM.INFO " + n, "SEM.RELEASE " + n},
		} {
			for _, waiter := range []string{"2", "3"} {
				me, you := "me"+of+waiter, "you"+of+waiter
				holds, waits := dial(t, p.addr), dial(t, p.addr)
				waits.do("HELLO", waiter)
				holds.do("HELLO", map[string]string{"2": "3", "3": "2"}[waiter])
				if got := holds.do(strings.Fields(c.hold + "ID " + me)...); !strings.HasPrefix(got, "*3\r\n"+bulk(me)) {
					t.Fatalf("%s %d: %q", of, i, got)
				}
				waits.send(strings.Fields(c.wait + "ID " + you)...)
				look := dial(t, p.addr)
				eventually(t, of+" in RESP"+waiter+": it waits", func() bool {
					return strings.Contains(look.do(strings.Fields(c.info)...), bulk("waiters")+":1\r\n")
				})
				holds.want(":1\r\n", c.release+" "+me)
				if got := waits.read(); !strings.HasPrefix(got, "*3\r\n"+bulk(you)) {
					t.Fatalf("%s %d in RESP%s: %q", of, i, waiter, got)
				}
				waits.want(":1\r\n", c.release+" "+you)
			}
		}
	}
}

// TestPoolMissedWake: a client that waits for a lock tries again once its server is back,
// because it has missed the wake-ups that the server published meanwhile.
func TestPoolMissedWake(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	w, other := dial(t, p.addr), dial(t, p.addr)
	if got := other.do("LOCK.ACQUIRE", "b", "600000"); !strings.HasPrefix(got, "*3\r\n") {
		t.Fatal(got)
	}
	w.send("LOCK.ACQUIRE", "b", "600000", "BLOCK", "0", "ID", "you")
	eventually(t, "it waits", func() bool { return strings.Contains(other.do("LOCK.INFO", "b"), bulk("waiters")+":1\r\n") })
	p.nodes[1].CLI("FLUSHALL") // it publishes nothing
	p.nodes[1].CLI("CLIENT", "KILL", "TYPE", "pubsub")
	if got := w.read(); !strings.HasPrefix(got, "*3\r\n"+bulk("you")) {
		t.Errorf("LOCK.ACQUIRE: %q", got)
	}
}

// TestPoolWaitsOnNewServers: a change of servers wakes a waiter, and so do the new servers.
func TestPoolWaitsOnNewServers(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	w, other := dial(t, p.addr), dial(t, p.addr)
	if got := other.do("LOCK.ACQUIRE", "a", "600000"); !strings.HasPrefix(got, "*3\r\n") {
		t.Fatal(got)
	}
	w.send("LOCK.ACQUIRE", "a", "600000", "BLOCK", "0", "ID", "you")
	eventually(t, "it waits", func() bool { return strings.Contains(other.do("LOCK.INFO", "a"), bulk("waiters")+":1\r\n") })
	_ = p.change(t, withoutFirst).Close()
	if got := w.read(); !strings.HasPrefix(got, "*3\r\n"+bulk("you")) {
		t.Errorf("LOCK.ACQUIRE: %q", got)
	}
	p.nodes[1].CLI("FLUSHALL")
	p.waits(t, other, p.nodes[1], "a")
}
