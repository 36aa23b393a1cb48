package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestLongReply has replies that are too long dropped, and wants those before and behind
// them, on the same connection.
func TestLongReply(t *testing.T) {
	r := redistest.Start(t)
	u, c := upstream(t, proxy.Options{Backend: backend(t, r.URL()), MaxReply: 1 << 20}), newCollector()
	value := strings.Repeat("x", 300<<10)
	commands := resp.AppendCommand(nil, "SET", "k", value)
	for range 3 {
		commands = resp.AppendCommand(commands, "MGET", "k", "none", "k", "k", "k", "k")
		commands = resp.AppendCommand(commands, "GET", "none")
		commands = resp.AppendCommand(commands, "EVAL", "return string.rep('x', 5000000)", "0")
		commands = resp.AppendCommand(commands, "ECHO", "behind")
	}
	if err := u.Send(c, 1, 13, commands); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	tooLong := fmt.Sprintf("-ERR redoubt: the reply is longer than %d bytes: the command has run\r\n", 1<<20)
	c.want(t, 1, "+OK\r\n")
	for tag := uint64(2); tag < 14; tag += 4 {
		c.want(t, tag, tooLong)
		c.want(t, tag+1, "$-1\r\n")
		c.want(t, tag+2, tooLong)
		c.want(t, tag+3, "$6\r\nbehind\r\n")
	}
	if s := u.Stats(); s.Connects != 1 || s.Losses != 0 {
		t.Errorf("%d connections made, %d lost", s.Connects, s.Losses)
	}
}

