package faultnet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client talks RESP by hand, so that each byte is the test's own.
type client struct {
	*testing.T
	net.Conn
	*bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{T: t, Conn: conn, Reader: bufio.NewReader(conn)}
}

// send sends commands as inline text, "\n" between them, in one write.
func (c *client) send(commands string) {
	c.Helper()
	if _, err := fmt.Fprint(c.Conn, strings.ReplaceAll(commands+"\n", "\n", "\r\n")); err != nil {
		c.Fatal(err)
	}
}

// line returns the next line of the server, or "" and the error.
func (c *client) line(within time.Duration) (string, error) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(within))
	line, err := c.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

const (
	patience = 20 * time.Second       // for what must come
	silence  = 100 * time.Millisecond // for what must not come
)

func (c *client) want(line string) {
	c.Helper()
	if got, err := c.line(patience); got != line {
		c.Fatalf("the server answered %q, %v; want %q", got, err, line)
	}
}

func (c *client) wantSilence() {
	c.Helper()
	if got, err := c.line(silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Fatalf("got %q, %v; want nothing", got, err)
	}
}

// wantEnd wants the connection to be over, with no byte before.
func (c *client) wantEnd() {
	c.Helper()
	_ = c.end()
}

// end is wantEnd and returns how it ended.
func (c *client) end() error {
	c.Helper()
	got, err := c.line(patience)
	if got != "" || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.Fatalf("got %q, %v; want the end of the connection", got, err)
	}
	return err
}

func start(t *testing.T) (*redistest.Server, *faultnet.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, faultnet.New(t, s.Addr())
}

func TestPassesEverythingOn(t *testing.T) {
	_, p := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
	defer rdb.Close()
	big := strings.Repeat("0123456789", 1<<20)
	if err := rdb.Set(t.Context(), "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := rdb.Get(t.Context(), "big").Result(); got != big {
		t.Errorf("a value of %d bytes came back with %d, %v", len(big), len(got), err)
	}
	if s := p.Stats(); s.ToServer < int64(len(big)) || s.ToClient < int64(len(big)) || s.Accepted < 1 || s.Open < 1 {
		t.Errorf("Stats are %+v", s)
	}
}

func TestCloseOfEitherEndIsPassedOn(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("QUIT") // the server closes
	c.want("+OK")
	if err := c.end(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ended with %v, want EOF", err)
	}
	c = dial(t, p.Addr())
	c.send("CLIENT SETNAME mine")
	c.want("+OK")
	_ = c.Close()
	eventually(t, "the server's connection is closed", func() bool {
		return !strings.Contains(s.CLI("CLIENT", "LIST"), "name=mine")
	})
	eventually(t, "the proxy forgets both", func() bool { return p.Stats().Open == 0 })
	if n := p.Stats().Accepted; n != 2 {
		t.Errorf("it accepted %d connections, want 2", n)
	}
}

// A client that closes its sending side still gets its answer.
func TestHalfCloseIsPassedOn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn) // ends when the client has closed its side
		_, _ = fmt.Fprintf(conn, "%d bytes\r\n", len(all))
	}()
	c := dial(t, faultnet.New(t, listener.Addr().String()).Addr())
	c.send("PING")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.want("6 bytes")
	c.wantEnd()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, patience, what, ok)
}

func TestDelay(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	c.send("PING")
	c.want("+PONG")
	const d = 30 * time.Millisecond
	p.Delay(d)
	began := time.Now()
	c.send("PING\nPING")
	c.want("+PONG")
	c.want("+PONG")
	if took := time.Since(began); took < 2*d {
		t.Errorf("a round trip with %v each way took %v", d, took)
	}
	p.Delay(time.Hour)
	c.send("PING")
	c.wantSilence()
	p.Delay(0) // for what arrives from now on, behind what is delayed
	c.send("PING")
	c.wantSilence()
}

func TestBlackhole(t *testing.T) {
	for name, test := range map[string]struct {
		d    faultnet.Direction
		runs bool // whether the request reaches the server
	}{
		"to the server": {faultnet.ToServer, false},
		"to the client": {faultnet.ToClient, true},
		"both":          {faultnet.Both, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := start(t)
			c := dial(t, p.Addr())
			c.send("PING")
			c.want("+PONG")
			p.Blackhole(test.d)
			c.send("INCR n")
			later := dial(t, p.Addr()) // connections are still made
			later.send("INCR n")
			if test.runs {
				eventually(t, "the requests reach the server", func() bool { return s.CLI("GET", "n") == "2" })
			}
			c.wantSilence()
			later.wantSilence()
			if got := s.CLI("GET", "n"); (got == "2") != test.runs {
				t.Errorf("n is %q on the server", got)
			}
			p.Heal()
			first, err := c.line(patience)
			second, err2 := later.line(patience)
			if got := first + second; got != ":1:2" && got != ":2:1" {
				t.Errorf("after Heal the answers are %q, %v and %q, %v", first, err, second, err2)
			}
			c.send("PING")
			c.want("+PONG")
		})
	}
}

// A client that gave up is gone, but what it sent arrives all the same: the
// late copy of a request.
func TestHeldRequestArrivesAfterItsClientLeft(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	p.Blackhole(faultnet.Both)
	c.send("SET k v")
	_ = c.Close()
	if got := s.CLI("GET", "k"); got != "" {
		t.Fatalf("k is %q before Heal", got)
	}
	p.Heal()
	eventually(t, "the request arrives", func() bool { return s.CLI("GET", "k") == "v" })
}

func TestCut(t *testing.T) {
	s, p := start(t)
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	c.send("CLIENT SETNAME mine")
	c.want("+OK")
	other.send("CLIENT SETNAME mine")
	other.want("+OK")
	p.Blackhole(faultnet.ToServer)
	c.send("SET k v")
	p.Cut()
	if n := p.Stats().Open; n != 0 {
		t.Errorf("%d connections are left after Cut", n)
	}
	for _, c := range []*client{c, other} {
		if err := c.end(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection ended with %v, want a reset", err)
		}
	}
	eventually(t, "the server's connections are closed", func() bool {
		return !strings.Contains(s.CLI("CLIENT", "LIST"), "name=mine")
	})
	p.Heal()
	again := dial(t, p.Addr())
	again.send("EXISTS k") // what was held of the cut connection is lost
	again.want(":0")
}

func TestRefuseAndAccept(t *testing.T) {
	_, p := start(t)
	present := dial(t, p.Addr())
	present.send("PING")
	present.want("+PONG")
	p.Refuse()
	p.Refuse() // does nothing
	if conn, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = conn.Close()
		}
		t.Errorf("Dial while refusing returned %v", err)
	}
	present.send("PING")
	present.want("+PONG")
	p.Accept()
	p.Accept() // does nothing
	c := dial(t, p.Addr())
	c.send("PING")
	c.want("+PONG")
}

func TestDeadServerResetsItsClients(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("PING")
	c.want("+PONG")
	s.Kill()
	c.wantEnd()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // the reset may come as early as this
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a new connection to a dead server reads %v", err)
		}
	}
	s.Restart()
	c = dial(t, p.Addr())
	c.send("PING")
	c.want("+PONG")
}

func TestCloseEndsEverything(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	c.send("PING")
	c.want("+PONG")
	p.Blackhole(faultnet.Both)
	p.Delay(time.Hour)
	c.send("PING")
	p.Close()
	p.Close()
	c.wantEnd()
	p.Accept() // does not open it again
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = conn.Close()
		t.Error("a closed proxy accepts connections")
	}
	goleak.VerifyNone(t)
}
