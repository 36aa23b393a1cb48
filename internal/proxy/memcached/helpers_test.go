package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
)

// within bounds what should be quick.
const within = 30 * time.Second

// An env is a pool of memcached servers, and where it listens.
type env struct {
	*Pool
	servers []*memcachedtest.Server
	addr    string
	served  chan error
}

// newEnv starts n servers and a pool of them.
func newEnv(t testing.TB, n int, change func(*Options)) *env {
	t.Helper()
	w := &env{}
	opts := Options{Name: "test", Distribution: ring.Modula}
	for i := range n {
		s := memcachedtest.Start(t)
		w.servers = append(w.servers, s)
		opts.Servers = append(opts.Servers, Server{Server: ring.Server{Name: fmt.Sprintf("s%d", i), Weight: 1}, Addr: s.Addr()})
	}
	if change != nil {
		change(&opts)
	}
	w.open(t, opts)
	return w
}

func (w *env) open(t testing.TB, opts Options) {
	t.Helper()
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.Pool, w.addr, w.served = p, l.Addr().String(), make(chan error, 1)
	go func() { w.served <- p.Serve(l) }()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-w.served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve returned %v, want ErrClosed", err)
		}
	})
}

// keysOf returns keys that the servers have, n of each.
func (w *env) keysOf(n int) [][]string {
	of := make([][]string, len(w.group.Load().nodes))
	for i, left := 0, n*len(of); left > 0; i++ {
		k := fmt.Sprintf("key:%d", i)
		if at := w.group.Load().pick([]byte(k)).index; len(of[at]) < n {
			of[at] = append(of[at], k)
			left--
		}
	}
	return of
}

// A user is a connection that speaks the protocol.
type user struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func dial(t testing.TB, addr string) *user {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(4 * within))
	return &user{t: t, conn: conn, r: bufio.NewReader(conn)}
}

func (u *user) send(format string, args ...any) {
	u.t.Helper()
	if _, err := fmt.Fprintf(u.conn, format, args...); err != nil {
		u.t.Fatal(err)
	}
}

// line returns the next line without its end.
func (u *user) line() string {
	u.t.Helper()
	l, err := u.r.ReadString('\n')
	if err != nil {
		u.t.Fatalf("%v after %q", err, l)
	}
	return strings.TrimSuffix(l, "\r\n")
}

// ask sends a command and returns a line of its answer.
func (u *user) ask(format string, args ...any) string {
	u.t.Helper()
	u.send(format+"\r\n", args...)
	return u.line()
}

func (u *user) want(want string) {
	u.t.Helper()
	if got := u.line(); got != want {
		u.t.Fatalf("answered %q, want %q", got, want)
	}
}

// wantEnd wants the connection to be closed.
func (u *user) wantEnd() {
	u.t.Helper()
	if rest, err := io.ReadAll(u.r); err != nil || len(rest) > 0 {
		u.t.Fatalf("%q and %v, want the end", rest, err)
	}
}

// talk sends text and returns all that is answered to it.
func talk(t testing.TB, addr, text string) string {
	t.Helper()
	u := dial(t, addr)
	go func() { _, _ = u.conn.Write([]byte(text + "\r\nverbosity 1\r\nbye-bye\r\n")) }()
	var got bytes.Buffer
	for !bytes.HasSuffix(got.Bytes(), []byte("OK\r\nERROR\r\n")) {
		l, err := u.r.ReadString('\n')
		got.WriteString(l)
		if err != nil {
			t.Fatalf("to %.80q came %.200q, then %v", text, got.String(), err)
		}
	}
	return strings.TrimSuffix(got.String(), "OK\r\nERROR\r\n")
}
