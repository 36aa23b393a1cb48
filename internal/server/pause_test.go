package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestPingWhilePaused: PING waits for the end of CLIENT PAUSE, as Redis has it, and doesn't where
// that holds back writes alone.
//
// Promise: In front of one server, CLIENT PAUSE holds the answer to PING back.
func TestPingWhilePaused(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	a, b, c, direct := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, backend.Addr())
	for _, by := range []*wire{a, direct} {
		began := time.Now()
		by.want("+OK\r\n", "CLIENT PAUSE 200 ALL")
		b.send("PING")
		b.expect("+PONG\r\n")
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("PING was answered %v after CLIENT PAUSE 200", took)
		}
	}
	a.want("+OK\r\n", "CLIENT PAUSE 100000 WRITE")
	b.send("SET", "k", "v")
	eventually(t, "the write is held back", func() bool {
		return strings.Contains(backend.CLI("CLIENT", "LIST"), "flags=b ")
	})
	c.want("+PONG\r\n", "PING")
	c.want("$5\r\nhello\r\n", "PING hello")
	c.want("+OK\r\n", "CLIENT UNPAUSE")
	b.expect("+OK\r\n")
	b.write("PING\r\nGET k\r\nECHO x\r\nPING a\r\n")
	for _, want := range []string{"+PONG\r\n", bulk("v"), bulk("x"), bulk("a")} {
		b.expect(want)
	}
	b.want("-ERR wrong number of arguments for 'ping' command\r\n", "PING a b")
	backend.Kill()
	eventually(t, "PING says that the server is gone", func() bool { return strings.HasPrefix(b.do("PING"), "-ERR redoubt: ") })
}

// TestPauseOfEngine: on the engine CLIENT PAUSE holds PING back, too. PAUSE and UNPAUSE run with EXEC, as on a real
// server.
//
// Promise: On the engine, CLIENT PAUSE holds back clients of the server, PING too.
func TestPauseOfEngine(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w, other := dial(t, addr), dial(t, addr)
	began := time.Now()
	w.want("+OK\r\n", "CLIENT PAUSE 200 ALL")
	if other.want("+PONG\r\n", "PING"); time.Since(began) < 200*time.Millisecond {
		t.Errorf("PING was answered %v after CLIENT PAUSE 200", time.Since(began))
	}
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CLIENT PAUSE 100000 WRITE")
	other.want("+OK\r\n", "SET k v")
	w.want("*1\r\n+OK\r\n", "EXEC")
	other.sendQuietly("SET", "k", "w")
	eventually(t, "the command waits", func() bool { return strings.Contains(w.do("INFO", "clients"), "blocked_clients:1\r\n") })
	w.want("$1\r\nv\r\n", "GET k")
	w.want("+OK\r\n", "CLIENT UNPAUSE")
	other.expect("+OK\r\n")
}
