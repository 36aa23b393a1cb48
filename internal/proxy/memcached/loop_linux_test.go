package memcached

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestManyClients: clients that are idle have no goroutines, and are served.
func TestManyClients(t *testing.T) {
	const n = 300
	w := newEnv(t, 2, nil)
	dial(t, w.addr).ask("get a")
	before := runtime.NumGoroutine()
	all := make([]*user, n)
	for i := range all {
		all[i] = dial(t, w.addr)
		if got := all[i].ask("set k%d 0 0 1\r\nx", i); got != "STORED" {
			t.Fatal(got)
		}
	}
	await.Until(t, within, "no goroutines for idle clients", func() bool { return runtime.NumGoroutine() < before+n/10 })
	for i, u := range all {
		if got, want := u.ask("get k%d k%d", i, (i+1)%n), "VALUE k"; !strings.HasPrefix(got, want) {
			t.Fatalf("client %d: %q", i, got)
		}
	}
}

// TestWaitingClientLeavesItsLoop: a client that waits for a server that hangs, with a full buffer, holds up no client of the
// same goroutine.
//
// Promise: A client that waits, for its own answers or for room at a server, holds up no other
// client.
func TestWaitingClientLeavesItsLoop(t *testing.T) {
	const waiting, each = 20, 20
	w := newEnv(t, 2, func(o *Options) { o.Timeout, o.MaxInFlight, o.MaxPending = -1, each/2, 4<<10 })
	of := w.keysOf(1)
	frozen, well := of[0][0], of[1][0]
	u := dial(t, w.addr)
	if got := u.ask("set %s 0 0 1\r\n0", frozen); got != "STORED" {
		t.Fatal(got)
	}
	w.servers[0].Pause()
	all := make([]*user, waiting)
	for i := range all {
		all[i] = dial(t, w.addr)
		all[i].send("%s", strings.Repeat("incr "+frozen+" 1\r\n", each))
		if got := u.ask("touch %s 0", well); got != "NOT_FOUND" {
			t.Fatal(got)
		}
	}
	await.Until(t, within, "all who wait", func() bool { return w.Stats().Servers[0].InFlight == waiting*each/2 })
	if got := u.ask("touch %s 0", well); got != "NOT_FOUND" {
		t.Fatal(got)
	}
	w.servers[0].Resume()
	for _, u := range all {
		last := 0
		for range each {
			var n int
			if l := u.line(); l == "" {
				t.Fatal("nothing")
			} else if _, err := fmt.Sscan(l, &n); err != nil || n <= last {
				t.Fatalf("%q after %d", l, last)
			}
			last++
		}
	}
	// They go on.
	for _, u := range all {
		if got := u.ask("get nothing"); got != "END" {
			t.Error(got)
		}
	}
}

// TestFullServer: only the clients of a server that takes no more bytes wait.
//
// Promise: A client that waits, for its own answers or for room at a server, holds up no other
// client.
func TestFullServer(t *testing.T) {
	const clients, each = 4, 10
	w := newEnv(t, 2, func(o *Options) { o.Timeout, o.MaxPending = -1, 64<<10 })
	of := w.keysOf(1)
	u := dial(t, w.addr)
	await.Until(t, within, "a connection", func() bool { return w.Stats().Servers[0].Up })
	w.servers[0].Pause()
	value := strings.Repeat("v", 1000<<10)
	all := make([]*user, clients)
	for i := range all {
		all[i] = dial(t, w.addr)
		text := strings.Repeat(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", of[0][0], len(value), value), each)
		go func() { _, _ = io.WriteString(all[i].conn, text) }()
	}
	await.Until(t, within, "no more is taken", func() bool {
		if got := u.ask("touch %s 0", of[1][0]); got != "NOT_FOUND" {
			t.Fatal(got)
		}
		return w.Stats().Servers[0].Pending > 64<<10
	})
	for range 100 {
		if got := u.ask("touch %s 0", of[1][0]); got != "NOT_FOUND" {
			t.Fatal(got)
		}
	}
	w.servers[0].Resume()
	for _, u := range all {
		for range each {
			u.want("STORED")
		}
	}
}

// TestLastWords: a client that sends no more is answered before its end, whether that
// comes with what it sent or later.
func TestLastWords(t *testing.T) {
	w := newEnv(t, 1, nil)
	value := strings.Repeat("v", 3<<20/2) // for which a client leaves the loop
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"delete a\r\n", "NOT_FOUND\r\n"},
		{"delete a\r\nincom", "NOT_FOUND\r\n"},
		{strings.Repeat("delete a\r\n", 5000), strings.Repeat("NOT_FOUND\r\n", 5000)},
		{"set a 0 0 1572864\r\n" + value + "\r\ndelete a\r\n", "SERVER_ERROR object too large for cache\r\nNOT_FOUND\r\n"},
	} {
		u := dial(t, w.addr)
		go func() {
			_, _ = io.WriteString(u.conn, c.text)
			_ = u.conn.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(u.r); string(got) != c.want || err != nil {
			t.Errorf("to %.30q came %.200q, %v", c.text, got, err)
		}
	}
	await.Until(t, within, "nobody", func() bool { return w.Stats().Clients == 0 })
}

// TestIdleInLoop: a client that has sent a command is not idle, and a client that waits for an
// answer gets it.
func TestIdleInLoop(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.IdleTimeout = time.Hour })
	busy, idle := dial(t, w.addr), dial(t, w.addr)
	await.Until(t, within, "a connection", func() bool { return w.Stats().Servers[0].Up })
	w.servers[0].Pause()
	idle.send("get a\r\n")
	await.Until(t, within, "one", func() bool { return w.Stats().Servers[0].InFlight == 1 })
	since := time.Now()
	busy.ask("verb")
	for _, l := range w.loops {
		l.endIdle(since)
	}
	w.servers[0].Resume()
	idle.want("END")
	idle.wantEnd()
	if got := busy.ask("verb"); got != "ERROR" {
		t.Error(got)
	}
	if n := w.Stats().Idle; n != 1 {
		t.Errorf("%d clients were idle", n)
	}
}
