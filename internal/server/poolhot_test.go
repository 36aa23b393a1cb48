package server_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPoolHotKeys: the pool finds the keys that clients use most, in commands with one key,
// with several and in transactions. INFO shows them on request.
func TestPoolHotKeys(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("MSET", "a", "1", "b", "2") == "+OK\r\n" })
	ask := func(times int, command string, replies ...string) {
		t.Helper()
		const step = 200
		for range times / step {
			w.write(strings.Repeat(command, step))
			for range step {
				for _, want := range replies {
					if got := w.read(); got != want {
						t.Fatalf("%q: %q, want %q", command, got, want)
					}
				}
			}
		}
	}
	// Samples are one in 256: 200, 50 and 12.
	ask(51200, "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", bulk("1"))
	ask(12800, "*3\r\n$6\r\nEXISTS\r\n$4\r\nno\r\n\r\n$1\r\nb\r\n", ":1\r\n")
	ask(3200, "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n*1\r\n$7\r\nDISCARD\r\n", "+OK\r\n", "+QUEUED\r\n", "+OK\r\n")
	info := w.do("INFO", "hotkeys")
	if !strings.Contains(info, "# Hotkeys\r\nhotkey0:key=\"a\",per_second=") {
		t.Errorf("INFO hotkeys: %q", info)
	}
	var order []string
	for _, m := range regexp.MustCompile(`hotkey\d:key=("[^"]*"),per_second=[1-9]\d*\.\d,error=0\.0\r\n`).FindAllStringSubmatch(info, -1) {
		order = append(order, m[1])
	}
	if len(order) == 4 {
		slices.Sort(order[1:3]) // asked for alike
	}
	if want := []string{`"a"`, `"b"`, `"no\r\n"`, `"c"`}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v: %q", order, want, info)
	}
	if top := p.HotKeys(1); len(top) != 1 || top[0].Key != "a" {
		t.Errorf("HotKeys(1): %+v", top)
	}
	for _, which := range [][]string{{"INFO"}, {"INFO", "all"}, {"INFO", "everything"}, {"INFO", "default"}} {
		if info := w.do(which...); strings.Contains(info, "otkey") {
			t.Errorf("%q: %q", which, info)
		}
	}
}
