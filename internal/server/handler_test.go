package server

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// startWith runs a server that knows more commands.
func startWith(t *testing.T, more map[string]func(c *session)) (srv *Server, dial func() net.Conn) {
	t.Helper()
	backend, err := proxy.ParseURL(redistest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: backend.Addr})
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err = New(Options{Backend: backend, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range more {
		srv.handlers[name] = &handler{name: name, run: func(c *session, _ [][]byte, _ []byte) { run(c) }}
	}
	srv.initials = initials(srv.handlers)
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
		_ = client.Close()
		_ = rdb.Close()
	})
	return srv, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		return c
	}
}

func exchange(t *testing.T, c net.Conn, send, want string) {
	t.Helper()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); string(got) != want {
		t.Fatalf("%q: got %q %v, want %q", send, got[:n], err, want)
	}
}

// TestUndo: the server undoes what a handler did for a client that has gone.
func TestUndo(t *testing.T) {
	began, undone := make(chan struct{}), make(chan struct{})
	srv, dial := startWith(t, map[string]func(c *session){"test.wait": func(c *session) {
		c.await(familyRedis, command.Plan{Wait: func(ctx context.Context) command.Outcome {
			close(began)
			<-ctx.Done() // and succeeds all the same
			return command.Outcome{
				Append: func(dst []byte, _ resp.Protocol) []byte { return resp.AppendInt(dst, 1) },
				Undo:   func() { close(undone) },
			}
		}})
	}})
	c := dial()
	if _, err := io.WriteString(c, "TEST.WAIT\r\n"); err != nil {
		t.Fatal(err)
	}
	<-began
	_ = c.Close()
	select {
	case <-undone:
	case <-time.After(10 * time.Second):
		t.Fatal("it was not taken back")
	}
	if n := srv.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// A panic is one error reply, wherever it happens.
func TestPanics(t *testing.T) {
	const fault = "-ERR redoubt: internal error\r\n"
	srv, dial := startWith(t, map[string]func(c *session){
		"test.handler": func(*session) { panic("handler") },
		"test.wait": func(c *session) {
			c.await(familyRedis, command.Plan{Wait: func(context.Context) command.Outcome { panic("wait") }})
		},
		"test.translate": func(c *session) {
			keys, err := wire.RWKeys(c.srv.env.Client, "x")
			if err != nil {
				panic(err)
			}
			cmd := wire.InfoCmd(keys)
			c.carrier.script(nil, nil, command.Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, _ redoubt.Reply) []byte { panic("translate") }})
		},
	})
	c, other := dial(), dial()
	for _, name := range []string{"HANDLER", "WAIT", "TRANSLATE"} {
		exchange(t, c, "ECHO a\r\nTEST."+name+"\r\nECHO b\r\nSET k v\r\n", "$1\r\na\r\n"+fault+"$1\r\nb\r\n+OK\r\n")
		exchange(t, other, "GET k\r\n", "$1\r\nv\r\n")
	}
	if n := srv.Stats().Panics; n != 3 {
		t.Errorf("%d panics counted, want 3", n)
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	srv, _ := startWith(t, nil)
	names := [][]byte{[]byte("Lock.Acquire"), []byte("GET"), []byte(strings.Repeat("X", 100)), {0xff}}
	if n := testing.AllocsPerRun(100, func() {
		for i, name := range names {
			if h := srv.lookup(name); (h != nil) != (i == 0) {
				t.Fatalf("%s: %v", name, h)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
