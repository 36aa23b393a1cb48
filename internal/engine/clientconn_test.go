package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A peer is a test's end of a connection.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func connect(t *testing.T, e *Engine) *peer {
	t.Helper()
	c, err := e.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &peer{c, t, bufio.NewReader(c)}
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	var b []byte
	for _, l := range lines {
		b = resp.AppendCommand(b, split(l)...)
	}
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("%q: %v", lines, err)
	}
}

// want reads what must come, byte for byte.
func (p *peer) want(text string) {
	p.t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(p.r, got)
	if string(got[:n]) != text {
		p.t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

// quiet checks that nothing has come that was not read: replies come in order.
func (p *peer) quiet() {
	p.t.Helper()
	p.send("ECHO quiet")
	p.want("$5\r\nquiet\r\n")
}

func TestConnectionRunsPipelines(t *testing.T) {
	p := connect(t, open(t, Options{}))
	p.send("SET k v", "GET k", "NOSUCH", "HELLO 3", "HSET h a b", "HGETALL h")
	p.want("+OK\r\n$1\r\nv\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n%7\r\n$6\r\nserver\r\n")
	for range 15 { // the rest of HELLO, one line a piece but for the strings
		_, _ = p.r.ReadString('\n')
	}
	for line := ""; line != "*0\r\n"; {
		line, _ = p.r.ReadString('\n')
	}
	p.want(":1\r\n%1\r\n$1\r\na\r\n$1\r\nb\r\n")
	// A command in pieces, and the inline form.
	for _, b := range []byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nGET k\r\n") {
		if _, err := p.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	p.want("$1\r\nv\r\n$1\r\nv\r\n")
	p.send("MULTI", "INCR n", "INCR n", "EXEC", "QUIT", "INCR n")
	p.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n+OK\r\n")
	if _, err := p.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after QUIT: %v", err)
	}
	q := connect(t, p.Conn.(*clientConn).e)
	q.send("GET n")
	q.want("$1\r\n2\r\n")
}

func TestConnectionWaits(t *testing.T) {
	e := open(t, Options{})
	p, q := connect(t, e), connect(t, e)
	p.send("BLPOP q 0", "SET after 1", "BLPOP q 0", "GET after")
	q.send("EXISTS after", "RPUSH q a")
	q.want(":0\r\n:1\r\n")
	p.want("*2\r\n$1\r\nq\r\n$1\r\na\r\n+OK\r\n")
	q.send("RPUSH q b c", "LRANGE q 0 -1")
	q.want(":2\r\n*1\r\n$1\r\nc\r\n")
	p.want("*2\r\n$1\r\nq\r\n$1\r\nb\r\n$1\r\n1\r\n")
	p.send("BLPOP none 0.01", "PING")
	p.want("*-1\r\n+PONG\r\n")
}

func TestClosedConnectionTakesNothing(t *testing.T) {
	e := open(t, Options{})
	p, q := connect(t, e), connect(t, e)
	p.send("BLPOP q 0")
	p.Close()
	q.send("RPUSH q a", "LLEN q")
	q.want(":1\r\n:1\r\n")
	if _, err := p.Write([]byte("PING\r\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	_ = e.Close()
	if _, err := io.ReadAll(q); err != nil {
		t.Errorf("Read after the engine is closed: %v", err)
	}
	if _, err := e.Open(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Open on a closed engine: %v", err)
	}
}

func TestConnectionDeadlines(t *testing.T) {
	p := connect(t, open(t, Options{}))
	_ = p.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	_ = p.SetReadDeadline(time.Time{})
	p.send("PING")
	p.want("+PONG\r\n")
	// Behind a command that waits, Write waits once there is too much.
	p.send("BLPOP q 0")
	if _, err := p.Write([]byte(strings.Repeat("PING\r\n", maxBacklog/5))); err != nil {
		t.Fatal(err)
	}
	_ = p.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := p.Write([]byte("PING\r\n")); !errors.Is(err, os.ErrDeadlineExceeded) || n != 0 {
		t.Errorf("Write: %d, %v", n, err)
	}
}

// Unread replies hold up their own client, and nothing is lost.
func TestConnectionHoldsUpWriters(t *testing.T) {
	e := open(t, Options{})
	p := connect(t, e)
	const size, times = 1 << 20, 50
	p.send(fmt.Sprintf("SETRANGE big %d x", size-1))
	p.want(fmt.Sprintf(":%d\r\n", size))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range times {
			p.send("GET big")
		}
	})
	c := p.Conn.(*clientConn)
	eventually(t, "replies gather", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.out)-c.at > maxUnread
	})
	n, err := io.CopyN(io.Discard, p.r, times*(size+int64(len("$1048576\r\n\r\n"))))
	if err != nil {
		t.Fatalf("%d bytes, then %v", n, err)
	}
	wg.Wait()
	p.quiet()
}

