package memcached

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// requests scans text as it comes in pieces of a length, and describes what there
// is.
func requests(text []byte, step int) (all []string) {
	s := requestScanner{maxLine: 200, maxValue: 50}
	var c command
	for from, to := 0, 0; to < len(text); {
		to = min(to+step, len(text))
		for from < to {
			n := s.next(text[from:to], &c)
			if n == 0 {
				break
			}
			if c.kind != nothing {
				all = append(all, fmt.Sprintf("%d %q %v %v %q %q %q %q", c.kind, c.refusal, c.last, c.noreply, c.line, c.data, c.verb, c.keys))
			}
			from += n
		}
	}
	return all
}

// FuzzRequests: in whatever pieces requests come, they are the same; and what is
// sent to a server is one line, and a value that is as long as the line says.
//
// Promise: No client can read the answers of others or end the shared connection.
func FuzzRequests(f *testing.F) {
	for _, text := range conversations {
		if len(text) < 1000 {
			f.Add([]byte(text+"\r\n"), 3)
		}
	}
	f.Add([]byte(strings.Repeat("x", 500)+"\nset a 0 0 60\r\n"+strings.Repeat("y", 62)+"get a\r\n"), 7)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		if len(text) > 2000 {
			return
		}
		step = 1 + int(uint(step)%50)
		want, got := requests(text, 2001), requests(text, step)
		if strings.Join(got, "\n") != strings.Join(want, "\n") && len(text) <= 200 {
			t.Fatalf("in pieces of %d\n%s\nat once\n%s", step, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		s := requestScanner{maxLine: 200, maxValue: 50}
		var c command
		for rest := text; len(rest) > 0; {
			n := s.next(rest, &c)
			if n == 0 {
				return
			}
			rest = rest[n:]
			check(t, &c)
		}
	})
}

// check holds a command to what keeps a shared connection in step.
func check(t *testing.T, c *command) {
	t.Helper()
	switch c.kind {
	case storage, keyed, broadcast, retrieval, version, stats:
	default:
		return
	}
	sent := append(bytes.Clone(c.line), c.data...)
	if c.kind == retrieval {
		sent = append(bytes.Join(append([][]byte{c.verb}, c.keys...), space), lineEnd...)
	}
	line, value, _ := bytes.Cut(sent, crlf)
	if len(line) > 2*maxShort && c.kind != retrieval || bytes.ContainsAny(line, "\x00\r\n") ||
		bytes.Contains(line, []byte("  ")) || !bytes.Equal(line, bytes.TrimSpace(line)) && !bytes.ContainsAny(line, "\t\v\f\u0085\u00a0") {
		t.Fatalf("line %q", line)
	}
	words := strings.Fields(strings.NewReplacer("\t", "_", "\v", "_", "\f", "_", "\u0085", "_", "\u00a0", "_").Replace(string(line)))
	after := 1 // words that may include noreply
	switch c.kind {
	case storage:
		var size int
		if _, err := fmt.Sscan(words[4], &size); err != nil || len(value) != size+2 || !bytes.HasSuffix(value, []byte(lineEnd)) {
			t.Fatalf("%q has a value of %d", line, len(value))
		}
		after = 5
	case keyed:
		after = 2
	case retrieval:
		after = len(words)
	default:
	}
	if c.kind != storage && len(value) > 0 {
		t.Fatalf("%q has a value", line)
	}
	if len(words) > after && words[len(words)-1] == "noreply" {
		t.Fatalf("%q would not be answered", line)
	}
	for _, k := range c.keys {
		if len(k) == 0 || len(k) > maxKey || bytes.ContainsAny(k, " \x00\r\n") {
			t.Fatalf("key %q", k)
		}
	}
}

// replies scans text in pieces, and returns the replies.
func replies(text []byte, step int) (all []string, err error) {
	var s replyScanner
	var open []byte
	for from, to := 0, 0; to < len(text); {
		to = min(to+step, len(text))
		for from < to {
			n, last, err := s.next(text[from:to])
			if err != nil {
				return all, err
			}
			if n == 0 {
				break
			}
			open = append(open, text[from:from+n]...)
			if last {
				all = append(all, string(open))
				open = nil
			}
			from += n
		}
	}
	return all, nil
}

// TestReplies: where replies end.
func TestReplies(t *testing.T) {
	want := []string{
		"STORED\r\n", "END\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\n", "VALUE a 0 5 17\r\nEND\r\n\r\nVALUE b 1 0\r\n\r\nEND\r\n",
		"ERROR\r\n", "VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory\r\n", "STAT a b\r\nSTAT c d e\r\nEND\r\n", "12\r\n", "VERSION 1.6.18\r\n",
	}
	for step := 1; step < 60; step++ {
		got, err := replies([]byte(strings.Join(want, "")), step)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("in pieces of %d: %q, %v", step, got, err)
		}
	}
	for _, bad := range []string{"VALUE a 0\r\n", "VALUE a 0 -1\r\n", "VALUE a 0 1\r\nabc\r\n", "VALUE a 0 1\r\na\r\nSTORED\r\n", strings.Repeat("x", maxReplyLine+2)} {
		if got, err := replies([]byte(bad), 100); err == nil {
			t.Errorf("%.50q: %q", bad, got)
		}
	}
}

// FuzzReplies: in whatever pieces replies come, they are the same.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("VALUE a 0 5 17\r\nEND\r\n\r\nVALUE b 1 0\r\n\r\nEND\r\nSTORED\r\nSTAT a b\r\nEND\r\n"), 3)
	f.Add([]byte("VALUE a 0 2147483645\r\nEND\r\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		step = 1 + int(uint(step)%50)
		want, werr := replies(text, len(text)+1)
		got, gerr := replies(text, step)
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || (werr == nil) != (gerr == nil) {
			t.Fatalf("in pieces of %d: %q, %v; at once: %q, %v", step, got, gerr, want, werr)
		}
	})
}
