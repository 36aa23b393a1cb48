package engine

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A command that waits for a script when the script becomes slow answers BUSY, and so does a later one. Its
// locks are free, it has done nothing, and work that is no client's command goes on waiting.
func TestWaitersOfASlowScriptAreToldBusy(t *testing.T) {
	e := open(t, Options{ScriptTimeout: time.Minute})
	s := e.Session()
	begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "0"), "+OK") // none is slow
	first, last := "a", "b"
	if shardOf([]byte(first)) > shardOf([]byte(last)) {
		first, last = last, first
	}
	script := make(chan string)
	go func() {
		script <- runScript(e.Session(), "EVAL", "while true do redis.call('INCR', KEYS[1]) end", "1", last)
	}()
	held := &e.shards[shardOf([]byte(last))]
	await.Until(t, time.Minute, "the script has its key and has written", func() bool {
		if held.mu.TryLock() {
			held.mu.Unlock()
			return false
		}
		e.scripts.mu.Lock()
		defer e.scripts.mu.Unlock()
		for run := range e.scripts.runs {
			return run.wrote.Load()
		}
		return false
	})

	waiting := map[string]func(*Session) string{
		"-BUSY one key":      func(s *Session) string { return runScript(s, "SET", last, "x") },
		"-BUSY several keys": func(s *Session) string { return runScript(s, "MSET", first, "x", last, "x") },
		"-BUSY every key":    func(s *Session) string { return runScript(s, "DBSIZE") },
		"-BUSY a script": func(s *Session) string {
			return runScript(s, "EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", last)
		},
		"-EXECABORT Transaction discarded because of: BUSY a transaction": func(s *Session) string {
			runScript(s, "MULTI")
			runScript(s, "SET", first, "x")
			runScript(s, "SET", last, "x")
			return runScript(s, "EXEC")
		},
	}
	type answer struct{ want, got, next string }
	answers := make(chan answer)
	for want, ask := range waiting {
		go func() {
			s := e.Session()
			defer s.Close()
			got := ask(s)
			answers <- answer{want, got, runScript(s, "PING")}
		}()
	}
	background := make(chan struct{})
	go func() {
		held.mu.Lock()
		defer held.mu.Unlock()
		close(background)
	}()
	await.Until(t, time.Minute, "all of them wait", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Count(stacks, []byte("(*shardLock).lockUnlessSlow(")) == len(waiting) && bytes.Contains(stacks, []byte("(*shardLock).Lock("))
	})
	begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "1"), "+OK")
	for range waiting {
		a := <-answers
		prefix := a.want[:bytes.IndexByte([]byte(a.want), 'Y')+1]
		if len(a.got) < len(prefix) || a.got[:len(prefix)] != prefix || a.next != "+PONG\r\n" {
			t.Errorf("%s: %q, and then to PING %q", a.want, a.got, a.next)
		}
	}
	begins(t, runScript(s, "GET", first), "$-1") // at once: the script that was told BUSY no longer holds it
	begins(t, runScript(s, "GET", last), "-BUSY")
	select {
	case <-background:
		t.Error("the lock was had while the script ran")
	default:
	}
	begins(t, runScript(s, "SCRIPT", "KILL"), "-UNKILLABLE")
	e.StopScripts()
	begins(t, <-script, "-")
	<-background
	begins(t, runScript(s, "GET", last), "$")
	begins(t, runScript(s, "SET", last, "y"), "+OK")
}
