package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestTransaction(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		p := b.Prefix
		w, other := dial(t, addr), dial(t, addr)

		// A conflict.
		w.want("+OK\r\n", "WATCH "+p+"k")
		other.want("+OK\r\n", "SET "+p+"k 1")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "LOCK.RELEASE "+p+"l x")
		if got := w.do("EXEC"); got != "*-1\r\n" && got != "$-1\r\n" {
			t.Errorf("EXEC after a conflict: %q, want null", got)
		}

		// Extension commands, good and bad, inside a transaction.
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "SET "+p+"k 2")
		w.want("+QUEUED\r\n", "LOCK.ACQUIRE "+p+"l 60000 BLOCK 0 ID me")
		w.want("+QUEUED\r\n", "LOCK.ACQUIRE "+p+"l 60000 BLOCK 0")
		w.want("+QUEUED\r\n", "LOCK.ACQUIRE "+p+"l zero")
		w.want("+QUEUED\r\n", "LOCK.RELEASE "+p+"l me")
		w.want("+QUEUED\r\n", "GET "+p+"k")
		got := w.do("EXEC")
		if !strings.HasPrefix(got, "*6\r\n+OK\r\n*3\r\n$2\r\nme\r\n:") ||
			!strings.HasSuffix(got, "*-1\r\n-ERR value is not an integer or out of range\r\n:1\r\n$1\r\n2\r\n") {
			t.Errorf("EXEC: %q", got)
		}

		// A wrong number of arguments aborts, as it does for other commands.
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "SET "+p+"k 3")
		w.want("-ERR wrong number of arguments for 'lock.release' command\r\n", "LOCK.RELEASE")
		w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		w.want(bulk("2"), "GET "+p+"k")
		w.want("-ERR EXEC without MULTI\r\n", "EXEC")

		// DISCARD forgets.
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "LOCK.RELEASE "+p+"l me")
		w.want("+OK\r\n", "DISCARD")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "GET "+p+"k")
		w.want(array(bulk("2")), "EXEC")
	})
}

func TestTransactionRefusals(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	for _, c := range []string{"SUBSCRIBE a", "PSUBSCRIBE a", "MONITOR", "HELLO 3", "AUTH x", "CLIENT TRACKING ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PSYNC ? -1", "SCRIPT DEBUG YES"} {
		w := dial(t, addr)
		w.want("+OK\r\n", "MULTI")
		if got := w.do(strings.Fields(c)...); !strings.HasPrefix(got, "-ERR redoubt: ") {
			t.Errorf("%s: %q", c, got)
		}
		w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		w.want("+PONG\r\n", "PING")
	}
	w := dial(t, addr)
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CLIENT REPLY ON")
	w.want("+QUEUED\r\n", "PING")
	w.want("*2\r\n+OK\r\n+PONG\r\n", "EXEC")
	// Neither does a wrong number of arguments get as far as the queue.
	for _, c := range []string{"CLIENT GETNAME x", "CLIENT ID x", "CLIENT SETNAME"} {
		w := dial(t, addr)
		w.want("+OK\r\n", "MULTI")
		if got := w.do(strings.Fields(c)...); !strings.HasPrefix(got, "-ERR wrong number of arguments for 'client|") {
			t.Errorf("%s: %q", c, got)
		}
		w.want("+QUEUED\r\n", "SET a 1")
		w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		w.want("$-1\r\n", "GET a")
	}
	// Commands that the server itself answers are queued too.
	w = dial(t, addr)
	w.want("+OK\r\n", "CLIENT SETNAME me")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CLIENT GETNAME")
	w.want("+QUEUED\r\n", "COMMAND GETKEYS LOCK.RELEASE a b")
	w.want("+QUEUED\r\n", "PING")
	w.want(array(bulk("me"), array(bulk("a")), "+PONG\r\n"), "EXEC")
	// Commands that the back end answers are queued once.
	w = dial(t, addr)
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CLIENT HELP")
	w.want("+QUEUED\r\n", "PING")
	if got := w.do("EXEC"); !strings.HasPrefix(got, "*2\r\n*") || !strings.HasSuffix(got, "+PONG\r\n") {
		t.Errorf("EXEC with CLIENT HELP: %q", got)
	}
}

// TestTransactionAnswersLocally: an answer made here needs nothing of the back end, which may refuse any
// command.
func TestTransactionAnswersLocally(t *testing.T) {
	backend, p := redistest.Start(t), startPool(t, 1)
	_, addr := start(t, backend.URL())
	for name, c := range map[string]struct {
		addr string
		back *redistest.Server
	}{"server": {addr, backend}, "pool": {p.addr, p.nodes[0]}} {
		t.Run(name, func(t *testing.T) {
			c.back.CLI("ACL", "SETUSER", "default", "-ping")
			w, other := dial(t, c.addr), dial(t, c.addr)
			w.want("+OK\r\n", "CLIENT SETNAME me")
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want("+QUEUED\r\n", "SET k v")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want("+QUEUED\r\n", "COMMAND GETKEYS GET k")
			w.want("+QUEUED\r\n", "GET k")
			w.want(array(bulk("me"), "+OK\r\n", bulk("me"), array(bulk("k")), bulk("v")), "EXEC")

			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want(array(bulk("me")), "EXEC")

			// After a conflict there is no answer.
			w.want("+OK\r\n", "WATCH k")
			other.want("+OK\r\n", "SET k other")
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want("*-1\r\n", "EXEC")
			w.want(bulk("other"), "GET k")

			// RESP3, an error of one command, and an aborted transaction.
			w.do("HELLO", "3")
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "INCR k")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want("*2\r\n-ERR value is not an integer or out of range\r\n"+bulk("me"), "EXEC")
			w.want("+OK\r\n", "WATCH k")
			other.want("+OK\r\n", "SET k more")
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			w.want("_\r\n", "EXEC")
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CLIENT GETNAME")
			if got := w.do("NOSUCH"); !strings.HasPrefix(got, "-ERR unknown command") {
				t.Error(got)
			}
			w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		})
	}
}
