package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// TestPoolTransaction: a transaction runs as one on the server of its keys, and a key
// of another server is refused before anything is run.
//
// Promise: A transaction goes to the server of its keys as one.
func TestPoolTransaction(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	w, other := dial(t, p.addr), dial(t, p.addr)
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "PING")
	w.want("+QUEUED\r\n", "SET a 1")
	w.want("+QUEUED\r\n", "INCR a")
	w.want("+QUEUED\r\n", "LPUSH a x") // fails when it is run
	w.want("+QUEUED\r\n", "LOCK.ACQUIRE a 60000 ID me")
	w.want("+QUEUED\r\n", "CLIENT GETNAME")
	w.want("+QUEUED\r\n", "MGET a c")
	w.want("+QUEUED\r\n", "SELECT 0")
	other.want("$-1\r\n", "GET a")
	got := w.do("EXEC")
	if !strings.HasPrefix(got, "*8\r\n+PONG\r\n+OK\r\n:2\r\n-WRONGTYPE ") || !strings.Contains(got, "*3\r\n$2\r\nme\r\n:") ||
		!strings.HasSuffix(got, ":60000\r\n$-1\r\n*2\r\n$1\r\n2\r\n$-1\r\n+OK\r\n") {
		t.Errorf("EXEC: %q", got)
	}
	if n := p.Stats().Dedicated; n != 0 {
		t.Errorf("%d connections of clients' own", n)
	}

	for _, c := range []struct{ queued, want string }{
		{"SET b 2", "-ERR redoubt: the keys of SET belong to another server of the pool than the earlier keys of the transaction"},
		{"MSET a 1 b 2", "-CROSSSLOT redoubt: the keys of MSET belong to several servers"},
		{"LOCK.ACQUIRE b 60000", "-ERR redoubt: the keys of LOCK.ACQUIRE belong to another server"},
		{"DBSIZE", "-ERR redoubt: DBSIZE is not supported inside a transaction"},
		{"SUBSCRIBE x", "-ERR redoubt: SUBSCRIBE is not supported inside a transaction"},
		{"SELECT 1", "-ERR redoubt: SELECT is not supported inside a transaction"},
		{"FOO a", "-ERR unknown command 'FOO'"},
		{"GET", "-ERR wrong number of arguments for 'get' command"},
		{"LOCK.RELEASE", "-ERR wrong number of arguments for 'lock.release' command"},
		{"EVAL return(1) 0", "-ERR redoubt: EVAL is not supported inside a transaction"},
	} {
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "SET a not")
		if got := w.do(strings.Fields(c.queued)...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.queued, got, c.want)
		}
		w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	}
	w.want(bulk("2"), "GET a")

	for _, c := range []struct{ command, want string }{
		{"EXEC", "-ERR EXEC without MULTI\r\n"},
		{"DISCARD", "-ERR DISCARD without MULTI\r\n"},
		{"MULTI", "+OK\r\n"},
		{"MULTI", "-ERR MULTI calls can not be nested\r\n"},
		{"WATCH a", "-ERR WATCH inside MULTI is not allowed\r\n"},
		{"SET a gone", "+QUEUED\r\n"},
		{"DISCARD", "+OK\r\n"},
		{"MULTI", "+OK\r\n"},
		{"EXEC", "*0\r\n"},
		{"MULTI", "+OK\r\n"},
		{"BLPOP none 0", "+QUEUED\r\n"}, // in a transaction it doesn't wait
		{"EXEC", "*1\r\n*-1\r\n"},
		{"GET a", bulk("2")},
	} {
		w.want(c.want, c.command)
	}

	// An error of the server while it queues comes with EXEC.
	p.nodes[0].CLI("CONFIG", "SET", "maxmemory", "1")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET a big")
	if got := w.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT Transaction discarded because of: OOM ") {
		t.Errorf("EXEC without memory: %q", got)
	}
}

