package engine

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestScriptsAreCompiledWithoutLocks holds every shard and wants scripts to be
// compiled all the same: a long one must not hold up everybody.
func TestScriptsAreCompiledWithoutLocks(t *testing.T) {
	for _, strict := range []bool{false, true} {
		e := open(t, Options{StrictKeys: strict})
		var all shardSet
		all.fill()
		all.each(func(i int) { e.shards[i].mu.Lock() })
		done := make(chan string)
		for _, line := range []string{"EVAL return{1} 0", "EVAL return{2} 1 k", "EVAL return(redis.call('get','x')) 1 k"} {
			source := strings.Fields(line)[1]
			go func() { done <- run(e.Session(), line) }()
			await.Soon(t, line+" is compiled", func() bool {
				digest := digestOf([]byte(source))
				return e.cache.find(digest[:]) != nil
			})
		}
		// A script that doesn't compile needs no shard.
		want(t, e.Session(), "EVAL return{ 0", "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'\r\n")
		all.each(func(i int) { e.shards[i].mu.Unlock() })
		for range 3 {
			<-done
		}
	}
}

// TestQueuedScripts wants the scripts of a transaction to be compiled when they
// are queued, and to be found by EVALSHA from their turn on.
func TestQueuedScripts(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	one, two := digestOf([]byte("return{1}")), digestOf([]byte("return{2}"))
	for _, line := range []string{
		"MULTI", "SCRIPT EXISTS " + string(one[:]) + " " + string(two[:]), "EVAL return{1} 0", "SCRIPT LOAD return{2}", "EVAL return{ 0",
		"SCRIPT LOAD return{", "EVALSHA " + string(one[:]) + " 0", "EVALSHA " + string(two[:]) + " 1 k",
	} {
		run(s, line)
	}
	for i, q := range s.queue[1:5] {
		if q.script.script == nil && q.script.err == nil {
			t.Errorf("command %d is not compiled", i+1)
		}
	}
	if n := e.cache.len(); n != 0 {
		t.Errorf("%d scripts can be named before EXEC", n)
	}
	const bad = "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'\r\n"
	want(t, s, "EXEC", "*7\r\n*2\r\n:0\r\n:0\r\n*1\r\n:1\r\n$40\r\n"+string(two[:])+"\r\n"+bad+bad+"*1\r\n:1\r\n*1\r\n:2\r\n")
	if sc := e.cache.find(two[:]); sc == nil || !sc.kept {
		t.Error("SCRIPT LOAD in a transaction did not keep its script")
	}
}

func TestLongScripts(t *testing.T) {
	e := small(t)
	e.bounds.transaction = 1 << 20
	s := e.Session()
	long := "return'" + strings.Repeat("x", 400) + "'"
	const why = "the script is too long: 408 bytes, at most 400 are taken"
	wantError(t, s, "EVAL "+long+" 0", why)
	wantError(t, s, "SCRIPT LOAD "+long, why)
	run(s, "MULTI")
	run(s, "EVAL "+long+" 0")
	if got := run(s, "EXEC"); !strings.Contains(got, why) {
		t.Errorf("EXEC: %q", got)
	}
	// The memory of a compiled script counts.
	e.bounds.transaction = 1000
	run(s, "MULTI")
	wantError(t, s, "EVAL return'"+strings.Repeat("x", 100)+"' 0", "the transaction is larger than 1000 bytes")
}
