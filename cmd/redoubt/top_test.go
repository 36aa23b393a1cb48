package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
)

// TestTopLines: no line is wider than the terminal, and there are never more lines than it has.
func TestTopLines(t *testing.T) {
	v := &top{address: "127.0.0.1:6380", shown: 0, at: time.Now(), load: loadState{Version: "7.0.15", Uptime: 90_000, Clients: 3, Memory: 5 << 20, Keys: 40}}
	for i := range 40 {
		v.rows = append(v.rows, []string{fmt.Sprintf("邮件队列%02d", i), "12", "0", "1", "0", "0", "4.2s", "open"})
	}
	for _, err := range []error{nil, errors.New("dial tcp: connection refused\nand more")} {
		for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {9, 5}, {1, 1}, {0, 0}, {80, 3}} {
			v.err = err
			lines := v.lines(size[0], size[1])
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, line := range lines {
				if w := uniseg.StringWidth(line); w > size[0] {
					t.Errorf("%v: %d columns in %q", size, w, line)
				}
			}
		}
	}
	v.err = nil
	lines := v.lines(80, 24)
	if len(lines) != 24 || !strings.HasPrefix(lines[0], "redoubt top  127.0.0.1:6380  Redis 7.0.15  up 1d1h") || lines[2] != "[1 queues] 2 locks  3 limits  4 stock " ||
		!strings.HasPrefix(lines[3], "NAME        READY") || !strings.HasPrefix(lines[4], "邮件队列00  12 ") || !strings.HasSuffix(lines[23], "1 to 19 of 40") {
		t.Errorf("it shows\n%s", strings.Join(lines, "\n"))
	}
}

func TestTopKeys(t *testing.T) {
	v := &top{rows: make([][]string, 40), shown: 0}
	for _, c := range []struct {
		typed        string
		view, scroll int
		ends         bool
	}{
		{"\x1b[B", 0, 1, false},
		{"j\x1bOB", 0, 3, false},
		{"\x1b[6~", 0, 21, false}, // the last page
		{"\x1b[5~k", 0, 1, false},
		{"\x1b[A\x1b[A\x1b[A", 0, 0, false},
		{"\x1b[C", 1, 0, false},
		{"\x1b[D\x1b[D", 3, 0, false},
		{"\t", 0, 0, false},
		{"3x\x1b", 2, 0, false},
		{"q", 2, 0, true},
		{"\x03", 2, 0, true},
	} {
		if ends := v.press(c.typed, 24); ends != c.ends || v.view != c.view || v.scroll != c.scroll {
			t.Errorf("after %q: ends %v, list %d, scrolled by %d; want %+v", c.typed, ends, v.view, v.scroll, c)
		}
	}
}
