package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// scan feeds input to a scanner in pieces that end at each of the cuts, as a
// network may deliver it, and returns the commands found. Every piece is a
// copy, so that a scanner which keeps pointers into an old buffer is found out.
func scan(s *resp.CommandScanner, input string, cuts ...int) (cmds [][]string, rest string, err error) {
	at := 0
	for _, cut := range append(slices.Clone(cuts), len(input)) {
		for {
			n, err := s.Next([]byte(input[at:cut]))
			if err != nil {
				return cmds, input[at:cut], err
			}
			if n == 0 {
				break
			}
			var args []string
			for _, a := range s.Args() {
				args = append(args, string(a))
			}
			cmds = append(cmds, args)
			at += n
		}
	}
	return cmds, input[at:], nil
}

func TestCommandScanner(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, input string
		want        [][]string
		rest        string
		err         string
	}{
		{name: "multibulk", input: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", want: [][]string{{"GET", "k"}}},
		{name: "two", input: "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", want: [][]string{{"PING"}, {"PING"}}},
		{name: "empty argument", input: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", want: [][]string{{"ECHO", ""}}},
		{name: "binary", input: "*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\x00\xff\r\n", want: [][]string{{"ECHO", "\r\n\x00\xff"}}},
		{name: "large", input: "*2\r\n$4\r\nECHO\r\n$100000\r\n" + big + "\r\n", want: [][]string{{"ECHO", big}}},
		{name: "empty multibulk", input: "*0\r\n*-1\r\nPING\r\n", want: [][]string{nil, nil, {"PING"}}},
		{name: "inline", input: "SET k  v\r\n", want: [][]string{{"SET", "k", "v"}}},
		{name: "inline LF", input: "PING\nPING\n", want: [][]string{{"PING"}, {"PING"}}},
		{name: "inline empty", input: "\r\n\nPING\r\n", want: [][]string{nil, nil, {"PING"}}},
		{name: "inline quotes", input: `SET "a b\x41\n\"" 'c\'d\n'` + "\r\n", want: [][]string{{"SET", "a bA\n\"", `c'd\n`}}},
		{name: "inline empty word", input: `ECHO ""` + "\r\n", want: [][]string{{"ECHO", ""}}},
		{name: "incomplete", input: "*2\r\n$3\r\nGET\r\n$1\r\n", rest: "*2\r\n$3\r\nGET\r\n$1\r\n"},
		{name: "inline unbalanced", input: `ECHO "a` + "\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "inline unbalanced single", input: `ECHO 'a` + "\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "inline quote in word", input: `ECHO "a"b` + "\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "inline too long", input: strings.Repeat("x", 70_000), err: "Protocol error: too big inline request"},
		{name: "no number", input: "*x\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "huge count", input: "*2147483648\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "leading zero", input: "*01\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "no count", input: "*\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "endless count", input: "*" + strings.Repeat("1", 70_000), err: "Protocol error: too big mbulk count string"},
		{name: "no dollar", input: "*1\r\n:1\r\n", err: "Protocol error: expected '$', got ':'"},
		{name: "no dollar, control", input: "*1\r\n\r\n", err: `Protocol error: expected '$', got '\x0d'`},
		{name: "negative bulk", input: "*1\r\n$-1\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk too long", input: "*1\r\n$536870913\r\n", err: "Protocol error: invalid bulk length"},
		{name: "endless bulk count", input: "*1\r\n$" + strings.Repeat("1", 70_000), err: "Protocol error: too big bulk count string"},
		{name: "no CRLF after bulk", input: "*1\r\n$4\r\nPINGxx", err: "Protocol error: expected CRLF"},
		{name: "no LF after count", input: "*1\rx$4\r\nPING\r\n", err: "Protocol error: expected CRLF"},
		{name: "error after a command", input: "PING\r\n*x\r\n", want: [][]string{{"PING"}}, err: "Protocol error: invalid multibulk length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(cuts ...int) {
				t.Helper()
				var s resp.CommandScanner
				got, rest, err := scan(&s, c.input, cuts...)
				if !slices.EqualFunc(got, c.want, slices.Equal) {
					t.Fatalf("cuts %v: got %q, want %q", cuts, got, c.want)
				}
				if c.err == "" {
					if err != nil || rest != c.rest {
						t.Fatalf("cuts %v: err %v, rest %q", cuts, err, rest)
					}
					return
				}
				var pe resp.ProtocolError
				if !errors.As(err, &pe) || pe.Error() != c.err {
					t.Fatalf("cuts %v: err %v, want %s", cuts, err, c.err)
				}
			}
			check()
			if len(c.input) > 1000 {
				check(10, 5000, 60_000)
				return
			}
			all := make([]int, 0, len(c.input))
			for i := range c.input {
				check(i)
				all = append(all, i)
			}
			check(all...)
		})
	}
}

