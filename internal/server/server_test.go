package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A subscription's connection is kept for some seconds after its last
		// use, in case there is another.
		goleak.IgnoreAnyFunction("github.com/redoubt-go/redoubt/goredis.(*hub).run"))
}

// start runs a server in front of the back end at url and returns it and its
// address. It ends with the test.
func start(tb testing.TB, url string, change ...func(o *server.Options)) (*server.Server, string) {
	tb.Helper()
	backend, err := proxy.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: backend.Network, Addr: backend.Addr, DB: backend.DB})
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		tb.Fatal(err)
	}
	var way redoubt.Conn = conn
	opts := server.Options{Backend: backend}
	if e, ok := inProcess.Load(url); ok {
		e := e.(*engine.Engine)
		way, opts.Backend, opts.Sessions = e, e.Group(), func(c net.Conn) server.Session { return e.SessionFor(c) }
	}
	client, err := redoubt.New(way, redoubt.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = client.Close()
		_ = rdb.Close()
	})
	opts.Client = client
	for _, f := range change {
		f(&opts)
	}
	srv, err := server.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return srv, servertest.Serve(tb, srv)
}

// inProcess are the engines that start uses without a connection, by URL.
var inProcess sync.Map

// each is redistest.Each, and runs the test on an engine in this process too,
// whose commands run in sessions of the clients' own.
func each(t *testing.T, run func(t *testing.T, b redistest.Backend)) {
	t.Helper()
	redistest.Each(t, run)
	t.Run("inprocess", func(t *testing.T) {
		url := engineURL(t)
		run(t, redistest.Backend{Name: "inprocess", URL: url, Prefix: "inprocess", Addr: strings.TrimPrefix(url, "redis://")})
	})
}

// engineURL returns the URL of a new engine in this process.
func engineURL(t testing.TB) string {
	t.Helper()
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	url := "redis://" + s.Addr()
	inProcess.Store(url, s.Engine())
	t.Cleanup(func() {
		inProcess.Delete(url)
		_ = s.Close()
	})
	return url
}

// A wire is a client that sees every byte.
type wire struct {
	tb   testing.TB
	conn net.Conn
	buf  []byte
	scan resp.ReplyScanner
}

const patience = 30 * time.Second

func dial(tb testing.TB, addr string) *wire {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{tb: tb, conn: conn}
	tb.Cleanup(func() { _ = conn.Close() })
	return w
}

func (w *wire) write(raw string) {
	w.tb.Helper()
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := w.conn.Write([]byte(raw)); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *wire) send(args ...string) {
	w.tb.Helper()
	w.write(string(resp.AppendCommand(nil, args...)))
}

// sendQuietly is send for goroutines that must not end the test: what goes
// wrong shows in the reply.
func (w *wire) sendQuietly(args ...string) { w.writeQuietly(resp.AppendCommand(nil, args...)) }

func (w *wire) writeQuietly(raw []byte) {
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience))
	_, _ = w.conn.Write(raw)
}

// next returns the bytes of the next reply.
func (w *wire) next() (string, error) {
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		n, err := w.scan.Next(w.buf)
		if err != nil {
			return "", err
		}
		if n > 0 {
			raw := string(w.buf[:n])
			w.buf = w.buf[n:]
			return raw, nil
		}
		chunk := make([]byte, 64<<10)
		n, err = w.conn.Read(chunk)
		w.buf = append(w.buf, chunk[:n]...)
		if err != nil && n == 0 {
			return "", err
		}
	}
}

func (w *wire) read() string {
	w.tb.Helper()
	raw, err := w.next()
	if err != nil {
		w.tb.Fatalf("no reply: %v; so far %q", err, w.buf)
	}
	return raw
}

// do sends one command and returns the bytes of its reply.
func (w *wire) do(args ...string) string {
	w.tb.Helper()
	defer randtest.Command(w.tb, func() string { return fmt.Sprintf("%.500q", args) })()
	w.send(args...)
	return w.read()
}

// want sends one command, written with blanks, and checks its reply.
func (w *wire) want(reply string, command string) {
	w.tb.Helper()
	if got := w.do(strings.Fields(command)...); got != reply {
		w.tb.Fatalf("%s: %q, want %q", command, got, reply)
	}
}

// expect checks the next reply.
func (w *wire) expect(reply string) {
	w.tb.Helper()
	if got := w.read(); got != reply {
		w.tb.Fatalf("got %q, want %q", got, reply)
	}
}

// value sends one command and returns its reply as a value.
func (w *wire) value(args ...string) any {
	w.tb.Helper()
	v, _, err := resp.Parse([]byte(w.do(args...)))
	if err != nil {
		w.tb.Fatal(err)
	}
	return v
}

func (w *wire) expectClosed() {
	w.tb.Helper()
	if raw, err := w.next(); err == nil {
		w.tb.Fatalf("got %q, want the end of the connection", raw)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		w.tb.Fatal("the connection is still open")
	}
}

// silent checks that nothing has come and nothing is under way, by a PING.
func (w *wire) silent() {
	w.tb.Helper()
	w.want("$6\r\nsilent\r\n", "PING silent")
}

// eventually polls until ok or fails the test.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	await.Until(tb, patience, what, ok)
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func array(elements ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(elements))
	for _, e := range elements {
		b.WriteString(e)
	}
	return b.String()
}
