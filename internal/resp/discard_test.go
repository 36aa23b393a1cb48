package resp

import (
	"fmt"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestDiscard drops the beginning of replies while they come, and wants their ends found all
// the same.
func TestDiscard(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	replies := []string{
		"$5\r\nhello\r\n", "$-1\r\n", "$0\r\n\r\n", "*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n+OK\r\n", "%1\r\n$1\r\nk\r\n=7\r\ntxt:abc\r\n",
		"$?\r\n;3\r\nabc\r\n;2\r\nde\r\n;0\r\n", "*?\r\n$4\r\n*1\r\n\r\n:2\r\n.\r\n", "-ERR x\r\n", "!3\r\nERR\r\n", "*0\r\n", "|1\r\n+a\r\n:1\r\n$2\r\nok\r\n",
	}
	for range 3000 {
		var wire []byte
		var ends []int
		for range 1 + r.IntN(5) {
			wire = append(wire, replies[r.IntN(len(replies))]...)
			ends = append(ends, len(wire))
		}
		steps.Begin(func() string { return fmt.Sprintf("%q", wire) })
		var s ReplyScanner
		var found []int
		from, to := 0, 0
		for len(found) < len(ends) {
			if to > from {
				n, err := s.Next(wire[from:to])
				if err != nil {
					t.Fatalf("%q: %v", wire, err)
				}
				if n > 0 {
					from += n
					found = append(found, from)
					continue
				}
				if r.IntN(2) == 0 {
					from += s.Discard(wire[from:to])
				}
			}
			if to == len(wire) {
				t.Fatalf("%q: found the ends %v, want %v", wire, found, ends)
			}
			to += 1 + r.IntN(min(9, len(wire)-to))
		}
		for i := range ends {
			if found[i] != ends[i] {
				t.Fatalf("%q: found the ends %v, want %v", wire, found, ends)
			}
		}
	}
}
