package engine

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// watchAll returns what MONITOR has shown so far, without times and addresses.
func watchAll(t *testing.T, e *Engine) (shown func() []string) {
	t.Helper()
	m := e.Session()
	lines := make(chan string, 100)
	m.OnPush(func(frame []byte) { lines <- string(frame) })
	want(t, m, "MONITOR", "+OK\r\n")
	head := regexp.MustCompile(`^\+\d+\.\d{6} \[(\d+) [^]]*\] `)
	return func() (all []string) {
		for len(lines) > 0 {
			all = append(all, strings.TrimSpace(head.ReplaceAllString(<-lines, "$1 ")))
		}
		return all
	}
}

// The order is Redis 7.0's: a script stands before its commands, and EXEC behind the commands of the
// transaction.
func TestMonitorShowsInOrder(t *testing.T) {
	e := open(t, Options{})
	shown := watchAll(t, e)
	s := e.Session()
	for _, line := range []string{
		"MULTI", "SET k 1", "EXEC", "SELECT 1", "GET", "CONFIG GET maxmemory", "PUBLISH c m",
	} {
		run(s, line)
	}
	runScript(s, "EVAL", "return redis.call('GET',KEYS[1])", "1", "k")
	runScript(s, "EVAL", "return redis.call('PUBLISH','c','m')", "0")
	want := []string{
		`0 "MULTI"`, `0 "SET" "k" "1"`, `0 "EXEC"`, `1 "SELECT" "1"`, `1 "PUBLISH" "c" "m"`,
		`1 "EVAL" "return redis.call('GET',KEYS[1])" "1" "k"`, `1 "GET" "k"`,
		`1 "EVAL" "return redis.call('PUBLISH','c','m')" "0"`, `1 "PUBLISH" "c" "m"`,
	}
	if got := shown(); !slices.Equal(got, want) {
		t.Errorf("MONITOR shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A command that is tried, and run later because others held its shard, is
// shown once.
func TestMonitorShowsOnce(t *testing.T) {
	e := open(t, Options{})
	shown := watchAll(t, e)
	s := e.Session()
	set := split("SET k v")
	sh := &e.shards[shardOf(set[1])]
	sh.mu.Lock()
	_, _, ran := s.do(nil, set, true)
	sh.mu.Unlock()
	if ran {
		t.Fatal("SET was run although its shard was held")
	}
	want(t, s, "SET k v", "+OK\r\n")
	if got, want := shown(), []string{`0 "SET" "k" "v"`}; !slices.Equal(got, want) {
		t.Errorf("MONITOR shows %q, want %q", got, want)
	}
}
