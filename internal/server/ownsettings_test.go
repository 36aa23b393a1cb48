package server_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// TestRequirepassIsRedis: CONFIG SET requirepass and timeout, and what follows for clients, are as on a real server. a, b
// and c are clients, and "new" is one that connects then.
func TestRequirepassIsRedis(t *testing.T) {
	const script = `
a CONFIG GET requirepass
a CONFIG GET requirep* timeout
c PING
a CONFIG SET requirepass "a b(c"
a CONFIG GET requirepass
a PING
b PING
new GET k
new AUTH wrong
new AUTH "a b(c"
new AUTH default "a b(c"
new HELLO 2 AUTH default "a b(c"
new PING
a CLIENT NO-EVICT off
a MULTI
a CONFIG SET requirepass second
a CONFIG SET timeout 70
a CONFIG GET requirepass
a EXEC
a CONFIG GET requirepass timeout
new AUTH "a b(c"
new AUTH second
a ACL SETUSER default >third
a CONFIG GET requirepass
new AUTH second
new AUTH third
a CONFIG SET requirepass fourth
new AUTH third
new AUTH second
new AUTH fourth
new PING
d GET k
b CONFIG SET timeout x
b CONFIG SET timeout -1
b CONFIG SET timeout 2147483648
b CONFIG SET timeout 1.5
b CONFIG SET timeout 5 timeout 6
b CONFIG SET TIMEOUT 100 slowlog-log-slower-than 5000 RequirePass fifth
b CONFIG GET timeout requirepass slowlog-log-slower-than
b CONFIG SET timeout 7 slowlog-log-slower-than -2
b CONFIG SET requirepass sixth databases 3
b CONFIG SET requirepass sixth nothing x
b CONFIG SET requirepass
b CONFIG GET timeout requirepass slowlog-log-slower-than
b CONFIG SET requirepass ""
b CONFIG GET requirepass
d AUTH fifth
d GET k
d HELLO 2 SETNAME x AUTH
new PING
new AUTH fifth
new AUTH default fifth
b ACL SETUSER default off
b CONFIG SET requirepass seventh
new AUTH seventh
b CONFIG SET requirepass ""
new PING
b ACL SETUSER default on
new PING
b CONFIG SET slowlog-log-slower-than 0
b SLOWLOG RESET
b CONFIG SET requirepass secret masterauth secret timeout 0
b MIGRATE 127.0.0.1 1 none 0 10 AUTH secret
b MIGRATE 127.0.0.1 1 none 0 10 AUTH2 secret secret
b CONFIG SET requirepass "" slowlog-log-slower-than -1
slow SLOWLOG GET
`
	talk := func(addr string) (replies []string) {
		clients := make(map[string]*wire)
		for _, name := range []string{"a", "b", "c"} {
			clients[name] = dial(t, addr)
		}
		for line := range strings.Lines(strings.TrimSpace(script)) {
			name, command, _ := strings.Cut(strings.TrimSpace(line), " ")
			w := clients[name]
			if w == nil || name == "new" {
				w = dial(t, addr)
				clients[name] = w
			}
			reply := w.do(words(t, command)...)
			switch {
			case strings.HasPrefix(command, "HELLO") && !strings.HasPrefix(reply, "-"):
				reply = "hello" // who answers differs
			case strings.HasPrefix(command, "CONFIG GET"): // the order is none
				lines := strings.Split(reply, "\r\n")
				slices.Sort(lines)
				reply = strings.Join(lines, " ")
			case name == "slow":
				lines := strings.Split(reply, "\r\n")
				reply = strings.Join(slices.DeleteFunc(lines, func(s string) bool {
					return s != "(redacted)" && s != "secret" && s != "requirepass" && s != "MIGRATE"
				}), " ")
			}
			replies = append(replies, strings.TrimSpace(line)+": "+reply)
		}
		return replies
	}
	_, engine := start(t, engineURL(t))
	got, want := talk(engine), talk(redistest.Start(t).Addr())
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %q\nwant %q", got[i], want[i])
		}
	}
	if last := got[len(got)-1]; strings.Contains(last, "secret") || strings.Count(last, "(redacted)") != 5 {
		t.Error(last)
	}
}

