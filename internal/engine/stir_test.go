package engine

import (
	"strings"
	"testing"
)

// TestLongCommandsStir wants what keeps a core for long to leave a thread that
// waits for the network, and what is short to pay nothing for that. That it
// helps, TestSlowScriptHoldsUpNobody of package server shows.
func TestLongCommandsStir(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "SET k "+strings.Repeat("x", 100_000))
	stirred := func(line string) bool {
		before := e.stirrer.n.Load()
		if line == "loop" {
			s.Do(nil, [][]byte{[]byte("EVAL"), []byte("for i = 1, 10000 do end"), []byte("0")})
		} else {
			run(s, line)
		}
		return e.stirrer.n.Load() > before
	}
	for _, line := range []string{"EVAL return(1) 0", "GET k", "MGET a b c", "SADD s 1", "SUNIONSTORE d s"} {
		if stirred(line) {
			t.Errorf("%s stirs", line)
		}
	}
	for range 2 {
		for _, line := range []string{"loop", "MGET k k", "KEYS *"} {
			if !stirred(line) {
				t.Errorf("%s does not stir", line)
			}
		}
	}
}
