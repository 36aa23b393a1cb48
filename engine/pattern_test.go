package engine

import (
	"strings"
	"testing"
	"time"
)

// TestNobodyWaitsForPatterns has a client match a pattern that takes
// a while to match, and wants others to write, subscribe and leave meanwhile.
func TestNobodyWaitsForPatterns(t *testing.T) {
	e := open(t, Options{})
	name := strings.Repeat("a", 300_000)
	pattern := "*" + strings.Repeat("a", 10_000) + "?b*"
	holder := e.Session()
	run(holder, "SET "+name+" 1")
	run(holder, "SUBSCRIBE "+name)
	if got := run(holder, "PSUBSCRIBE "+pattern); !strings.HasPrefix(got, "*3\r\n") {
		t.Fatalf("PSUBSCRIBE: %.100q", got)
	}
	for _, line := range []string{"PUBLISH " + name + " m", "KEYS " + pattern, "SCAN 0 COUNT 100000 MATCH " + pattern, "PUBSUB CHANNELS " + pattern} {
		took := make(chan time.Duration)
		go func() {
			began := time.Now()
			run(e.Session(), line)
			took <- time.Since(began)
		}()
		var worst, whole time.Duration
		for whole == 0 {
			began := time.Now()
			s := e.Session()
			want(t, s, "SET k v", "+OK\r\n")
			want(t, s, "SET "+name+" 1", "+OK\r\n")
			run(s, "PSUBSCRIBE p")
			s.Close()
			worst = max(worst, time.Since(began))
			select {
			case whole = <-took:
			default:
			}
		}
		t.Logf("%.20s took %v, others at most %v", line, whole, worst)
		if worst > whole/2 {
			t.Errorf("%.20s took %v, and another client %v", line, whole, worst)
		}
	}
}

// TestPatternsAreCopiedOnce wants each change of the patterns to be seen by the
// PUBLISH that follows it.
func TestPatternsAreCopiedOnce(t *testing.T) {
	e := open(t, Options{})
	s, other := e.Session(), e.Session()
	for range 3 {
		for i, pattern := range []string{"a*", "*b", "?b", "[a]b"} {
			run(s, "PSUBSCRIBE "+pattern)
			run(other, "PSUBSCRIBE "+pattern)
			want(t, e.Session(), "PUBLISH ab m", ":"+string(rune('0'+2*(i+1)))+"\r\n")
		}
		run(other, "RESET")
		for i, pattern := range []string{"?b", "a*", "*b", "[a]b"} {
			run(s, "PUNSUBSCRIBE "+pattern)
			want(t, e.Session(), "PUBLISH ab m", ":"+string(rune('0'+3-i))+"\r\n")
		}
		if n := len(e.pubsub.globs.names) + len(e.pubsub.patterns); n != 0 {
			t.Errorf("%d patterns are left", n)
		}
	}
}
