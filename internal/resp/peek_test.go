package resp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

func TestPeek(t *testing.T) {
	long := strings.Repeat("x", 999)
	for _, c := range []struct {
		in, first, second string
		n                 int
	}{
		{"", "", "", 0},
		{"*1\r\n$4\r\nPING\r\n*1\r\n", "", "", 14},
		{"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "key", "", 22},
		{"*3\r\n$4\r\nHGET\r\n$3\r\nkey\r\n$0\r\n\r\n*", "key", "", 29},
		{"*4\r\n$4\r\nHSET\r\n$1\r\nk\r\n$1\r\nf\r\n$1\r\nv\r\n", "k", "f", 35},
		{"*2\r\n$3\r\nGET\r\n$999\r\n" + long + "\r\n", long, "", 1020},
		{"*2\r\n$3\r\nGET\r\n$1000\r\n" + long + "x\r\n", "", "", 0},
		{"*2\r\n$3\r\nGET\r\n$3\r\nkey\r", "", "", 0},
		{"*2\r\n$3\r\nGET\r\n$3", "", "", 0},
		{"*2\r\n$3\r\nGET\r\n", "", "", 0},
		{"GET key\r\n", "", "", 0},
		{"*-1\r\n", "", "", 0},
		{"*\r\n", "", "", 0},
		{"*0\r\n", "", "", 4},
	} {
		first, second, n := resp.Peek([]byte(c.in))
		if string(first) != c.first || string(second) != c.second || n != c.n {
			t.Errorf("%.40q: got %.10q, %q, %d, want %.10q, %q, %d", c.in, first, second, n, c.first, c.second, c.n)
		}
	}
}

// FuzzPeek wants Peek to see what the scanner sees.
func FuzzPeek(f *testing.F) {
	f.Add([]byte("*3\r\n$4\r\nHGET\r\n$3\r\nkey\r\n$1\r\nf\r\n"))
	f.Add([]byte("*1\r\n$4\r\nPING\r\nGET a\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		first, second, n := resp.Peek(in)
		var s resp.CommandScanner
		m, err := s.Next(in)
		if n == 0 || err != nil || s.Inline() {
			return
		}
		var want [3][]byte
		copy(want[:], s.Args())
		if m != n || !bytes.Equal(first, want[1]) || !bytes.Equal(second, want[2]) {
			t.Errorf("%q: got %q, %q, %d, want %q, %d", in, first, second, n, s.Args(), m)
		}
	})
}
