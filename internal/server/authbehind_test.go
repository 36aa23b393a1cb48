package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestAuthBehind: in front of one server, a client may be a user of that server. It has that
// user's rights and no others, until RESET.
func TestAuthBehind(t *testing.T) {
	back := redistest.Start(t)
	back.CLI("ACL", "SETUSER", "alice", "on", ">secret", "+@all", "~a:*", "~rd:{a:*", "&*")
	back.CLI("SET", "b:1", "b")
	srv, addr := start(t, back.URL())
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	refused := func(w *wire, cmd string) {
		t.Helper()
		if got := w.do(strings.Fields(cmd)...); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: %q, want NOPERM", cmd, got)
		}
	}
	for _, login := range []string{"AUTH alice secret", "HELLO 2 AUTH alice secret", "HELLO 3 AUTH alice secret"} {
		t.Run(login, func(t *testing.T) {
			w := dial(t, addr)
			w.want(bulk("b"), "GET b:1")
			w.want(wrong, "AUTH alice wrong")
			w.want(wrong, "HELLO 3 AUTH nobody secret")
			w.want(bulk("b"), "GET b:1") // it is still the same user
			if got := w.do(strings.Fields(login)...); strings.HasPrefix(got, "-") {
				t.Fatalf("%q", got)
			}
			w.want(bulk("alice"), "ACL WHOAMI")
			if info := w.do("CLIENT", "INFO"); !strings.Contains(info, " user=alice ") {
				t.Errorf("CLIENT INFO: %q", info)
			}
			w.want("+OK\r\n", "SET a:1 x")
			w.want(bulk("x"), "GET a:1")
			refused(w, "GET b:1")
			refused(w, "EVAL return(redis.call('GET',KEYS[1])) 1 b:1")
			w.want("+OK\r\n", "MULTI")
			refused(w, "GET b:1")
			if got := w.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
				t.Errorf("EXEC: %q", got)
			}
			// Commands of Redoubt's own are scripts on the same connection.
			if got := w.do("LOCK.ACQUIRE", "a:lock", "60000", "ID", login); strings.HasPrefix(got, "-") {
				t.Errorf("LOCK.ACQUIRE: %q", got)
			}
			if got := w.do("LOCK.RELEASE", "a:lock", login); got != ":1\r\n" {
				t.Errorf("LOCK.RELEASE: %q", got)
			}
			if got := w.do("LOCK.ACQUIRE", "b:lock", "60000", "ID", "one"); !strings.Contains(got, "NOPERM") {
				t.Errorf("LOCK.ACQUIRE of a key that is not for alice: %q", got)
			}
			if got := w.do("LOCK.ACQUIRE", "a:lock", "60000", "BLOCK", "1"); !strings.HasPrefix(got, "-ERR redoubt: this waits on connections of Redoubt's own") {
				t.Errorf("LOCK.ACQUIRE with BLOCK: %q", got)
			}
			// Another AUTH is one of the back end, too, and a wrong one changes nothing.
			w.want(wrong, "AUTH alice wrong")
			refused(w, "GET b:1")
			w.want("+OK\r\n", "AUTH default any")
			w.want(bulk("b"), "GET b:1")
			w.want("+OK\r\n", "AUTH alice secret")
			refused(w, "GET b:1")
			w.want("+RESET\r\n", "RESET")
			w.want(bulk("b"), "GET b:1")
			w.want(bulk("default"), "ACL WHOAMI")
		})
	}

	if n := srv.Stats().AuthFailures; n != 3*3 {
		t.Errorf("%d failures counted, want 9", n)
	}

	killed := dial(t, addr)
	killed.want("+OK\r\n", "AUTH alice secret")
	dial(t, addr).want(":1\r\n", "CLIENT KILL USER alice")
	killed.expectClosed()

	// A client that loses its connection gets no other rights instead.
	w := dial(t, addr)
	w.want("+OK\r\n", "AUTH alice secret")
	w.want("+OK\r\n", "SET a:2 x")
	back.CLI("CLIENT", "KILL", "USER", "alice")
	w.write("GET b:1\r\nGET b:1\r\n")
	for range 2 {
		got, err := w.next()
		if err != nil {
			break // it is closed
		}
		if !strings.HasPrefix(got, "-") {
			t.Fatalf("without its connection: %q", got)
		}
	}
}
