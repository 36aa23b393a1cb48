package engine

import (
	"strings"
	"testing"
)

// TestLongCommandsWakeAThread checks that a command which keeps a core for long leaves a thread that
// waits for the network, and that a short command pays nothing. TestSlowScriptHoldsUpNobody of package
// server shows that it helps.
func TestLongCommandsWakeAThread(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "SET k "+strings.Repeat("x", 100_000))
	woke := func(line string) bool {
		before := e.waker.n.Load()
		if line == "loop" {
			s.Do(nil, [][]byte{[]byte("EVAL"), []byte("for i = 1, 10000 do end"), []byte("0")})
		} else {
			run(s, line)
		}
		return e.waker.n.Load() > before
	}
	for _, line := range []string{"EVAL return(1) 0", "GET k", "MGET a b c", "SADD s 1", "SUNIONSTORE d s"} {
		if woke(line) {
			t.Errorf("%s wakes a thread", line)
		}
	}
	for range 2 {
		for _, line := range []string{"loop", "MGET k k", "KEYS *"} {
			if !woke(line) {
				t.Errorf("%s wakes no thread", line)
			}
		}
	}
}
