package memcached

import (
	"strings"
	"testing"
)

// TestHotKeys: keys are found by how often they are asked for, whatever the command.
func TestHotKeys(t *testing.T) {
	w := newEnv(t, 2, nil)
	u := dial(t, w.addr)
	ask := func(times int, command, last string) {
		t.Helper()
		const step = 200
		for range times / step {
			u.send("%s", strings.Repeat(command, step))
			for range step {
				for u.line() != last {
				}
			}
		}
	}
	// Samples are one in 256: 200, 50 and 12.
	ask(51200, "set a 0 0 1\r\n1\r\n", "STORED")
	ask(12800, "get b nothing\r\n", "END")
	ask(3200, "delete c\r\n", "NOT_FOUND")
	u.send("stats hotkeys\r\n")
	var keys []string
	for l := u.line(); l != "END"; l = u.line() {
		if _, k, ok := strings.Cut(l, ":key "); ok {
			keys = append(keys, k)
		}
	}
	got := strings.Join(keys, " ")
	if got != "a b nothing c" && got != "a nothing b c" {
		t.Errorf("stats hotkeys: %s", got)
	}
	if top := w.HotKeys(1); len(top) != 1 || top[0].Key != "a" || top[0].PerSecond <= 0 {
		t.Errorf("HotKeys(1): %+v", top)
	}
}
