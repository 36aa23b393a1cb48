package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// stubborn are scripts that spend minutes in one native.
var stubborn = []string{
	`return string.find(('a'):rep(8e6), '[' .. ('b'):rep(8e6) .. 'a]*$')`,
	`return (('x'):rep(2e7)):find('%bxy')`,
	`local s = ('a=1 '):rep(2e5) while true do loadstring(s) end`,
	`local s = (' '):rep(2e7) while true do pcall(cjson.decode, s) end`,
}

// TestScriptsStopWithinNatives holds that SCRIPT KILL, the time-out and Close
// end a script whatever it is at, one that has written too, and that its keys
// are free then. How soon is held by TestNothingStalls of internal/lua, which counts
// the processor's time: here others may have it.
func TestScriptsStopWithinNatives(t *testing.T) {
	const write = `redis.call('SET', KEYS[1], 'x') `
	ends := func(name, source, want string, o Options, stop func(*Engine, *Session)) {
		t.Run(name, func(t *testing.T) {
			e := open(t, o)
			s := e.Session()
			begins(t, runScript(s, "CONFIG", "SET", "lua-time-limit", "10"), "+OK")
			got := make(chan string, 1)
			go func() { got <- runScript(e.Session(), "EVAL", source, "1", "k") }()
			stop(e, s)
			var reply string
			await.Until(t, 30*time.Second, "the script ends", func() bool {
				select {
				case reply = <-got:
					return true
				default:
					return false
				}
			})
			begins(t, reply, want)
			if !e.closed.Load() {
				begins(t, runScript(s, "STRLEN", "k"), ":")
			}
		})
	}
	closing := func(e *Engine, _ *Session) {
		running(t, e)
		e.Close() //nolint:errcheck // it has no directory
	}
	for i, src := range stubborn {
		ends(fmt.Sprint("kill ", i), src, "-ERR Script killed by user", Options{}, func(e *Engine, s *Session) {
			running(t, e)
			begins(t, runScript(s, "SCRIPT", "KILL"), "+OK")
		})
		ends(fmt.Sprint("close ", i), write+src, "-ERR Script killed by user", Options{}, closing)
		ends(fmt.Sprint("time-out ", i), write+src, "-ERR script exceeded its time limit", Options{ScriptTimeout: 100 * time.Millisecond}, func(*Engine, *Session) {})
	}
}

// TestRepliesToScriptsAreBounded wants a command of a script to hold no more than a
// script may, and the same command of a client to go on.
func TestRepliesToScriptsAreBounded(t *testing.T) {
	e := open(t, Options{})
	e.bounds.scripted = 1000
	s := e.Session()
	begins(t, runScript(s, "SET", "k", strings.Repeat("x", 900)), "+OK")
	begins(t, runScript(s, "EVAL", "return #redis.call('GET', KEYS[1])", "1", "k"), ":900")
	begins(t, runScript(s, "EVAL", "return redis.call('MGET', KEYS[1], KEYS[1])", "1", "k"), "-ERR the reply is larger than 1000 bytes")
	begins(t, runScript(s, "EVAL", "return redis.pcall('MGET', KEYS[1], KEYS[1]).err", "1", "k"), "$")
	begins(t, runScript(s, "MGET", "k", "k"), "*2")
}

// TestCompiledScriptsCount wants the cache to count what scripts take, which is many
// times their source, and sessions to remember none that is large.
func TestCompiledScriptsCount(t *testing.T) {
	e := open(t, Options{})
	e.bounds.loaded, e.bounds.evalBytes = 1<<20, 1<<20
	s := e.Session()
	functions := func(n int) string {
		return strings.Repeat("local function f() end f() ", 150) + strings.Repeat("f = function() end ", n)
	}
	begins(t, runScript(s, "SCRIPT", "LOAD", functions(1500)), "$40")
	begins(t, runScript(s, "SCRIPT", "LOAD", functions(1501)), "-ERR the scripts that are loaded are too large together")
	begins(t, runScript(s, "SCRIPT", "FLUSH"), "+OK")
	for i := range 5 {
		runScript(s, "EVAL", "if KEYS[1] then return end "+functions(1500+i), "1", "k")
	}
	if n := e.cache.len(); n > 2 || e.cache.bytes > 1<<20 {
		t.Errorf("%d scripts of EVAL are left, of %d bytes", n, e.cache.bytes)
	}
	if s.lastEval != nil {
		t.Errorf("the session remembers a script of %d bytes", s.lastEval.size)
	}
	begins(t, runScript(s, "EVAL", "return 1", "1", "k"), ":1")
	if s.lastEval == nil {
		t.Error("the session does not remember a small script")
	}
}
