package engine

import (
	"fmt"
	"strings"
	"testing"
)

// info returns the lines of INFO that begin so.
func info(s *Session, prefix string) (lines []string) {
	for line := range strings.SplitSeq(runScript(s, "INFO"), "\r\n") {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestErrorStats(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	for _, line := range []string{
		"SET k v", "LPUSH k x", "NOSUCH", "GET", "EVALSHA x 0",
		"MULTI", "LPUSH k x", "EXEC", "MULTI", "GET", "EXEC",
	} {
		run(s, line)
	}
	runScript(s, "EVAL", "return redis.error_reply('MINE is it')", "0")
	runScript(s, "EVAL", "redis.pcall('LPUSH', KEYS[1], 'x') return 1", "1", "k")
	runScript(s, "EVAL", "return redis.call('LPUSH', KEYS[1], 'x')", "1", "k") // counts once
	runScript(s, "EVAL", "redis.pcall('LPUSH', KEYS[1], 'x') return 1", "1", "k")
	run(s, "LPUSH k x") // is another
	want := "[errorstat_ERR:count=3 errorstat_EXECABORT:count=1 errorstat_MINE:count=1 errorstat_NOSCRIPT:count=1 errorstat_WRONGTYPE:count=6]"
	if got := fmt.Sprint(info(s, "errorstat_")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprint(info(s, "total_error_replies")); got != "[total_error_replies:12]" {
		t.Error(got)
	}
	run(s, "CONFIG RESETSTAT")
	if got := info(s, "errorstat_"); got != nil {
		t.Errorf("after a reset: %v", got)
	}
	for i := range 2 * mostCodes {
		runScript(s, "EVAL", "return redis.error_reply(ARGV[1])", "0", fmt.Sprintf("CODE%d x", i))
		runScript(s, "EVAL", "return redis.error_reply(ARGV[1])", "0", strings.Repeat("X", 100+i)+" x")
	}
	if n := len(info(s, "errorstat_CODE")); n != mostCodes || len(info(s, "errorstat_X")) > 0 {
		t.Errorf("%d codes of errors are kept, want %d, none of them long", n, mostCodes)
	}
}

func TestScriptsAreCounted(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	for i := range 100 {
		runScript(s, "SCRIPT", "LOAD", fmt.Sprint("return ", i))
	}
	for _, want := range []string{"100", "0"} {
		if got := fmt.Sprint(info(s, "number_of_cached_scripts")); got != "[number_of_cached_scripts:"+want+"]" {
			t.Errorf("%s, want %s", got, want)
		}
		runScript(s, "SCRIPT", "FLUSH")
	}
}

func TestScriptSteps(t *testing.T) {
	e := open(t, Options{ScriptSteps: 100_000})
	s := e.Session()
	begins(t, runScript(s, "EVAL", "for i = 1, 50000 do end return 'done'", "0"), "$4\r\ndone")
	for _, endless := range []string{
		"redis.call('SET', KEYS[1], 'x') while true do end",
		"redis.call('SET', KEYS[1], 'x') while true do pcall(function() while true do end end) end",
		"redis.call('SET', KEYS[1], 'x') return string.rep('x', 2^24):find(('.-'):rep(20) .. 'y')",
		"redis.call('SET', KEYS[1], 'x') local function f() return f() end return f()",
	} {
		begins(t, runScript(s, "DEL", "k"), ":")
		begins(t, runScript(s, "EVAL", endless, "1", "k"), "-ERR script exceeded its instruction budget script: ")
		begins(t, runScript(s, "GET", "k"), "$1\r\nx")
	}
	if _, err := New(Options{ScriptSteps: -1}); err == nil {
		t.Error("a negative number of steps is accepted")
	}
}
