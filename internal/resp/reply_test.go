package resp_test

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

var replies = []struct {
	wire string
	want any
}{
	{"+OK\r\n", "OK"},
	{"+\r\n", ""},
	{"-ERR no\r\n", resp.Error("ERR no")},
	{":-12\r\n", int64(-12)},
	{"$3\r\nfoo\r\n", "foo"},
	{"$0\r\n\r\n", ""},
	{"$4\r\n\r\n\r\n\r\n", "\r\n\r\n"},
	{"$-1\r\n", nil},
	{"*-1\r\n", nil},
	{"*0\r\n", []any{}},
	{"*2\r\n:1\r\n$1\r\na\r\n", []any{int64(1), "a"}},
	{"*2\r\n*1\r\n*0\r\n-ERR in\r\n", []any{[]any{[]any{}}, resp.Error("ERR in")}},
	{"_\r\n", nil},
	{",1.5\r\n", 1.5},
	{"#t\r\n", true},
	{"#f\r\n", false},
	{"(12345678901234567890\r\n", func() any { n, _ := new(big.Int).SetString("12345678901234567890", 10); return n }()},
	{"!5\r\nERR x\r\n", resp.Error("ERR x")},
	{"=7\r\ntxt:abc\r\n", resp.Verbatim{Format: "txt", Text: "abc"}},
	{"%1\r\n+k\r\n:1\r\n", resp.Map{"k", int64(1)}},
	{"%0\r\n", resp.Map{}},
	{"~2\r\n:1\r\n:2\r\n", resp.Set{int64(1), int64(2)}},
	{">2\r\n+message\r\n+x\r\n", resp.Push{"message", "x"}},
	{"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n", "v"},
	{"|0\r\n$1\r\nv\r\n", "v"},
	{"*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n", []any{int64(2), int64(3)}},
	{"$?\r\n;2\r\nab\r\n;3\r\ncde\r\n;0\r\n", "abcde"},
	{"$?\r\n;0\r\n", ""},
	{"*?\r\n:1\r\n*?\r\n.\r\n:2\r\n.\r\n", []any{int64(1), []any{}, int64(2)}},
	{"%?\r\n+a\r\n:1\r\n.\r\n", resp.Map{"a", int64(1)}},
	{"*2\r\n*?\r\n$?\r\n;1\r\nx\r\n;0\r\n.\r\n:1\r\n", []any{[]any{"x"}, int64(1)}},
}

func TestReplyScanner(t *testing.T) {
	const tail = "+next\r\n"
	for _, c := range replies {
		input := []byte(c.wire + tail)
		var s resp.ReplyScanner
		if n, err := s.Next(input); n != len(c.wire) || err != nil {
			t.Errorf("%q: %d %v, want %d", c.wire, n, err, len(c.wire))
		}
		// One more byte at a time, each time in other memory.
		for i := range len(c.wire) {
			if n, err := s.Next(append([]byte(nil), input[:i]...)); n != 0 || err != nil {
				t.Errorf("%q at %d: %d %v, want incomplete", c.wire, i, n, err)
			}
		}
		if n, err := s.Next(input); n != len(c.wire) || err != nil {
			t.Errorf("%q byte by byte: %d %v, want %d", c.wire, n, err, len(c.wire))
		}
		// Cut in two at every byte.
		for i := range len(c.wire) {
			var s resp.ReplyScanner
			_, _ = s.Next(input[:i])
			if n, err := s.Next(input); n != len(c.wire) || err != nil {
				t.Errorf("%q cut at %d: %d %v, want %d", c.wire, i, n, err, len(c.wire))
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range replies {
		got, n, err := resp.Parse([]byte(c.wire + "tail"))
		if err != nil || n != len(c.wire) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %#v %d %v, want %#v", c.wire, got, n, err, c.want)
		}
	}
	if _, _, err := resp.Parse([]byte("*2\r\n:1\r\n")); !errors.Is(err, resp.ErrIncomplete) {
		t.Errorf("half an array: %v, want ErrIncomplete", err)
	}
}

func TestBrokenReplies(t *testing.T) {
	for _, wire := range []string{
		"x\r\n", "\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$03\r\nfoo\r\n", "$3\r\nfooxx", "$1\rx",
		";1\r\nx\r\n", ".\r\n", "$?\r\n:1\r\n", "$?\r\n;-1\r\n", "*?\r\n|1\r\n.\r\n", "*1\r\n.\r\n",
		"=?\r\n", "|?\r\n", "*99999999999\r\n", "$" + strings.Repeat("1", 100),
		strings.Repeat("*1\r\n", resp.MaxDepth+1),
	} {
		var s resp.ReplyScanner
		n, err := s.Next([]byte(wire))
		if _, ok := errors.AsType[resp.ProtocolError](err); n != 0 || !ok {
			t.Errorf("%.40q: %d %v, want a ProtocolError", wire, n, err)
		}
	}
	for _, wire := range []string{":x\r\n", ",x\r\n", "#x\r\n", "(x\r\n", "*1\r\n:x\r\n", "%1\r\n+a\r\n:x\r\n", "*?\r\n:x\r\n.\r\n", "|1\r\n:x\r\n:1\r\n:1\r\n"} {
		_, _, err := resp.Parse([]byte(wire))
		if _, ok := errors.AsType[resp.ProtocolError](err); !ok {
			t.Errorf("%q: %v, want a ProtocolError", wire, err)
		}
	}
}

func TestReplyScannerDoesNotAllocate(t *testing.T) {
	var s resp.ReplyScanner
	buf := []byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
	if n := testing.AllocsPerRun(100, func() {
		if n, err := s.Next(buf); n != len(buf) || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzReplyScanner(f *testing.F) {
	for _, c := range replies {
		f.Add(c.wire, 3)
	}
	f.Fuzz(func(t *testing.T, wire string, cut int) {
		buf := []byte(wire)
		var a, b resp.ReplyScanner
		n, err := a.Next(buf)
		if cut < 0 || cut > len(buf) {
			cut = len(buf) / 2
		}
		m, err2 := b.Next(buf[:cut])
		if m == 0 && err2 == nil {
			m, err2 = b.Next(buf)
		}
		if n != m || (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %d %v; cut at %d: %d %v", n, err, cut, m, err2)
		}
		v, p, perr := resp.Parse(buf)
		if err != nil && perr == nil {
			t.Fatalf("Parse gives %v where the scanner gives %v", v, err)
		}
		if perr == nil && p != n {
			t.Fatalf("Parse ends at %d, the scanner at %d", p, n)
		}
	})
}

func BenchmarkReplyScanner(b *testing.B) {
	buf := []byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
	var s resp.ReplyScanner
	b.ReportAllocs()
	for b.Loop() {
		if n, err := s.Next(buf); n != len(buf) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func ExampleParse() {
	v, n, err := resp.Parse([]byte("*3\r\n:1\r\n$5\r\nhello\r\n_\r\n"))
	fmt.Println(v, n, err)
	// Output: [1 hello <nil>] 22 <nil>
}
