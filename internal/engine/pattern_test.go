package engine

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestNobodyWaitsForPatterns has a client match a pattern that takes long, and wants others
// to write, subscribe and leave meanwhile.
func TestNobodyWaitsForPatterns(t *testing.T) {
	slow.Test(t, "it runs costly patterns beside other clients")
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
		n := meanwhile(e, line, func() {
			s := e.Session()
			want(t, s, "SET k v", "+OK\r\n")
			want(t, s, "SET "+name+" 1", "+OK\r\n")
			run(s, "PSUBSCRIBE p")
			s.Close()
		})
		if n < 5 {
			t.Errorf("another client had %d turns while %.20s ran", n, line)
		}
	}
}

// meanwhile runs a command, and f again and again. It returns how many runs of f began and
// ended while the command ran.
func meanwhile(e *Engine, line string, f func()) (n int) {
	var begun, ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := e.Session()
		begun.Store(true)
		run(s, line)
		ended.Store(true)
	}()
	for !ended.Load() {
		counts := begun.Load()
		f()
		if counts && !ended.Load() {
			n++
		}
	}
	<-done
	return n
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

// TestLongCommandsHoldLittle has commands take their time while the shards of other keys, or
// all, can be locked.
func TestLongCommandsHoldLittle(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "SET {t}a "+strings.Repeat("a", 5_000))
	run(s, "SET {t}b "+strings.Repeat("b", 5_000))
	run(s, "RPUSH list 3 1 2")
	sh := shardOf([]byte("list"))
	var others shardSet
	others.fill()
	others.each(func(i int) {
		if i != sh {
			e.shards[i].mu.Lock()
		}
	})
	want(t, s, "SORT list DESC", "*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n")
	want(t, s, "SORT_RO list LIMIT 0 1 BY nosort", "*1\r\n$1\r\n3\r\n")
	others.each(func(i int) {
		if i != sh {
			e.shards[i].mu.Unlock()
		}
	})
	want(t, s, "SORT list BY *_w GET *_v", "*3\r\n$-1\r\n$-1\r\n$-1\r\n")

	other := e.Session()
	if n := meanwhile(e, "LCS {t}a {t}b LEN", func() { want(t, other, "GETRANGE {t}a 0 0", "$1\r\na\r\n") }); n < 5 {
		t.Errorf("another client had %d turns while LCS ran", n)
	}
}
