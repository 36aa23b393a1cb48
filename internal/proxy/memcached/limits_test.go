package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestMaxClients: one too many is told so, as memcached does.
func TestMaxClients(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.MaxClients = 2 })
	a, b := dial(t, w.addr), dial(t, w.addr)
	for _, u := range []*user{a, b} {
		if got := u.ask("get a"); got != "END" {
			t.Fatal(got)
		}
	}
	c := dial(t, w.addr)
	c.want("ERROR Too many open connections")
	c.wantEnd()
	a.send("quit\r\n")
	a.wantEnd()
	await.Until(t, within, "room", func() bool { return w.Stats().Clients == 1 })
	if got := dial(t, w.addr).ask("get a"); got != "END" {
		t.Fatal(got)
	}
	if s := w.Stats(); s.Refused != 1 || s.Accepted != 3 {
		t.Errorf("%+v", s)
	}
}

// TestMaxInFlight: no more commands than allowed are read of a client, and the
// others when answers come.
//
// Promise: A client's commands and bytes in flight are bounded.
func TestMaxInFlight(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.MaxInFlight = 10 })
	u := dial(t, w.addr)
	if got := u.ask("get a"); got != "END" {
		t.Fatal(got)
	}
	sent := w.Stats().Servers[0].Sent
	w.servers[0].Pause()
	u.send("%s", strings.Repeat("get a\r\ndelete a noreply\r\n", 500))
	await.Until(t, within, "ten", func() bool { return w.Stats().Servers[0].InFlight == 10 })
	await.Always(t, 50*time.Millisecond, "ten", func() bool { return w.Stats().Servers[0].Sent == sent+10 })
	w.servers[0].Resume()
	for range 500 {
		u.want("END")
	}
}

// TestMaxClientBytes: answers that must wait for others are bounded, and those
// above it are errors in their places.
//
// Promise: A client's commands and bytes in flight are bounded.
func TestMaxClientBytes(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.MaxClientBytes = 250000 })
	of := w.keysOf(1)
	u := dial(t, w.addr)
	value := strings.Repeat("v", 100000)
	u.send("set %s 0 0 %d\r\n%s\r\n", of[1][0], len(value), value)
	u.want("STORED")
	await.Until(t, within, "a connection", func() bool { return w.Stats().Servers[0].Up })
	w.servers[0].Pause()
	w.servers[1].Pause() // until all are on their way: once answers wait, no more is read
	u.send("get %s\r\n%s", of[0][0], strings.Repeat("get "+of[1][0]+"\r\n", 4))
	await.Until(t, within, "four on their way", func() bool { return w.Stats().Servers[1].InFlight == 4 })
	w.servers[1].Resume()
	await.Until(t, within, "four answers", func() bool { return w.Stats().Servers[1].InFlight == 0 })
	w.servers[0].Resume()
	u.want("END")
	values, refused := 0, 0
	for range 4 {
		switch l := u.line(); {
		case strings.HasPrefix(l, "VALUE "):
			u.want(value)
			u.want("END")
			values++
		case l == "SERVER_ERROR redoubt: more than 250000 bytes wait for this client: the command may have run":
			refused++
		default:
			t.Fatalf("%.100q", l)
		}
	}
	if values != 2 || refused != 2 {
		t.Errorf("%d values and %d errors, want 2 and 2", values, refused)
	}
}

// TestSlowClient: a client that doesn't read is disconnected, and others are served
// all the time.
//
// Promise: A client that waits, for its own answers or for room at a server, holds up no other
// client.
//
// Promise: A client's commands and bytes in flight are bounded.
func TestSlowClient(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.SlowClient, o.MaxClientBytes = 300*time.Millisecond, 4<<20 })
	u, v := dial(t, w.addr), dial(t, w.addr)
	value := strings.Repeat("v", 900000)
	u.send("set a 0 0 %d\r\n%s\r\n", len(value), value)
	u.want("STORED")
	u.send("%s", strings.Repeat("get a\r\n", 100))
	await.Until(t, within, "a slow client", func() bool {
		if got := v.ask("get b"); got != "END" {
			t.Error(got)
		}
		return w.Stats().Slow == 1
	})
	await.Until(t, within, "its end", func() bool { return w.Stats().Clients == 1 })
	if _, err := io.Copy(io.Discard, u.conn); err == nil {
		t.Log("closed in good order")
	}
}

// TestIdleClient: a client that sends nothing is disconnected.
//
// Promise: A client's commands and bytes in flight are bounded.
func TestIdleClient(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.IdleTimeout = 300 * time.Millisecond })
	dial(t, w.addr).wantEnd()
	if n := w.Stats().Idle; n != 1 {
		t.Errorf("%d clients were idle", n)
	}
}

