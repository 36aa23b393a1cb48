package server_test

import (
	"fmt"
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

// TestPauseOfEngine: on the engine CLIENT PAUSE holds back what a client sends, PING and commands of the server's own
// too, in its order, and answers what came before at once. PAUSE and UNPAUSE run with EXEC, as on a real server. A
// command whose client leaves does not run.
//
// Promise: On the engine, CLIENT PAUSE holds back clients of the server, PING too.
func TestPauseOfEngine(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w, other := dial(t, addr), dial(t, addr)
	blocked := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " commands wait"), func() bool {
			return strings.Contains(w.do("INFO", "clients"), fmt.Sprintf("blocked_clients:%d\r\n", n))
		})
	}
	began := time.Now()
	w.want("+OK\r\n", "CLIENT PAUSE 200 ALL")
	if other.want("+PONG\r\n", "PING"); time.Since(began) < 200*time.Millisecond {
		t.Errorf("PING was answered %v after CLIENT PAUSE 200", time.Since(began))
	}
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CLIENT PAUSE 100000 WRITE")
	other.want("+OK\r\n", "SET k v")
	w.want("*1\r\n+OK\r\n", "EXEC")
	// Earlier commands are answered, and later ones wait.
	other.write("GET k\r\nSET k w\r\nGET k\r\nCL.THROTTLE l 1 1 60\r\nGET k\r\n")
	other.expect(bulk("v"))
	blocked(1)
	w.want(bulk("v"), "GET k")
	w.want("+OK\r\n", "CLIENT UNPAUSE")
	other.expect("+OK\r\n")
	other.expect(bulk("w"))
	other.read()
	other.expect(bulk("w"))
	// Of a transaction EXEC, if it writes; and the server's own commands that wait for others.
	other.want("+OK\r\n", "MULTI")
	other.want("+QUEUED\r\n", "SET k x")
	reads := dial(t, addr)
	reads.want("+OK\r\n", "MULTI")
	reads.want("+QUEUED\r\n", "GET k")
	locker := dial(t, addr)
	w.want("+OK\r\n", "CLIENT PAUSE 100000 WRITE")
	other.send("EXEC")
	locker.send("LOCK.ACQUIRE", "l", "100000", "BLOCK", "0")
	blocked(2)
	reads.want("*1\r\n"+bulk("w"), "EXEC")
	if got := w.do("LOCK.INFO", "l"); strings.Contains(got, "100000") {
		t.Errorf("LOCK.INFO: %q", got)
	}
	w.want("+OK\r\n", "CLIENT UNPAUSE")
	other.expect("*1\r\n+OK\r\n")
	locker.read()
	// Clients that leave.
	w.want("+OK\r\n", "CLIENT PAUSE 100000 WRITE")
	for i := range 3 {
		gone := dial(t, addr)
		gone.send("SET", fmt.Sprint("gone", i), "x")
		blocked(1)
		_ = gone.conn.Close()
		blocked(0)
	}
	w.want("+OK\r\n", "CLIENT UNPAUSE")
	w.want(":0\r\n", "EXISTS gone0 gone1 gone2")
}