// TestPoolWatch: EXEC notices a change of a watched key, on one server. The next client that
// needs a connection gets the one that held the watch.
//
// Promise: A command that occupies a connection borrows one in front of a pool.
func TestPoolWatch(t *testing.T) {
	p := startPool(t, 2)
	w, other := dial(t, p.addr), dial(t, p.addr)
	w.want("+OK\r\n", "WATCH a c")
	if n := p.Stats().Dedicated; n != 1 {
		t.Errorf("%d connections of clients' own, want 1", n)
	}
	if got := w.do("WATCH", "b"); !strings.HasPrefix(got, "-ERR redoubt: these keys belong to another server") {
		t.Errorf("WATCH of another server: %q", got)
	}
	other.want("+OK\r\n", "SET c 1")
	w.want(bulk("1"), "GET c")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET a 1")
	w.want("*-1\r\n", "EXEC")
	w.want("$-1\r\n", "GET a")

	for _, end := range []string{"EXEC", "DISCARD", "UNWATCH"} { // none leaves the watch behind
		w.want("+OK\r\n", "WATCH a")
		if end != "UNWATCH" {
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "SET a 1")
		}
		w.do(end)
		if n := p.Stats().Dedicated; n != 0 {
			t.Errorf("after %s: %d connections of clients' own", end, n)
		}
		other.want("+OK\r\n", "WATCH c")
		other.want("+OK\r\n", "MULTI")
		other.want("+QUEUED\r\n", "SET c 2")
		w.want("+OK\r\n", "SET a 2")
		other.want("*1\r\n+OK\r\n", "EXEC")
	}
	if n := strings.Count(p.nodes[0].CLI("INFO", "clients"), "connected_clients:3"); n != 1 { // shared, exclusive, and redis-cli's
		t.Errorf("the server's clients: %s", p.nodes[0].CLI("CLIENT", "LIST"))
	}

	// The watched keys have another server now, or their connection was lost.
	w.want("+OK\r\n", "WATCH b")
	p.nodes[1].Kill()
	eventually(t, "the loss is known", func() bool { return !p.pool.Nodes()[1].Up() })
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET b 1")
	if got := w.do("EXEC"); !strings.HasPrefix(got, "-ERR redoubt: ") || !strings.Contains(got, "back end redis-2 ") {
		t.Errorf("EXEC after the loss: %q", got)
	}
	if got := w.do("WATCH", "b"); !strings.HasPrefix(got, "-ERR redoubt: back end redis-2 is unreachable") {
		t.Errorf("WATCH: %q", got)
	}
	w.want("+OK\r\n", "WATCH a")
	_ = w.conn.Close()
	eventually(t, "the connection is closed with the client", func() bool { return p.Stats().Dedicated == 0 })
}

// TestPoolBlocks: a command that waits holds nobody up, is woken, and ends with its
// client.
//
// Promise: A command that occupies a connection borrows one in front of a pool.
func TestPoolBlocks(t *testing.T) {
	p := startPool(t, 2)
	w, other := dial(t, p.addr), dial(t, p.addr)
	blocked := func(n int) func() bool {
		return func() bool {
			return strings.Contains(p.nodes[0].CLI("INFO", "clients"), fmt.Sprintf("blocked_clients:%d", n))
		}
	}
	for _, c := range []struct{ wait, wake, want string }{
		{"BLPOP a c 0", "RPUSH c x", array(bulk("c"), bulk("x"))},
		{"BLMOVE a c LEFT LEFT 0", "RPUSH a y", bulk("y")},
		{"BZPOPMIN a 0", "ZADD a 1 m", array(bulk("a"), bulk("m"), bulk("1"))},
		{"BLMPOP 0 1 a LEFT", "RPUSH a z", array(bulk("a"), array(bulk("z")))},
	} {
		w.write(c.wait + "\r\nPING\r\n")
		eventually(t, c.wait, blocked(1))
		other.do(strings.Fields(c.wake)...)
		w.expect(c.want)
		w.expect("+PONG\r\n")
		other.do("DEL", "a", "c")
	}
	w.want("*-1\r\n", "BLPOP a 0.01")
	if n := p.Stats().Dedicated; n != 0 {
		t.Errorf("%d connections of clients' own", n)
	}
	w.write("BLPOP a 0\r\n")
	eventually(t, "it waits", blocked(1))
	_ = w.conn.Close()
	eventually(t, "it has ended with its client", blocked(0))
	other.want(":1\r\n", "RPUSH a kept")
	other.want(bulk("kept"), "LPOP a")

	// A server that is lost ends the waiting.
	last := dial(t, p.addr)
	last.write("BLPOP a 0\r\n")
	eventually(t, "it waits", blocked(1))
	p.nodes[0].Kill()
	if got := last.read(); !strings.HasPrefix(got, "-ERR redoubt: connection to back end redis-1 lost before the reply") {
		t.Errorf("after the loss: %q", got)
	}
}

