package server_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// five is a reply that says nothing of a retry.
func five(limited, limit, remaining, reset int) string {
	return fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:-1\r\n:%d\r\n", limited, limit, remaining, reset)
}

// TestThrottleVectors replays what the module answered.
func TestThrottleVectors(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		f, err := os.Open("testdata/cl-throttle.txt")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := dial(t, addr)
		_, n := w.do("PING"), 0
		sc := bufio.NewScanner(f)
		var third int
		for sc.Scan() {
			line := sc.Text()
			if !strings.HasPrefix(line, "  ") {
				third = 0
				continue
			}
			call, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
			args := strings.Fields(call)
			at := 1
			switch args[0] {
			case "OBJECT", "MEMORY":
				continue // a script's SET keeps a number as an integer, in less memory
			case "DEL":
				w.want("+OK\r\n", "SET "+b.Prefix+args[1]+" 1")
			}
			key := args[at]
			args[at] = b.Prefix + key
			third++
			if key == "h" {
				continue // see TestThrottleBelowAMillisecond
			}
			if key == "e" && third == 3 {
				// "2 s after the second": until the key is gone.
				eventually(t, "the key expires", func() bool { return w.do("EXISTS", args[1]) == ":0\r\n" })
			}
			v := w.value(args...)
			n++
			got := fmt.Sprint(v)
			switch a := v.(type) {
			case []any:
				got = strings.ReplaceAll(got, " ", ", ")
				if len(a) != 5 {
					t.Errorf("%s: %v", call, v)
				}
			case string:
				got = "+" + got
				if !strings.HasPrefix(want, "+") {
					got = got[1:]
				}
			}
			if args[0] == "PTTL" {
				if ms, _ := v.(int64); ms < 1000 || ms > 2000 {
					t.Errorf("%s: %v, want about %s", call, v, want)
				}
				continue
			}
			if got != want {
				t.Errorf("%s: %s, want %s", call, got, want)
			}
		}
		if n < 15 {
			t.Errorf("only %d vectors were read", n)
		}
	})
}

// TestThrottleBelowAMillisecond is group H of the vectors: limited for 400 µs,
// which rounds to 0 s. Both calls are in one transaction, and tried again when
// even that took too long.
func TestThrottleBelowAMillisecond(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		try := 0
		eventually(t, "the second of two calls is limited", func() bool {
			try++
			call := "CL.THROTTLE " + b.Prefix + itoa(try) + " 0 2500 1"
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", call)
			w.want("+QUEUED\r\n", call)
			allowed := five(0, 1, 0, 0)
			switch got := w.do("EXEC"); got {
			case array(allowed, "*5\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n"):
				return true
			case array(allowed, allowed):
				return false
			default:
				t.Fatalf("EXEC: %q", got)
				return false
			}
		})
	})
}

func TestThrottleErrors(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		p := b.Prefix
		const cell = "-Cell error: Store error: "
		for _, c := range []struct{ command, reply string }{
			{"CL.THROTTLE", cell + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n"},
			{"CL.THROTTLE " + p + "k 1 2", cell + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n"},
			{"CL.THROTTLE " + p + "k 1 2 3 4 5", cell + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n"},
			{"CL.THROTTLE " + p + "k a b c d", cell + "Couldn't parse as integer: a\r\n"},
			{"CL.THROTTLE " + p + "k 1 1.5 c d", cell + "Couldn't parse as integer: 1.5\r\n"},
			{"CL.THROTTLE " + p + "k 1 1 0x10", cell + "Couldn't parse as integer: 0x10\r\n"},
			{"CL.THROTTLE " + p + "k 1 1 1 9223372036854775808", cell + "Couldn't parse as integer: 9223372036854775808\r\n"},
			{"CL.THROTTLE " + p + "k 1 0 1", cell + "Zero rates are not supported\r\n"},
			{"CL.THROTTLE " + p + "k 1 1 0", cell + "Zero rates are not supported\r\n"},
			{"CL.THROTTLE " + p + "k 1 2000000000 1", cell + "Zero rates are not supported\r\n"},
			{"CL.THROTTLE " + p + "k 1 -1 1", cell + "Error while setting key expire\r\n"},
			{"CL.THROTTLE " + p + "k 1 1 -1", cell + "Error while setting key expire\r\n"},
			{"CL.THROTTLE " + p + "k 9223372036854775807 1 1000", cell + "The burst takes more than 292 years to come back\r\n"},
			{"EXISTS " + p + "k", ":0\r\n"},
			{"cl.throttle " + p + "s +4 +1 010 01", five(0, 5, 4, 10)},
			{"CL.THROTTLE " + p + "s 4 1 10 -100", five(0, 5, 5, 0)},
			{"CL.THROTTLE " + p + "s 4 1 10 5", five(0, 5, 0, 50)},
			{"CL.THROTTLE " + p + "s 4 1 10 6", five(1, 5, 0, 50)},
			{"RPUSH " + p + "list x", ":1\r\n"},
			{"CL.THROTTLE " + p + "list 4 1 10", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
		} {
			w.want(c.reply, c.command)
		}
		if got := w.do("CL.THROTTLE", p+"\x00\xff\r\n", "4", "1", "10"); got != five(0, 5, 4, 10) {
			t.Errorf("a binary key: %q", got)
		}
		if ms, _ := w.value("PTTL", p+"\x00\xff\r\n").(int64); ms < 9000 || ms > 10_000 {
			t.Errorf("PTTL %d, want about 10000", ms)
		}
	})
}

func TestThrottleInTransaction(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		for _, protocol := range []string{"2", "3"} {
			w := dial(t, addr)
			_ = w.do("HELLO", protocol)
			k := b.Prefix + protocol
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "CL.THROTTLE "+k+" 15 30 60")
			w.want("+QUEUED\r\n", "CL.THROTTLE "+k+" x")
			w.want("+QUEUED\r\n", "TYPE "+k)
			w.want("+QUEUED\r\n", "CL.THROTTLE "+k+" 15 30 60 0")
			w.want(array(five(0, 16, 15, 2),
				"-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n",
				"+string\r\n", five(0, 16, 15, 2)), "EXEC")
			w.want(five(0, 16, 14, 4), "CL.THROTTLE "+k+" 15 30 60")
		}
	})
}

// Exactly the burst is admitted of what many clients ask for at once, over
// pipelines in which the script is forgotten again and again.
func TestThrottleFlushedMidPipeline(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	const clients, each = 5, 100
	ws := make([]*wire, clients)
	for i := range ws {
		ws[i] = dial(t, addr)
		var all []byte
		for j := range each {
			if j%10 == i {
				all = resp.AppendCommand(all, "SCRIPT", "FLUSH")
			}
			all = resp.AppendCommand(all, "CL.THROTTLE", "k", "99", "1", "3600")
			all = resp.AppendCommand(all, "ECHO", itoa(j))
		}
		ws[i].write(string(all))
	}
	admitted := 0
	for i, w := range ws {
		for j := range each {
			if j%10 == i {
				w.expect("+OK\r\n")
			}
			got := w.read()
			switch {
			case strings.HasPrefix(got, "*5\r\n:0\r\n:100\r\n"):
				admitted++
			case !strings.HasPrefix(got, "*5\r\n:1\r\n:100\r\n:0\r\n"):
				t.Fatalf("got %q", got)
			}
			w.expect(bulk(itoa(j)))
		}
	}
	if admitted != 100 {
		t.Errorf("%d admitted, want 100", admitted)
	}
}
