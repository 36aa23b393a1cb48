package engine

import (
	"testing"
	"time"
)

// That a key is deleted whose time had passed when WATCH came is no change of
// it, as on Redis; what comes after that is.
func TestWatchOfExpiredKeys(t *testing.T) {
	const ran, not = "*1\r\n+PONG\r\n", "*-1\r\n"
	for _, c := range []struct {
		name, before string
		then         []string // by another session
		exec         string
	}{
		{"left alone", "WATCH k", nil, ran},
		{"read", "WATCH k", []string{"EXISTS k"}, ran},
		{"deleted", "WATCH k", []string{"DEL k"}, ran},
		{"swept", "WATCH k", []string{"DEBUG SET-ACTIVE-EXPIRE 1", "*advance"}, ran},
		{"flushed", "WATCH k", []string{"FLUSHALL"}, ran},
		{"swapped with nothing", "WATCH k", []string{"SWAPDB 0 1"}, ran},
		{"swapped and back", "WATCH k", []string{"SWAPDB 0 1", "SWAPDB 0 1"}, ran},
		{"swapped with another", "WATCH k", []string{"SELECT 1", "SET k v", "SWAPDB 0 1"}, not},
		{"written", "WATCH k", []string{"SET k v"}, not},
		{"deleted and written", "WATCH k", []string{"DEL k", "SET k v"}, not},
		{"flushed and written", "WATCH k", []string{"FLUSHALL", "SET k v"}, not},
		{"expires later", "WATCH later", []string{"*advance"}, not},
		{"expires later and is read", "WATCH later", []string{"*advance", "GET later"}, not},
		{"is flushed", "WATCH later", []string{"FLUSHALL"}, not},
		{"is missing and flushed", "WATCH none", []string{"FLUSHALL"}, ran},
		{"is missing, and an expired one comes", "WATCH none", []string{"SELECT 1", "SET none v PX 1", "*advance", "SWAPDB 0 1"}, ran},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newFakeClock()
			e := open(t, Options{Clock: clock})
			s, other := e.Session(), e.Session()
			run(other, "DEBUG SET-ACTIVE-EXPIRE 0")
			run(other, "SET k v PX 1")
			run(other, "SET later v PX 100")
			clock.advance(50 * time.Millisecond)
			want(t, s, c.before, "+OK\r\n")
			for _, line := range c.then {
				if line == "*advance" {
					clock.advance(100 * time.Millisecond)
				} else {
					run(other, line)
				}
			}
			run(s, "MULTI")
			run(s, "PING")
			want(t, s, "EXEC", c.exec)
			for i := range e.shards {
				if n := len(e.shards[i].watched); n > 0 {
					t.Errorf("%d keys are still watched", n)
				}
			}
		})
	}
}