// TestIsolation isolates large commands. The server closes the connection of one of them. Commands on the
// shared connection get their replies.
func TestIsolation(t *testing.T) {
	r := redistest.Start(t, "--proto-max-bulk-len", "1mb", "--client-output-buffer-limit", "normal 8mb 0 0")
	u, c := upstream(t, proxy.Options{Backend: backend(t, r.URL()), AskLimits: true}), newCollector()
	await.Soon(t, "the limit is known", u.Limited)
	send := func(tag uint64, args ...string) {
		t.Helper()
		if err := u.WithTimeout(0).SendIsolated(t.Context, c, tag, 1, resp.AppendCommand(nil, args...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Send(c, 1, 1, resp.AppendCommand(nil, "BLPOP", "list", "0")); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	for tag := uint64(2); tag < 6; tag++ {
		send(tag, "ECHO", "apart")
		c.want(t, tag, "$5\r\napart\r\n")
	}
	send(6, "SET", "k", strings.Repeat("x", 2<<20))
	c.wait(t, "a reply", func() bool { return c.replies[6] != "" })
	if got := c.replies[6]; got[0] != '-' {
		t.Errorf("a bulk that is too large: %q", got)
	}
	send(7, "EVAL", "return string.rep('x', 20000000)", "0")
	c.want(t, 7, string(proxy.Lost(r.Addr()).Reply()))
	send(8, "RPUSH", "list", "x")
	c.want(t, 8, ":1\r\n")
	c.want(t, 1, "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n")
	if s := u.Stats(); s.Connects != 1 || s.Losses != 0 {
		t.Errorf("%d shared connections made, %d lost", s.Connects, s.Losses)
	}
	// Close answers the waiting clients.
	send(9, "BLPOP", "list", "0")
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	c.wait(t, "a reply", func() bool { return c.replies[9] != "" })
	if got := c.replies[9]; !strings.HasPrefix(got, "-ERR redoubt: ") {
		t.Errorf("a command at the end: %q", got)
	}
	if err := u.WithTimeout(0).SendIsolated(t.Context, c, 10, 1, resp.AppendCommand(nil, "PING")); err == nil {
		t.Error("a closed upstream sends")
	}
}

// TestLimited: the limits are known before anything is sent, and followed when they change.
func TestLimited(t *testing.T) {
	for limit, want := range map[string]bool{"0 0 0": false, "1mb 0 0": true, "0 1mb 10": true} {
		r := redistest.Start(t, "--client-output-buffer-limit", "normal "+limit)
		u := upstream(t, proxy.Options{Backend: backend(t, r.URL()), AskLimits: true})
		if err := u.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := u.Limited(); got != want {
			t.Errorf("%s: %t, want %t", limit, got, want)
		}
	}
	r := redistest.Start(t)
	u, c := upstream(t, proxy.Options{Backend: backend(t, r.URL()), Protocol: resp.RESP3, AskLimits: true}), newCollector()
	for tag, limited := range []bool{true, false} { // a second each: so often the server is asked
		limit := map[bool]string{true: "normal 1mb 0 0", false: "normal 0 0 0"}[limited]
		if got := r.CLI("CONFIG", "SET", "client-output-buffer-limit", limit); got != "OK" {
			t.Fatal(got)
		}
		if err := u.Send(c, uint64(tag), 1, resp.AppendCommand(nil, "PING")); err != nil {
			t.Fatal(err)
		}
		u.Flush()
		await.Soon(t, "it is known", func() bool { return u.Limited() == limited })
	}
	if s := u.Stats(); s.Connects != 1 {
		t.Errorf("%d shared connections made", s.Connects)
	}
}

// TestIsolatedCommandsWait: of many commands that are isolated at once 64 have a connection, and the others
// wait, first come, first served.
func TestIsolatedCommandsWait(t *testing.T) {
	const most, all = 64, 100
	r := redistest.Start(t)
	u, c := upstream(t, proxy.Options{Backend: backend(t, r.URL())}), newCollector()
	blpop := resp.AppendCommand(nil, "BLPOP", "list", "0")
	isolated := func() (n, waiting int) { s := u.Stats(); return s.Isolated, s.IsolatedWaiting }
	var senders sync.WaitGroup
	for tag := range uint64(all) {
		senders.Go(func() {
			if err := u.WithTimeout(0).SendIsolated(t.Context, c, tag, 1, blpop); err != nil {
				t.Error(err)
			}
		})
		await.Soon(t, "it is sent, or waits", func() bool {
			n, waiting := isolated()
			blocked := strings.Contains(r.CLI("INFO", "clients"), fmt.Sprintf("blocked_clients:%d\r", n))
			return n+waiting == int(tag)+1 && blocked //nolint:gosec // small
		})
	}
	if n, waiting := isolated(); n != most || waiting != all-most {
		t.Errorf("%d are isolated, %d wait", n, waiting)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- u.WithTimeout(0).SendIsolated(func() context.Context { return ctx }, c, all, 1, blpop) }()
	await.Soon(t, "it waits", func() bool { _, waiting := isolated(); return waiting == all-most+1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that goes: %v", err)
	}
	err := u.WithTimeout(time.Millisecond).SendIsolated(t.Context, c, all, 1, blpop)
	if got, want := string(proxy.Unreachable("r", err).Reply()), "-ERR redoubt: back end r: 64 large commands are under way, and this one got no permit within 1ms: the command was not sent\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for tag := range uint64(all) {
		value := fmt.Sprintf("%04d", tag)
		r.CLI("RPUSH", "list", value)
		c.want(t, tag, "*2\r\n$4\r\nlist\r\n$4\r\n"+value+"\r\n")
	}
	senders.Wait()
	if n, waiting := isolated(); n != 0 || waiting != 0 {
		t.Errorf("at the end %d are isolated, %d wait", n, waiting)
	}
}

// A lastOfItsOwn notes how many commands are isolated when it has its reply.
type lastOfItsOwn struct {
	u        *proxy.Upstream
	isolated chan int
}

func (l lastOfItsOwn) Reply(uint64, []byte) bool {
	l.isolated <- l.u.Stats().Isolated
	return false
}

func (lastOfItsOwn) Flush() {}

// TestIsolatedConnectionIsReturnedFirst: whoever has the reply finds the connection free.
func TestIsolatedConnectionIsReturnedFirst(t *testing.T) {
	r := redistest.Start(t)
	u := upstream(t, proxy.Options{Backend: backend(t, r.URL())})
	c := lastOfItsOwn{u, make(chan int, 1)}
	for range 3 {
		if err := u.WithTimeout(0).SendIsolated(t.Context, c, 0, 1, resp.AppendCommand(nil, "PING")); err != nil {
			t.Fatal(err)
		}
		if n := <-c.isolated; n != 0 {
			t.Errorf("%d commands are isolated when the last has its reply", n)
		}
	}
}
