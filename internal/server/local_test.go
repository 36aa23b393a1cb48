package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func withPassword(o *server.Options) { o.Password = "secret" }

func TestHello(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	for _, protocol := range []string{"2", "3"} {
		w, direct := dial(t, addr), dial(t, backend.Addr())
		got, want := w.value("HELLO", protocol, "SETNAME", "me"), direct.value("HELLO", protocol)
		fields := func(v any) []any {
			if m, ok := v.(resp.Map); ok {
				return m
			}
			a, _ := v.([]any)
			return a
		}
		g, d := fields(got), fields(want)
		if len(g) != len(d) {
			t.Fatalf("HELLO %s: %v, want the shape of %v", protocol, g, d)
		}
		for i := range d {
			if i > 0 && d[i-1] == "id" {
				if g[i] != w.value("CLIENT", "ID") {
					t.Errorf("id %v is not CLIENT ID", g[i])
				}
				continue
			}
			if _, isList := d[i].([]any); !isList && g[i] != d[i] {
				t.Errorf("HELLO %s: %v, want %v", protocol, g[i], d[i])
			}
		}
		w.want(bulk("me"), "CLIENT GETNAME")
	}
}

func TestAuth(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), withPassword)
	w := dial(t, addr)
	const noAuth = "-NOAUTH Authentication required.\r\n"
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	const wrongUser = "-WRONGPASS invalid username-password pair or user is disabled. redoubt: users of the back end count only where Redoubt itself asks for no password\r\n"
	for _, c := range []string{"GET k", "PING", "ECHO x", "MULTI", "CLIENT ID", "COMMAND", "LOCK.RELEASE a b", "SUBSCRIBE x", "NOSUCH"} {
		w.want(noAuth, c)
	}
	if got := w.do("HELLO", "3"); !strings.HasPrefix(got, "-NOAUTH HELLO must be called with the client already authenticated") {
		t.Errorf("HELLO: %q", got)
	}
	w.want(wrong, "AUTH wrong")
	w.want(wrongUser, "AUTH default wrong") // the same for a user that there is
	w.want(wrongUser, "AUTH nobody secret")
	backend.CLI("ACL", "SETUSER", "theirs", "on", ">secret", "+@all", "~*")
	w.want(wrongUser, "AUTH theirs secret")
	w.want(wrongUser, "HELLO 2 AUTH default wrong")
	w.want(noAuth, "GET k")
	w.want("+OK\r\n", "AUTH secret")
	w.want("$-1\r\n", "GET k")
	w.want("+OK\r\n", "WATCH k")
	w.want("+RESET\r\n", "RESET")
	w.want(noAuth, "GET k")
	if got := w.do("HELLO", "3", "AUTH", "default", "secret"); got[0] != '%' {
		t.Errorf("HELLO AUTH: %q", got)
	}
	w.want("_\r\n", "GET k")
	if n := srv.Stats().AuthFailures; n != 5 {
		t.Errorf("%d failures counted, want 5", n)
	}
	big := dial(t, addr)
	big.write("*1000000\r\n")
	big.expect("-ERR Protocol error: unauthenticated multibulk length\r\n")
	big.expectClosed()
}