// TestRequirepassAndPassword: --password and CONFIG SET requirepass are one setting, also of another user than default
// and after the users were read anew.
func TestRequirepassAndPassword(t *testing.T) {
	srv, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Username, o.Password, o.Users, o.IdleTimeout = "root", "first", map[string]string{"app": "on >pw ~a* +@all"}, 90*time.Minute+time.Millisecond
	})
	w, app := dial(t, addr), login(t, addr, "app")
	w.want("+OK\r\n", "AUTH first")
	w.want("*4\r\n$11\r\nrequirepass\r\n$5\r\nfirst\r\n$7\r\ntimeout\r\n$4\r\n5401\r\n", "CONFIG GET requirepass timeout")
	app.want("+OK\r\n", "CONFIG SET requirepass next") // a user with the right sets the password of root
	w.want("+PONG\r\n", "PING")
	again := func(password, reply string) {
		t.Helper()
		w := dial(t, addr)
		w.want(reply, "AUTH root "+password)
	}
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	again("first", wrong)
	again("next", "+OK\r\n")
	if err := srv.SetUsers(map[string]string{"app": "on >pw ~b* +@all"}, patience); err != nil {
		t.Fatal(err)
	}
	again("first", wrong)
	again("next", "+OK\r\n")
	w.want("+PONG\r\n", "PING")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "CONFIG SET requirepass last")
	w.want("*1\r\n+OK\r\n", "EXEC")
	again("last", "+OK\r\n")

	_, addr = start(t, engineURL(t), func(o *server.Options) {
		o.Users = map[string]string{"app": "on >pw ~* &* +@all"}
	})
	app = login(t, addr, "app")
	for _, password := range []string{"x", ""} {
		if got := app.do("CONFIG", "SET", "requirepass", password); !strings.Contains(got, "'requirepass') - redoubt: there is no user 'default'") {
			t.Errorf("%q: %q", password, got)
		}
	}
}

// TestRequirepassExposed: a server that other machines can reach keeps its password.
func TestRequirepassExposed(t *testing.T) {
	srv, addr := start(t, engineURL(t), withPassword)
	l, err := srv.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.ServeOn(t, srv, l)
	outer := dial(t, net.JoinHostPort("127.0.0.1", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)))
	outer.want("-NOAUTH Authentication required.\r\n", "GET k") // it is served
	w := dial(t, addr)
	w.want("+OK\r\n", "AUTH secret")
	if got := w.do("CONFIG", "SET", "timeout", "7", "requirepass", ""); !strings.HasPrefix(got, "-ERR CONFIG SET failed (possibly related to argument 'requirepass') - redoubt: user 'default' would need no password") {
		t.Errorf("%q", got)
	}
	w.want("*4\r\n$11\r\nrequirepass\r\n$6\r\nsecret\r\n$7\r\ntimeout\r\n$1\r\n0\r\n", "CONFIG GET requirepass timeout")
	outer.want("-NOAUTH Authentication required.\r\n", "GET k")
	w.want("+OK\r\n", "CONFIG SET requirepass other")
	outer.want("+OK\r\n", "AUTH other")
}

// TestConfigTimeout: CONFIG SET timeout closes clients that are idle, and no others, and 0 ends that.
func TestConfigTimeout(t *testing.T) {
	srv, addr := start(t, engineURL(t))
	w, idle, listening := dial(t, addr), dial(t, addr), dial(t, addr)
	idle.want("+PONG\r\n", "PING")
	listening.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
	w.want("+OK\r\n", "CONFIG SET timeout 1")
	began := time.Now()
	idle.expectClosed()
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("closed after %v", took)
	}
	if n := srv.Stats().IdleClosed; n == 0 {
		t.Error("it is not counted")
	}
	w = dial(t, addr)
	w.want(":1\r\n", "PUBLISH x y")
	w.want("+OK\r\n", "CONFIG SET timeout 0")
	listening.read()
	listening.want("*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n", "UNSUBSCRIBE x")
	w.want("*-1\r\n", "BLPOP nothing 2") // longer than the tick that sees the new timeout, and the old timeout
	listening.want("+PONG\r\n", "PING")
}
