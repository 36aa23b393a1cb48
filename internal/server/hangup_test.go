package server_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A hangUp is a server on which clients wait, and its end.
type hangUp struct {
	addr    string
	blocked func() int
	end     func() error
}

// hangUps runs a test on redis-server itself, and on a server of ours onto every back end.
func hangUps(t *testing.T, run func(t *testing.T, h hangUp)) {
	blocked := func(servers ...*redistest.Server) func() int {
		return func() (n int) {
			for _, s := range servers {
				n += strings.Count(s.CLI("CLIENT", "LIST"), " flags=b ")
			}
			return n
		}
	}
	t.Run("redis-server", func(t *testing.T) {
		r := redistest.Start(t)
		run(t, hangUp{r.Addr(), blocked(r), func() error {
			r.CLI("SHUTDOWN", "NOSAVE")
			return nil
		}})
	})
	shutdown := func(t *testing.T, end func(ctx context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return end(ctx)
		}
	}
	t.Run("one", func(t *testing.T) {
		r := redistest.Start(t)
		s, addr := start(t, r.URL())
		run(t, hangUp{addr, blocked(r), shutdown(t, s.Shutdown)})
	})
	t.Run("engine", func(t *testing.T) {
		s, addr := start(t, engineURL(t))
		w := dial(t, addr)
		run(t, hangUp{addr, func() (n int) {
			return strings.Count(w.do("INFO", "clients"), "blocked_clients:1")
		}, shutdown(t, s.Shutdown)})
	})
	t.Run("pool", func(t *testing.T) {
		p := startPool(t, 3)
		run(t, hangUp{p.addr, blocked(p.nodes...), shutdown(t, p.Shutdown)})
	})
	t.Run("cluster", func(t *testing.T) {
		p := startCluster(t, 0)
		run(t, hangUp{p.addr, blocked(p.nodes...), shutdown(t, p.Shutdown)})
	})
}

// TestShutdownHangsUp: a client that waits for a key does not hold up the end of the server. It is
// closed without a reply, after the replies to what it sent before.
func TestShutdownHangsUp(t *testing.T) {
	hangUps(t, func(t *testing.T, h hangUp) {
		w := dial(t, h.addr)
		w.send("SET", "k", "v")
		w.send("BLPOP", "q", "0")
		w.send("RPUSH", "k2", "v") // has to wait, and so has the next, for which a connection is needed
		w.send("WATCH", "k")
		eventually(t, "it waits", func() bool { return h.blocked() == 1 })
		if err := h.end(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		w.expect("+OK\r\n")
		w.expectClosed()
	})
}

// TestShutdownHangsUpBehindAScript: the same for a command that has to wait for the reply to a script,
// which waits behind a blocking command.
func TestShutdownHangsUpBehindAScript(t *testing.T) {
	hangUps(t, func(t *testing.T, h hangUp) {
		w := dial(t, h.addr)
		var all []byte
		for _, c := range []string{"SET k v", "BLPOP q 0", "LOCK.RELEASE l x", "RPUSH k2 v"} {
			all = resp.AppendCommand(all, strings.Fields(c)...)
		}
		w.write(string(all))
		eventually(t, "it waits", func() bool { return h.blocked() == 1 })
		if err := h.end(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		w.expect("+OK\r\n")
		w.expectClosed()
	})
}

// TestHalfClosedWhileItWaits: a client that closes its sending side while it waits is closed
// without a reply, and waits no more.
func TestHalfClosedWhileItWaits(t *testing.T) {
	hangUps(t, func(t *testing.T, h hangUp) {
		for _, command := range []string{"BZPOPMIN nokey 0", "BLMOVE nokey nokey LEFT RIGHT 0", "XREAD BLOCK 0 STREAMS nokey $"} {
			w := dial(t, h.addr)
			w.send("SET", "k", "v")
			w.send(strings.Fields(command)...)
			w.expect("+OK\r\n")
			eventually(t, "it waits", func() bool { return h.blocked() == 1 })
			if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			w.expectClosed()
			eventually(t, "nobody waits", func() bool { return h.blocked() == 0 })
		}
	})
}

// TestHalfClosedWithSteps: a client that ends its side behind a command which runs in steps has its
// replies, as Redis gives them.
func TestHalfClosedWithSteps(t *testing.T) {
	for name, url := range map[string]string{"one": redistest.Start(t).URL(), "engine": engineURL(t)} {
		t.Run(name, func(t *testing.T) {
			_, addr := start(t, url)
			w := dial(t, addr)
			w.write("QUEUE.DELETE q 7 8\r\nSET k behind\r\n")
			if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			w.expect(":0\r\n")
			w.expect("+OK\r\n")
			w.expectClosed()
		})
	}
}