// TestShutdown: what was sent is answered, then the connections are closed.
//
// Promise: Shutdown answers every command that was read.
func TestShutdown(t *testing.T) {
	w := newEnv(t, 1, nil)
	idle, busy := dial(t, w.addr), dial(t, w.addr)
	for _, u := range []*user{idle, busy} {
		if got := u.ask("get a"); got != "END" {
			t.Fatal(got)
		}
	}
	w.servers[0].Pause()
	busy.send("get a\r\nget b\r\n")
	await.Until(t, within, "two", func() bool { return w.Stats().Servers[0].InFlight == 2 })
	ended := make(chan error)
	go func() { ended <- w.Shutdown(t.Context()) }()
	idle.wantEnd()
	w.servers[0].Resume()
	busy.want("END")
	busy.want("END")
	busy.wantEnd()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if d := w.Drained(); d.Clients != 0 || d.Commands != 0 {
		t.Errorf("it could not finish %+v", d)
	}
}

// TestShutdownEnds: Shutdown disconnects the remaining clients when ctx ends.
func TestShutdownEnds(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.Timeout = -1 })
	u := dial(t, w.addr)
	if got := u.ask("get a"); got != "END" {
		t.Fatal(got)
	}
	w.servers[0].Pause()
	u.send("get a\r\n")
	await.Until(t, within, "one", func() bool { return w.Stats().Servers[0].InFlight == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
	if s := w.Stats(); s.Clients != 0 {
		t.Errorf("%d clients", s.Clients)
	}
	if d := w.Drained(); d.Clients != 1 || d.Commands != 1 {
		t.Errorf("it could not finish %+v; want a client with a command", d)
	}
}

// TestQuit: what came before quit is answered, and nothing after it.
//
// Promise: The pool closes a client on quit, and where memcached closes it, and runs nothing behind
// that.
func TestQuit(t *testing.T) {
	w := newEnv(t, 1, nil)
	u := dial(t, w.addr)
	u.send("set a 0 0 1\r\nx\r\nget a\r\nquit\r\ndelete a\r\n")
	for _, l := range []string{"STORED", "VALUE a 0 1", "x", "END"} {
		u.want(l)
	}
	rest, _ := io.ReadAll(u.r)
	if len(rest) > 0 {
		t.Errorf("%q after quit", rest)
	}
	if got := dial(t, w.addr).ask("delete a"); got != "DELETED" {
		t.Error(got)
	}
}

// TestStats: stats reports the sums of the servers, and stats proxy the pool's own counters.
func TestStats(t *testing.T) {
	w := newEnv(t, 3, nil)
	u := dial(t, w.addr)
	for _, keys := range w.keysOf(5) {
		for _, k := range keys {
			u.send("set %s 0 0 1\r\nx\r\n", k)
			u.want("STORED")
		}
	}
	read := func(command string) map[string]string {
		all := map[string]string{}
		u.send("%s\r\n", command)
		for l := u.line(); l != "END"; l = u.line() {
			f := strings.SplitN(l, " ", 3)
			if len(f) != 3 || f[0] != "STAT" || all[f[1]] != "" {
				t.Fatalf("%s: %q", command, l)
			}
			all[f[1]] = f[2]
		}
		return all
	}
	s := read("stats")
	if s["curr_items"] != "15" || s["cmd_set"] != "15" || s["pointer_size"] != "64" && s["pointer_size"] != "32" || s["version"] == "" {
		t.Errorf("stats: %v", s)
	}
	s = read("stats proxy")
	if s["pool"] != "test" || s["stores"] != "15" || s["s1:up"] != "true" || s["ring"] != w.Digest() {
		t.Errorf("stats proxy: %v", s)
	}
	got := w.Stats()
	if got.BytesIn < 15*uint64(len("set key:0 0 0 1\r\nx\r\n")) || got.BytesOut < 15*uint64(len("STORED\r\n")) {
		t.Errorf("%d bytes in, %d out", got.BytesIn, got.BytesOut)
	}
	if got.Stores != 15 || got.Others != 2 || got.Clients != 1 || got.Digest != w.Digest() || len(got.Servers) != 3 || got.Servers[2].Sent != 6 {
		t.Errorf("%+v", got)
	}
}

// TestOptions: all that is wrong is told.
func TestOptions(t *testing.T) {
	_, err := New(Options{
		Name: "p", Servers: []Server{{Server: ring.Server{Name: "a", Weight: 1}, Network: "udp"}, {Server: ring.Server{Name: "a"}, Addr: "x"}},
		Hash: "sha", DialTimeout: -1, MaxClients: -2, MaxLine: 2047, MaxValue: 1 << 31,
	})
	for _, want := range []string{`"a" has no Addr`, `Network "udp"`, "DialTimeout is -1ns", "MaxClients is -2", "MaxLine is 2047, the least is 2048", "MaxValue is 2147483648", `"sha"`} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v: does not contain %s", err, want)
		}
	}
	if _, err := New(Options{}); !errors.Is(err, ring.ErrNoServer) && err == nil {
		t.Error("a pool without servers")
	}
}