// TestPoolMoves: clients that wait or subscribe are told when the servers of the pool change.
func TestPoolMoves(t *testing.T) {
	p := startPool(t, 2)
	waits, listens, watches, queues := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	waits.write("BLPOP a 0\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(p.nodes[0].CLI("INFO", "clients"), "blocked_clients:1") })
	listens.send("SUBSCRIBE", "a")
	listens.expect(array(bulk("subscribe"), bulk("a"), ":1\r\n"))
	watches.want("+OK\r\n", "WATCH a")
	watches.want("+OK\r\n", "MULTI")
	watches.want("+QUEUED\r\n", "SET a 1")
	queues.want("+OK\r\n", "MULTI")
	queues.want("+QUEUED\r\n", "SET a 1")
	more := dial(t, p.addr)
	more.want("+OK\r\n", "WATCH a")
	empty := dial(t, p.addr) // its transaction has no key yet
	empty.want("+OK\r\n", "MULTI")
	old := p.change(t, withoutFirst)
	waits.expect("-UNBLOCKED redoubt: the servers of the pool have changed: ask again\r\n")
	listens.expectClosed()
	watches.want("*-1\r\n", "EXEC")
	queues.want("+QUEUED\r\n", "SET a 2")
	queues.want("-EXECABORT Transaction discarded because of: redoubt: the servers of the pool have changed\r\n", "EXEC")
	empty.want("+QUEUED\r\n", "SET a 3")
	empty.want("*1\r\n+OK\r\n", "EXEC")
	more.want("+OK\r\n", "WATCH a")
	more.want("+OK\r\n", "MULTI")
	more.want("+QUEUED\r\n", "SET a 1")
	more.want("*-1\r\n", "EXEC")
	watches.want("+OK\r\n", "SET a 2")
	if err := old.Retire(t.Context()); err != nil {
		t.Error(err)
	}
	if got := p.nodes[1].CLI("GET", "a"); got != "2" {
		t.Errorf("redis-2 has %q as a", got)
	}
}

// TestPoolLargeTransaction: what a pool keeps until EXEC has a limit.
func TestPoolLargeTransaction(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	value := strings.Repeat("v", 4<<20)
	w.want("+OK\r\n", "MULTI")
	for range 3 {
		w.want("+QUEUED\r\n", "SET a "+value)
	}
	if got := w.do("SET", "a", value); !strings.HasPrefix(got, "-ERR redoubt: the commands of this transaction") {
		t.Errorf("the fourth: %.100q", got)
	}
	w.want("+QUEUED\r\n", "SET a "+value)
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	// So have the answers that it is known to get.
	w.want("+OK\r\n", "MULTI")
	for range 3 {
		w.want("+QUEUED\r\n", "COMMAND GETKEYS LOCK.RELEASE "+value+" id")
	}
	if got := w.do("COMMAND", "GETKEYS", "LOCK.RELEASE", value, "id"); !strings.HasPrefix(got, "-ERR redoubt: the commands of this transaction") {
		t.Fatalf("the fourth: %.100q", got)
	}
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET a small")
	w.want("*1\r\n+OK\r\n", "EXEC")
	w.want(bulk("small"), "GET a")
}

// TestPoolSilentServer: what waits for a server that doesn't answer holds up no reply
// that there is already, and ends with its client's server.
func TestPoolSilentServer(t *testing.T) {
	p := startPool(t, 2)
	w, watches := dial(t, p.addr), dial(t, p.addr)
	w.want("$-1\r\n", "GET a") // connected
	watches.want("+OK\r\n", "WATCH a")
	watches.want("+OK\r\n", "MULTI")
	watches.want("+QUEUED\r\n", "SET a 1")
	p.nodes[0].Pause()
	w.write("PING\r\nWATCH a\r\n")
	w.expect("+PONG\r\n")
	watches.write("EXEC\r\n")
	dial(t, p.addr).want("$-1\r\n", "GET b")
	p.nodes[0].Resume()
	w.expect("+OK\r\n")
	watches.expect("*1\r\n+OK\r\n")

	p.nodes[0].Pause()
	defer p.nodes[0].Resume()
	w.write("PING\r\nUNWATCH\r\n")
	w.expect("+PONG\r\n")
	_ = p.Close() // without it, at once
}

// TestPoolEjectionMoves: an ejection is a change of the servers like any other.
func TestPoolEjectionMoves(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Eject, o.FailureLimit, o.RetryTimeout = true, 1, time.Hour })
	waits, listens, watches, queues := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	queues.want("$-1\r\n", "GET b")
	waits.write("BLPOP b 0\r\n")
	listens.send("SUBSCRIBE", "b")
	listens.expect(array(bulk("subscribe"), bulk("b"), ":1\r\n"))
	watches.want("+OK\r\n", "WATCH a")
	for _, w := range []*wire{watches, queues} {
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "SET a 1")
	}
	eventually(t, "it waits", func() bool { return strings.Contains(p.nodes[1].CLI("INFO", "clients"), "blocked_clients:1") })
	p.nodes[1].Kill()
	eventually(t, "it is out of the ring", func() bool { out, _ := p.pool.Nodes()[1].Ejected(); return out })
	watches.want("*-1\r\n", "EXEC")
	queues.want("-EXECABORT Transaction discarded because of: redoubt: the servers of the pool have changed\r\n", "EXEC")
	waits.expect(string(proxy.Lost("redis-2").Reply()))
	listens.expectClosed()
	watches.want("+OK\r\n", "WATCH b")
	watches.want("+OK\r\n", "MULTI")
	watches.want("+QUEUED\r\n", "SET b 1")
	watches.want("*1\r\n+OK\r\n", "EXEC")
	if got := p.nodes[0].CLI("GET", "b"); got != "1" {
		t.Errorf("redis-1 has %q as b", got)
	}
}