func TestConnectionGetsMessagesBehindReplies(t *testing.T) {
	e := open(t, Options{})
	p, q := connect(t, e), connect(t, e)
	p.send("SUBSCRIBE a", "PSUBSCRIBE b*", "SSUBSCRIBE c")
	p.want("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$10\r\npsubscribe\r\n$2\r\nb*\r\n:2\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n")
	q.send("PUBLISH a 1", "PUBLISH bb 2", "SPUBLISH c 3")
	q.want(":1\r\n:1\r\n:1\r\n")
	p.want("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n*4\r\n$8\r\npmessage\r\n$2\r\nb*\r\n$2\r\nbb\r\n$1\r\n2\r\n*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\n3\r\n")
	p.send("GET k")
	p.want("-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n")
	p.send("RESET", "GET k")
	p.want("+RESET\r\n$-1\r\n")
}

// A confirmation comes before the first message, however quick the publisher.
func TestConfirmationComesFirst(t *testing.T) {
	e := open(t, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				do(t, e, "PUBLISH", "ch", "m")
			}
		}
	})
	const confirmed, message = "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n"
	for range 100 {
		p := connect(t, e)
		p.send("SUBSCRIBE ch")
		p.want(confirmed + message)
		p.Close()
	}
	close(stop)
	wg.Wait()
}

func TestMonitorShowsCommands(t *testing.T) {
	e := open(t, Options{})
	m, p := connect(t, e), connect(t, e)
	m.send("MONITOR")
	m.want("+OK\r\n")
	p.send("SET k \"\x01", "MULTI", "GET k", "EXEC", "CONFIG GET maxmemory", "AUTH default secret", "SELECT 2", "GET k")
	for _, want := range []string{`0 embedded:0] "SET" "k" "\"\x01"`, `"MULTI"`, `"GET" "k"`, `"EXEC"`, `"SELECT" "2"`, `[2 embedded:0] "GET" "k"`} {
		line, err := m.r.ReadString('\n')
		if err != nil || !strings.HasSuffix(line, want+"\r\n") {
			t.Fatalf("got %q, %v; want %q", line, err, want)
		}
	}
	m.Close()
	eventually(t, "nobody watches", func() bool { return e.monitors.n.Load() == 0 })
}

func TestClientCommands(t *testing.T) {
	e := open(t, Options{})
	p, q := connect(t, e), connect(t, e)
	p.send("CLIENT SETNAME me", "CLIENT GETNAME", "CLIENT SETNAME a\x7fb", "CLIENT ID", "CLIENT SETINFO lib-name x")
	p.want("+OK\r\n$2\r\nme\r\n-" + badName + "\r\n:1\r\n+OK\r\n")
	q.send("BLPOP q 0")
	p.send("CLIENT LIST")
	head, _ := p.r.ReadString('\n')
	n, _ := resp.ParseInt([]byte(strings.Trim(head, "$\r\n")))
	text := make([]byte, n+2)
	if _, err := io.ReadFull(p.r, text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id=1 addr=embedded:0", "name=me", "flags=N", "cmd=client|list", "lib-name=x", "id=2 ", "flags=b", "cmd=blpop"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("CLIENT LIST has no %q: %s", want, text)
		}
	}
	p.send("CLIENT UNBLOCK 2 ERROR", "CLIENT UNBLOCK 2", "CLIENT UNBLOCK 99")
	p.want(":1\r\n:0\r\n:0\r\n")
	q.want("-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")
	q.quiet()
	p.send("CLIENT REPLY OFF", "SET k 1", "CLIENT REPLY ON", "GET k", "CLIENT REPLY SKIP", "GET k", "GET k")
	p.want("+OK\r\n$1\r\n1\r\n$1\r\n1\r\n")
	p.quiet()
	p.send("CLIENT KILL ID 2", "CLIENT KILL ID 2", "CLIENT KILL ADDR nobody:1", "CLIENT KILL SKIPME no", "GET k")
	p.want(":1\r\n:0\r\n:0\r\n:1\r\n")
	for _, c := range []*peer{p, q} {
		if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("a killed connection reads %v", err)
		}
	}
}

func TestServeConn(t *testing.T) {
	e := open(t, Options{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { served <- e.ServeConn(c) }()
		}
	}()
	for _, last := range []string{"QUIT", "client closes"} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		p := &peer{c, t, bufio.NewReader(c)}
		p.send("SET k v", "CLIENT INFO")
		p.want("+OK\r\n")
		_, _ = p.r.ReadString('\n')
		if info, _ := p.r.ReadString('\n'); !strings.Contains(info, "addr="+c.LocalAddr().String()+" ") {
			t.Errorf("CLIENT INFO is %q, want it to show %v", info, c.LocalAddr())
		}
		if last == "QUIT" {
			p.send("QUIT")
			p.want("\r\n+OK\r\n")
		} else {
			c.Close()
		}
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("ServeConn: %v", err)
		}
		c.Close()
	}
}
