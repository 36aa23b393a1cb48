package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestSelectThatFails: a SELECT counts from when, and if, it was done.
func TestSelectThatFails(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	at := func(w *wire, db string) {
		t.Helper()
		if info, _ := w.value("CLIENT", "INFO").(string); !strings.Contains(info, " db="+db+" ") {
			t.Errorf("CLIENT INFO: %q, want db=%s", info, db)
		}
		got := w.do("LOCK.ACQUIRE", "l", "1", "BLOCK", "0")
		if refused := strings.HasPrefix(got, "-ERR redoubt: this works in the back end's own database only"); refused != (db != "0") {
			t.Errorf("in database %s: %q", db, got)
		}
	}
	w := dial(t, addr)
	w.want("-ERR DB index is out of range\r\n", "SELECT 99")
	at(w, "0")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SELECT 3")
	w.want("+OK\r\n", "DISCARD")
	at(w, "0")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SELECT 3")
	w.want("-ERR wrong number of arguments for 'get' command\r\n", "GET")
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	at(w, "0")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SELECT 3")
	w.want("+QUEUED\r\n", "SELECT 99")
	w.want(array("+OK\r\n", "-ERR DB index is out of range\r\n"), "EXEC")
	at(w, "3")
	w.want("-ERR DB index is out of range\r\n", "SELECT 99")
	at(w, "3")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SELECT 0")
	w.want(array("+OK\r\n"), "EXEC")
	at(w, "0")
	// In one write.
	w.write("SELECT 3\r\nLOCK.ACQUIRE l 1 BLOCK 0\r\n")
	w.expect("+OK\r\n")
	if got := w.read(); !strings.HasPrefix(got, "-ERR redoubt: this works") {
		t.Errorf("behind SELECT: %q", got)
	}
}

// TestHelloThatFails: the client speaks the protocol that it spoke before.
func TestHelloThatFails(t *testing.T) {
	backend := redistest.Start(t)
	backend.Kill()
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	if got := w.do("HELLO", "3", "SETNAME", "me"); got[0] != '-' {
		t.Fatalf("HELLO 3: %q, want an error", got)
	}
	w.want("$-1\r\n", "CLIENT GETNAME")
	if info, _ := w.value("CLIENT", "INFO").(string); !strings.Contains(info, " resp=2 ") {
		t.Errorf("CLIENT INFO: %q", info)
	}
}

// TestHelloWhileSubscribed: the back end refuses it in RESP2, so it is refused.
func TestHelloWhileSubscribed(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	direct, w := dial(t, backend.Addr()), dial(t, addr)
	for _, w := range []*wire{direct, w} {
		w.want("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE ch")
	}
	w.want(direct.do("HELLO", "3"), "HELLO 3 SETNAME me")
	w.want("*2\r\n$4\r\npong\r\n$0\r\n\r\n", "PING")
	w.want("*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n", "UNSUBSCRIBE")
	w.want("$-1\r\n", "CLIENT GETNAME")
	w.want("$-1\r\n", "GET k")
	if got := w.do("HELLO", "3"); got[0] != '%' {
		t.Errorf("HELLO 3: %q", got)
	}
	w.want("_\r\n", "GET k")
}

// TestKillScript: what ends a script is not in the way of the BUSY that the
// script causes.
func TestKillScript(t *testing.T) {
	backend := redistest.Start(t, "--busy-reply-threshold", "20")
	srv, addr := start(t, backend.URL()+"/3")
	w, other := dial(t, addr), dial(t, addr)
	other.want("+OK\r\n", "CLIENT SETNAME operator")
	w.want("$-1\r\n", "GET k")
	w.send("EVAL", "while true do end", "0") // on the connection that all share
	eventually(t, "the script is busy", func() bool {
		return strings.HasPrefix(dial(t, backend.Addr()).do("GET", "k"), "-BUSY")
	})
	other.want("+OK\r\n", "SCRIPT KILL")
	if got := w.read(); !strings.Contains(got, "killed by user") {
		t.Errorf("the script: %q", got)
	}
	other.want("+OK\r\n", "SET k three")
	if got := backend.CLI("-n", "3", "GET", "k"); got != "three" {
		t.Errorf("GET k in database 3: %q", got)
	}
	other.want("-NOTBUSY No scripts in execution right now.\r\n", "SCRIPT KILL")
	if n := srv.Stats().Dedicated; n != 0 {
		t.Errorf("%d dedicated connections, want 0", n)
	}
	// Queued like any other.
	other.want("+OK\r\n", "MULTI")
	if got := other.do("SCRIPT", "KILL"); got[0] != '-' && got != "+QUEUED\r\n" {
		t.Errorf("inside a transaction: %q", got)
	}
}

// TestBlockingReads: what may wait never does so on the connection that all
// share, wherever the word BLOCK stands.
func TestBlockingReads(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	other := dial(t, addr)
	for _, c := range []string{
		"XREADGROUP GROUP streams c BLOCK 0 STREAMS st >",
		"XREADGROUP GROUP g STREAMS COUNT 1 BLOCK 0 STREAMS st >",
		"xreadgroup count 1 group g block noack block 0 streams st >",
		"XREAD BLOCK 0 COUNT 1 STREAMS st $",
	} {
		group := "g"
		if strings.Contains(c, " streams c") {
			group = "streams"
		}
		other.do("XGROUP", "CREATE", "st", group, "$", "MKSTREAM")
		w := dial(t, addr)
		w.send(strings.Fields(c)...)
		eventually(t, c+" waits", func() bool {
			return strings.Contains(backend.CLI("CLIENT", "LIST"), "flags=b")
		})
		if n := srv.Stats().Dedicated; n != 1 {
			t.Fatalf("%s waits on the shared connection", c)
		}
		other.do("XADD", "st", "*", "f", "v")
		if got := w.read(); !strings.HasPrefix(got, "*1\r\n") {
			t.Errorf("%s: %q", c, got)
		}
		_ = w.conn.Close()
		eventually(t, "it is gone", func() bool { return srv.Stats().Dedicated == 0 })
	}
	// Words that only look like it.
	w := dial(t, addr)
	w.do("XADD", "block", "1-1", "f", "v")
	w.do("XGROUP", "CREATE", "block", "block", "0")
	w.do("XREADGROUP", "GROUP", "block", "block", "STREAMS", "block", ">")
	w.do("XREAD", "STREAMS", "block", "0")
	if n := srv.Stats().Dedicated; n != 0 {
		t.Errorf("%d dedicated connections, want 0", n)
	}
}

// TestReplyBeforeWait: what was answered leaves before what is behind waits.
func TestReplyBeforeWait(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "l"
		holder, w := dial(t, addr), dial(t, addr)
		id, _ := held(t, holder.do("LOCK.ACQUIRE", name, "60000"))
		all := resp.AppendCommand(nil, "PING")
		all = resp.AppendCommand(all, "LOCK.ACQUIRE", name, "60000", "BLOCK", itoa(3*patience.Milliseconds()))
		w.write(string(all))
		w.expect("+PONG\r\n") // within patience
		holder.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
		held(t, w.read())
	})
}