func TestClientCommands(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	a, b, c := dial(t, addr), dial(t, addr), dial(t, addr)
	a.want("+OK\r\n", "CLIENT SETNAME anna")
	a.want("+OK\r\n", "CLIENT SETINFO LIB-NAME mine")
	a.want("+OK\r\n", "CLIENT SETINFO lib-ver 1.2")
	b.want("+OK\r\n", "CLIENT SETNAME ben")
	c.want("+PONG\r\n", "PING") // it has been accepted
	id, _ := a.value("CLIENT", "ID").(int64)
	list, _ := b.value("CLIENT", "LIST").(string)
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], " name=anna ") || !strings.Contains(lines[0], "lib-name=mine lib-ver=1.2") || !strings.Contains(lines[1], " name=ben ") {
		t.Errorf("CLIENT LIST: %q", list)
	}
	if strings.Contains(backend.CLI("CLIENT", "LIST"), "name=anna") {
		t.Error("a name reached the shared connection")
	}
	info, _ := a.value("CLIENT", "INFO").(string)
	if !strings.HasPrefix(info, "id="+itoa(id)+" ") {
		t.Errorf("CLIENT INFO: %q", info)
	}
	a.want("$-1\r\n", "GET k") // and on its own connection
	a.want("+OK\r\n", "WATCH k")
	if !strings.Contains(backend.CLI("CLIENT", "LIST"), "name=anna") {
		t.Error("the name did not reach the client's own connection")
	}
	b.want(":1\r\n", "CLIENT KILL ID "+itoa(id))
	a.expectClosed()
	b.want("-ERR No such client\r\n", "CLIENT KILL 127.0.0.1:1")
	c.want("-ERR No such user 'nobody'\r\n", "CLIENT KILL USER nobody")
	c.want(":1\r\n", "CLIENT KILL TYPE normal")
	b.expectClosed()
	c.want(":1\r\n", "CLIENT KILL TYPE normal SKIPME no")
	c.expectClosed()
	eventually(t, "all are gone", func() bool { return srv.Stats().Clients == 0 })
}

func TestQuit(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.write("SET k v\r\nGET k\r\nQUIT\r\nGET k\r\n")
	w.expect("+OK\r\n")
	w.expect(bulk("v"))
	w.expect("+OK\r\n")
	w.expectClosed()
}

func TestCommand(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		direct := dial(t, b.Addr)
		for _, protocol := range []string{"2", "3"} {
			w := dial(t, addr)
			_ = w.do("HELLO", protocol)
			_ = direct.do("HELLO", protocol)
			all, _ := w.value("COMMAND").([]any)
			theirs, _ := direct.value("COMMAND").([]any)
			count, _ := w.value("COMMAND", "COUNT").(int64)
			var names []string
			for _, e := range all {
				names = append(names, e.([]any)[0].(string))
			}
			if len(all) <= len(theirs) || int(count) != len(all) || !slices.Contains(names, "lock.acquire") {
				t.Errorf("RESP%s: COMMAND has %d entries, the back end's %d, COUNT says %d", protocol, len(all), len(theirs), count)
			}
			info, _ := w.value("COMMAND", "INFO", "lock.acquire", "nosuch").([]any)
			if len(info) != 2 || info[1] != nil || info[0].([]any)[0] != "lock.acquire" || info[0].([]any)[1] != int64(-3) || len(info[0].([]any)) != 10 {
				t.Errorf("COMMAND INFO: %v", info)
			}
			docs := w.value("COMMAND", "DOCS", "lock.release", "nosuch")
			flat, ok := docs.([]any)
			if m, isMap := docs.(resp.Map); isMap {
				flat, ok = m, protocol == "3"
			}
			if !ok || len(flat) != 2 || flat[0] != "lock.release" {
				t.Errorf("COMMAND DOCS: %v", docs)
			}
			list, _ := w.value("COMMAND", "LIST").([]any)
			if b.Server != nil && len(list) <= len(theirs) {
				t.Errorf("COMMAND LIST has %d", len(list))
			}
			w.want(array(bulk("name")), "COMMAND GETKEYS LOCK.ACQUIRE name 100")
		}
	})
}

func TestCommandListFilter(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.want(array(bulk("lock.info")), "COMMAND LIST FILTERBY PATTERN lock.in*")
	w.want("*0\r\n", "COMMAND LIST FILTERBY MODULE nosuch")
	list, _ := w.value("COMMAND", "LIST", "FILTERBY", "MODULE", "redoubt").([]any)
	if !slices.Contains(list, any("lock.acquire")) {
		t.Errorf("FILTERBY MODULE: %v", list)
	}
}
