package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/await"
	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
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

// TestApart sends commands apart, one of which the server closes its connection for, while
// others wait for replies on the shared one.
func TestApart(t *testing.T) {
	r := redistest.Start(t, "--proto-max-bulk-len", "1mb", "--client-output-buffer-limit", "normal 8mb 0 0")
	u, c := upstream(t, proxy.Options{Backend: backend(t, r.URL()), AskLimits: true}), newCollector()
	await.Soon(t, "the limit is known", u.Limited)
	send := func(tag uint64, args ...string) {
		t.Helper()
		if err := u.Within(0).Apart().Send(c, tag, 1, resp.AppendCommand(nil, args...)); err != nil {
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
	c.want(t, 7, string(proxy.LostReply(r.Addr())))
	send(8, "RPUSH", "list", "x")
	c.want(t, 8, ":1\r\n")
	c.want(t, 1, "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n")
	if s := u.Stats(); s.Connects != 1 || s.Losses != 0 {
		t.Errorf("%d shared connections made, %d lost", s.Connects, s.Losses)
	}
	// Close answers who waits.
	send(9, "BLPOP", "list", "0")
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	c.wait(t, "a reply", func() bool { return c.replies[9] != "" })
	if got := c.replies[9]; !strings.HasPrefix(got, "-ERR redoubt: ") {
		t.Errorf("a command at the end: %q", got)
	}
	if err := u.Within(0).Apart().Send(c, 10, 1, resp.AppendCommand(nil, "PING")); err == nil {
		t.Error("a closed upstream sends")
	}
}

func TestLimited(t *testing.T) {
	for limit, want := range map[string]bool{"0 0 0": false, "1mb 0 0": true, "0 1mb 10": true} {
		r := redistest.Start(t, "--client-output-buffer-limit", "normal "+limit)
		u := upstream(t, proxy.Options{Backend: backend(t, r.URL()), AskLimits: true})
		if want {
			await.Soon(t, limit+" is a limit", u.Limited)
		} else {
			c := newCollector()
			await.Soon(t, "the server is asked", func() bool {
				if err := u.Send(c, 1, 1, resp.AppendCommand(nil, "INFO", "commandstats")); err != nil {
					t.Fatal(err)
				}
				u.Flush()
				c.wait(t, "a reply", func() bool { return c.replies[1] != "" })
				asked := strings.Contains(c.replies[1], "cmdstat_config|get")
				c.replies = map[uint64]string{}
				return asked
			})
			if u.Limited() {
				t.Errorf("%s is taken for a limit", limit)
			}
		}
	}
}
