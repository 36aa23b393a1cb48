package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestNoLeak: what one client does to its connection, no other ever sees.
//
// Promise: No client sees the state of another.
func TestNoLeak(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	a, b := dial(t, addr), dial(t, addr)

	t.Run("SELECT", func(t *testing.T) {
		a.want("+OK\r\n", "SELECT 3")
		a.want("+OK\r\n", "SET k three")
		b.want("$-1\r\n", "GET k")
		b.want("+OK\r\n", "SET k zero")
		a.want(bulk("three"), "GET k")
		b.want(bulk("zero"), "GET k")
		late := dial(t, addr)
		late.want(bulk("zero"), "GET k")
	})
	t.Run("WATCH", func(t *testing.T) {
		a, b, c := dial(t, addr), dial(t, addr), dial(t, addr)
		a.want("+OK\r\n", "WATCH w")
		c.want("+OK\r\n", "MULTI")
		c.want("+QUEUED\r\n", "SET w c")
		b.want("+OK\r\n", "SET w b")
		c.want(array("+OK\r\n"), "EXEC") // c watches nothing
		a.want("+OK\r\n", "MULTI")
		a.want("*-1\r\n", "EXEC")
	})
	t.Run("MULTI", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		a.want("+OK\r\n", "MULTI")
		b.want("+OK\r\n", "SET m 1")
		a.want("+QUEUED\r\n", "GET m")
		_ = a.conn.Close() // in the middle of it
		b.want(bulk("1"), "GET m")
		dial(t, addr).want(bulk("1"), "GET m")
	})
	t.Run("MONITOR", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		a.want("+OK\r\n", "MONITOR")
		b.want("+OK\r\n", "SET seen 1")
		if got := a.read(); !strings.Contains(got, `"SET" "seen" "1"`) {
			t.Errorf("MONITOR shows %q", got)
		}
		b.silent()
		// Commands still have their replies, whatever comes between.
		b.want("+OK\r\n", "SET seen 2")
		a.send("PING", "mine")
		for {
			got := a.read()
			if got == bulk("mine") {
				break
			}
			if got[0] != '+' {
				t.Fatalf("got %q", got)
			}
		}
		a.send("RESET")
		for got := ""; got != "+RESET\r\n"; {
			if got = a.read(); got[0] != '+' {
				t.Fatalf("got %q", got)
			}
		}
		b.want("+OK\r\n", "SET seen 3")
		a.silent()
	})
	t.Run("CLIENT TRACKING", func(t *testing.T) {
		a, b, c := dial(t, addr), dial(t, addr), dial(t, addr)
		for _, w := range []*wire{a, b, c} {
			_ = w.do("HELLO", "3")
		}
		a.want("+OK\r\n", "CLIENT TRACKING ON")
		a.want("_\r\n", "GET tracked")
		b.want("_\r\n", "GET tracked")
		c.want("+OK\r\n", "SET tracked 1")
		a.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\ntracked\r\n")
		b.silent()
		c.silent()
		a.silent()
	})
	t.Run("CLIENT TRACKING across protocols", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		a.want("+OK\r\n", "CLIENT TRACKING ON")
		a.want("$-1\r\n", "GET tracked2")
		b.want("+OK\r\n", "SET tracked2 1") // which a RESP2 client is not told
		a.want("+PONG\r\n", "PING")
		_ = a.do("HELLO", "3")
		a.want(bulk("1"), "GET tracked2")
		b.want("+OK\r\n", "SET tracked2 2")
		a.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\ntracked2\r\n")
		_ = a.value("HELLO", "2").([]any)
		a.want(bulk("2"), "GET tracked2")
		b.want("+OK\r\n", "SET tracked2 3")
		a.want("+RESET\r\n", "RESET")
		a.want(":-1\r\n", "CLIENT GETREDIR")
	})
	t.Run("CLIENT REPLY", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		a.send("CLIENT", "REPLY", "OFF")
		a.send("SET", "quiet", "1")
		a.send("LOCK.RELEASE", "quiet", "x")
		a.send("NOSUCH")
		b.want("+PONG\r\n", "PING")
		a.want("+OK\r\n", "CLIENT REPLY ON")
		a.want(bulk("1"), "GET quiet")
		a.send("CLIENT", "REPLY", "SKIP")
		a.send("GET", "quiet")
		a.want("+PONG\r\n", "PING")
		a.send("CLIENT", "REPLY", "SKIP")
		a.send("CLIENT", "REPLY", "SKIP") // is skipped, and skips
		a.send("GET", "quiet")
		a.want("+PONG\r\n", "PING")
	})
	t.Run("RESP3", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		if got := a.do("HELLO", "3"); got[0] != '%' {
			t.Fatalf("HELLO 3: %q", got)
		}
		a.want(":1\r\n", "HSET hash f v")
		a.want("%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL hash")
		b.want("*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL hash")
		_ = a.do("HELLO", "2")
		a.want("*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL hash")
		// The same on its own connection.
		a.want("+OK\r\n", "WATCH hash")
		_ = a.do("HELLO", "3")
		a.want("%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL hash")
		_ = a.do("HELLO", "2")
		a.want("*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL hash")
	})
	t.Run("subscriptions", func(t *testing.T) {
		a, b := dial(t, addr), dial(t, addr)
		a.want("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE ch")
		b.want(":1\r\n", "PUBLISH ch hello")
		a.expect("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n")
		b.silent()
		a.want("*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n", "UNSUBSCRIBE ch")
		a.want("+PONG\r\n", "PING")
		// An array that looks like a message is a reply again.
		a.want(":3\r\n", "RPUSH looks message x y")
		looks := array(bulk("message"), bulk("x"), bulk("y"))
		a.want(looks, "LRANGE looks 0 -1")
		a.want("+OK\r\n", "MULTI")
		a.want("+QUEUED\r\n", "LPOP looks 3")
		a.want("+QUEUED\r\n", "RPUSH looks message x y")
		a.want(array(looks, ":3\r\n"), "EXEC")
		a.want(looks, "LRANGE looks 0 -1")
		if got := a.do("HELLO", "3"); got[0] != '%' {
			t.Errorf("HELLO: %q", got)
		}
		// In RESP3 it is one even while there are subscriptions.
		for _, command := range []string{"SUBSCRIBE ch", "SSUBSCRIBE shard"} {
			if got := a.do(strings.Fields(command)...); got[0] != '>' {
				t.Errorf("%s: %q", command, got)
			}
			a.want(looks, "LRANGE looks 0 -1")
			_ = a.do("DEL", "confirms")
			a.want(":3\r\n", "RPUSH confirms subscribe ch 2")
			a.want(array(bulk("subscribe"), bulk("ch"), bulk("2")), "LRANGE confirms 0 -1")
			a.want(array(bulk("unsubscribe"), bulk("ch"), ":0\r\n"), "EVAL return{'unsubscribe','ch',0} 0")
		}
		b.want(":1\r\n", "PUBLISH ch hello")
		a.expect(">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n")
		a.silent()
	})
	t.Run("POST and Host:", func(t *testing.T) {
		// They come from browsers; Redis closes the connection on them.
		for _, raw := range []string{
			"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k x\r\n",
			"GET k\r\nHost: localhost\r\nSET k x\r\n",
			"*1\r\n$5\r\nhOST:\r\n",
			"MULTI\r\nPOST\r\nEXEC\r\n",
		} {
			a, b := dial(t, addr), dial(t, addr)
			b.want("+OK\r\n", "SET k kept")
			a.write(raw)
			for _, err := a.next(); err == nil; _, err = a.next() {
				continue // replies to what came before
			}
			a.expectClosed()
			b.want(bulk("kept"), "GET k")
			for _, u := range srv.Stats().Upstreams {
				if u.Losses != 0 {
					t.Fatalf("%q cost the connection that all share", raw)
				}
			}
		}
	})
}

func TestResetEndsState(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	a := dial(t, addr)
	_ = a.do("HELLO", "3")
	a.want("+OK\r\n", "CLIENT SETNAME me")
	a.want("+OK\r\n", "SELECT 2")
	a.want("+OK\r\n", "SET k two")
	if n := srv.Stats().Dedicated; n != 1 {
		t.Errorf("%d dedicated connections, want 1", n)
	}
	a.want("+RESET\r\n", "RESET")
	a.want("$-1\r\n", "GET k")
	a.want("$-1\r\n", "CLIENT GETNAME")
	if n := srv.Stats().Dedicated; n != 0 {
		t.Errorf("%d dedicated connections after RESET, want 0", n)
	}
}
