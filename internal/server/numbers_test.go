package server_test

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// extremes are the numbers at which a conversion, a sum of times, a product with 1000 or a
// million, or the integers of Lua come to their end.
var extremes = strings.Fields(`0 -0 1 -1 +1 01 1.5 2147483647 2147483648 -2147483648 4294967295 4294967296 9223372036854 9223372036855 922337203685477 922337203685478
	9007199254740991 9007199254740992 9007199254740993 -9007199254740993 9223372036854775 9223372036854776 9223372036854775806 9223372036854775807 9223372036854775808
	-9223372036854775807 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 99999999999999999999999 0x10 1e18 1e308 -1e308 1e400 5e-324 nan inf -inf`)

// numbered returns every example of a command, and every option that is an integer behind
// the first, with N in place of each of the numbers in turn.
func numbered(c *command.Command) (lines [][]string) {
	var calls [][]string
	for _, e := range c.Examples {
		calls = append(calls, strings.Fields(e.Call))
	}
	for _, a := range c.Args {
		if a.Token != "" && a.Type == "integer" {
			calls = append(calls, append(slices.Clone(calls[0]), a.Token, "1"))
		}
	}
	for _, words := range calls {
		for i, w := range words {
			if _, err := strconv.ParseFloat(w, 64); i > 0 && err == nil {
				line := slices.Clone(words)
				line[i] = "N"
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// mayWait reports whether a command with a number waits for something.
func mayWait(c *command.Command, number string) bool {
	n, err := strconv.ParseFloat(number, 64)
	return slices.Contains(c.Flags, "blocking") && err == nil && n >= 0
}

// TestExtremeNumbers runs every command of ours with all of the numbers above in each place of
// a number, on an engine and on a redis-server. Each has a whole reply soon, and the two have
// the same one where it has no time in it, or else the same error or none. A command that waits for something ends with its client.
func TestExtremeNumbers(t *testing.T) {
	slow.Test(t, "it sends thousands of extreme numbers")
	_, here := start(t, engineURL(t))
	_, there := start(t, redistest.Start(t).URL())
	engine, redis := dial(t, here), dial(t, there)
	both := func(args ...string) (string, string) { return engine.do(args...), redis.do(args...) }
	lines := 0
	for _, c := range command.All() {
		for _, line := range numbered(c) {
			lines++
			both("FLUSHALL")
			for _, e := range c.Examples {
				if !slices.Contains(c.Flags, "blocking") {
					both(strings.Fields(e.Call)...)
				}
			}
			for _, n := range extremes {
				args := slices.Clone(line)
				args[slices.Index(line, "N")] = n
				if mayWait(c, n) {
					for _, addr := range []string{here, there} {
						w := dial(t, addr)
						w.send(args...)
						_ = w.conn.Close()
					}
					continue
				}
				got, want := both(args...)
				for _, reply := range []string{got, want} {
					if _, n, err := resp.Parse([]byte(reply)); err != nil || n != len(reply) {
						t.Errorf("%q: the reply is broken: %.200q, %v", args, reply, err)
					}
					if strings.Contains(reply, "user_script") || strings.Contains(reply, "script:") {
						t.Errorf("%q: an error of a script: %.200q", args, reply)
					}
				}
				exact := slices.Contains([]string{"stock", "bloom", "geo", "fence"}, c.Group) // the others tell times
				if (exact || got[0] == '-' || want[0] == '-') && got != want {
					t.Errorf("%q: %.200q on the engine, %.200q on Redis", args, got, want)
				}
			}
		}
	}
	if lines < 80 {
		t.Errorf("%d lines have a number: the examples are not understood", lines)
	}
	for _, w := range []*wire{engine, redis} {
		w.want("+PONG\r\n", "PING")
	}
}

// TestExtremeLengths wants what Redis says of extreme numbers of arguments and extreme lengths
// of them, in front of a server and of a pool that splits commands.
func TestExtremeLengths(t *testing.T) {
	direct := redistest.Start(t)
	_, here := start(t, engineURL(t))
	_, there := start(t, direct.URL())
	pool := startPool(t, 3)
	say := func(addr, text string) string {
		defer randtest.Command(t, func() string { return strconv.Quote(text) + " to " + addr })()
		w := dial(t, addr)
		defer w.conn.Close()
		w.write(text)
		_ = w.conn.(*net.TCPConn).CloseWrite()
		_ = w.conn.SetReadDeadline(time.Now().Add(patience))
		got, _ := io.ReadAll(w.conn) // a connection that is reset has said all that it has to say
		return string(got)
	}
	for _, n := range extremes {
		if strings.HasPrefix(n, "2147483647") { // of so many Redis waits for the first
			continue
		}
		for _, form := range []string{"*N\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n", "*3\r\n$N\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n", "*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$N\r\nx\r\n$1\r\nb\r\n$1\r\nx\r\n"} {
			text := strings.ReplaceAll(form, "N", n)
			want := say(direct.Addr(), text)
			for name, addr := range map[string]string{"an engine": here, "a server": there, "a pool": pool.addr} {
				got := say(addr, text)
				const ours, theirs = "-ERR Protocol error: expected CRLF\r\n", "-ERR Protocol error: expected '$'"
				strict := got == ours && strings.HasPrefix(want, theirs) // Redis takes any two bytes for the end
				if got != want && !strict {
					t.Errorf("%q: %s answers %.200q, Redis %.200q", text, name, got, want)
				}
			}
		}
	}
}