func TestCommandScannerLimits(t *testing.T) {
	for _, c := range []struct {
		limits resp.Limits
		unauth resp.Unauthenticated
		input  string
		err    string
	}{
		{resp.Limits{MaxArgs: 2}, 0, "*3\r\n", "Protocol error: invalid multibulk length"},
		{resp.Limits{MaxArgs: 2}, 0, "a b c\r\n", "Protocol error: invalid multibulk length"},
		{resp.Limits{MaxBulk: 5}, 0, "*1\r\n$6\r\n", "Protocol error: invalid bulk length"},
		{resp.Limits{MaxInline: 10}, 0, "0123456789a\r\n", "Protocol error: too big inline request"},
		{resp.Limits{MaxInline: 10}, 0, "0123456789\r\n", "Protocol error: too big inline request"},
		{resp.Limits{MaxCommand: 30}, 0, "*3\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n", "Protocol error: too big request"},
		{resp.Limits{MaxCommand: 20}, 0, "*3\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n", "Protocol error: too big request"},
		{resp.Limits{}, resp.NotAuthenticated, "*11\r\n", "Protocol error: unauthenticated multibulk length"},
		{resp.Limits{}, resp.NotAuthenticated, "*1\r\n$16385\r\n", "Protocol error: unauthenticated bulk length"},
		{resp.Limits{}, resp.NotAuthenticated, "a b c d e f g h i j k\r\n", "Protocol error: unauthenticated multibulk length"},
	} {
		s := resp.CommandScanner{Limits: c.limits, Unauthenticated: c.unauth}
		if _, _, err := scan(&s, c.input); err == nil || err.Error() != c.err {
			t.Errorf("%+v %q: err %v, want %s", c.limits, c.input, err, c.err)
		}
	}
	for _, c := range []struct {
		limits resp.Limits
		unauth resp.Unauthenticated
		input  string
	}{
		{resp.Limits{MaxArgs: 2}, 0, "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{resp.Limits{MaxArgs: 2}, 0, "a b\r\n"},
		{resp.Limits{MaxBulk: 5}, 0, "*1\r\n$5\r\n12345\r\n"},
		{resp.Limits{MaxInline: 10}, 0, "012345678\r\n"},
		{resp.Limits{MaxCommand: 31}, 0, "*3\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n$3\r\nfoo\r\n"},
		{resp.Limits{}, resp.NotAuthenticated, "a b c d e f g h i j\r\n"},
	} {
		s := resp.CommandScanner{Limits: c.limits, Unauthenticated: c.unauth}
		if commands, rest, err := scan(&s, c.input); err != nil || len(commands) != 1 || len(rest) > 0 {
			t.Errorf("%+v %q: %q, %q left, err %v", c.limits, c.input, commands, rest, err)
		}
	}
	if err := (resp.Limits{MaxArgs: -1, MaxBulk: -1}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "MaxArgs") || !strings.Contains(err.Error(), "MaxBulk") {
		t.Errorf("Validate: %v, want both faults", err)
	}
}

func TestCommandScannerDoesNotAllocate(t *testing.T) {
	buf := []byte("*3\r\n$3\r\nSET\r\n$10\r\nkey:000001\r\n$3\r\nxxx\r\n")
	inline := []byte("SET key:000001 xxx\r\n")
	var s resp.CommandScanner
	n := testing.AllocsPerRun(100, func() {
		for _, b := range [][]byte{buf, inline} {
			if n, err := s.Next(b); n != len(b) || err != nil || len(s.Args()) != 3 {
				t.Fatal(n, err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// A command of many arguments that comes in many small pieces is scanned once,
// not once for each piece.
func TestCommandScannerIsIncremental(t *testing.T) {
	args := make([]string, 100_000)
	buf := resp.AppendCommand(nil, args...)
	var s resp.CommandScanner
	steps := 0
	for end := 0; end <= len(buf); end += 7 {
		n, err := s.Next(buf[:end])
		if err != nil || n != 0 && n != len(buf) {
			t.Fatal(n, err)
		}
		steps++
	}
	if n, err := s.Next(buf); err != nil || n != len(buf) || len(s.Args()) != len(args) {
		t.Fatal(n, err, len(s.Args()), steps)
	}
}

func FuzzCommandScanner(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n", 5)
	f.Add(`SET "a b\x41\n\"" 'c\'d\n'`+"\r\n", 3)
	f.Add("*1\r\n$-1\r\n*0\r\n", 2)
	f.Fuzz(func(t *testing.T, input string, cut int) {
		if len(input) > 4096 {
			return // scan copies what is left for each command
		}
		var a, b resp.CommandScanner
		whole, rest, err := scan(&a, input)
		if cut < 0 || cut > len(input) {
			cut = len(input) / 2
		}
		split, rest2, err2 := scan(&b, input, cut)
		if !slices.EqualFunc(whole, split, slices.Equal) || (err == nil) != (err2 == nil) {
			t.Fatalf("whole %q %v, cut at %d %q %v", whole, err, cut, split, err2)
		}
		if err == nil && rest != rest2 {
			t.Fatalf("rest %q and %q", rest, rest2)
		}
		// Written anew, the command scans to the same arguments.
		var again []byte
		for _, c := range whole {
			if len(c) > 0 {
				again = resp.AppendCommand(again, c...)
			}
		}
		whole = slices.DeleteFunc(whole, func(c []string) bool { return len(c) == 0 })
		var c resp.CommandScanner
		got, rest, err := scan(&c, string(again))
		if err != nil || rest != "" || !slices.EqualFunc(whole, got, slices.Equal) {
			t.Fatalf("rewritten: %q %q %v, want %q", got, rest, err, whole)
		}
	})
}

func BenchmarkCommandScanner(b *testing.B) {
	buf := bytes.Repeat([]byte("*3\r\n$3\r\nSET\r\n$10\r\nkey:000001\r\n$3\r\nxxx\r\n"), 16)
	var s resp.CommandScanner
	b.ReportAllocs()
	for b.Loop() {
		for rest := buf; len(rest) > 0; {
			n, err := s.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/command")
}

func ExampleCommandScanner() {
	var s resp.CommandScanner
	buf := []byte("*2\r\n$3\r\nGET\r\n$5\r\ncolor\r\nPING hello\r\n*1\r\n$4\r\nQU")
	for {
		n, err := s.Next(buf)
		if err != nil || n == 0 {
			fmt.Printf("%d bytes left, error %v\n", len(buf), err)
			break
		}
		fmt.Printf("%d bytes: %q\n", n, s.Args())
		buf = buf[n:]
	}
	// Output:
	// 24 bytes: ["GET" "color"]
	// 12 bytes: ["PING" "hello"]
	// 10 bytes left, error <nil>
}

// Wire gives what stands between one argument and another, as it was sent.
func TestCommandScannerWire(t *testing.T) {
	const command = "*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$2\r\nxy\r\n$0\r\n\r\n$3\r\n\r\nz\r\n"
	var s resp.CommandScanner
	buf := []byte(command + "*1\r\n$4\r\nPING\r\n")
	n, err := s.Next(buf)
	if n != len(command) || err != nil {
		t.Fatal(n, err)
	}
	for i, want := range map[int]string{1: "$1\r\na\r\n$2\r\nxy\r\n", 3: "$0\r\n\r\n$3\r\n\r\nz\r\n"} {
		if got := string(s.Wire(buf[:n], i, 2)); got != want {
			t.Errorf("Wire(%d, 2) is %q, want %q", i, got, want)
		}
	}
}
