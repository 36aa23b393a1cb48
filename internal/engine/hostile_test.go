package engine

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/threadtime"
)

// hostile are scripts that don't end, or ask for more and more. Each is run
// with the key k, a list of long strings.
var hostile = []string{
	`while true do end`,
	`while true do pcall(function() while true do end end) end`,
	`while true do redis.pcall('get', KEYS[1]) end`,
	`while true do pcall(redis.call, 'nosuch') end`,
	`return string.gsub(string.rep('x', 100), 'x', function() while true do end end)`,
	`return coroutine.wrap(function() while true do coroutine.yield(1) end end)() or 1, (function() while true do end end)()`,
	`local co co = coroutine.wrap(function() return co() end) while true do pcall(co) co = coroutine.wrap(function() return co() end) end`,
	`local t = setmetatable({}, {__index = function(t, k) return t[k .. 1] end}) while true do pcall(function() return t.x end) end`,
	`while true do redis.pcall('lrange', KEYS[1], 0, -1) end`,
	`local t = {} while true do t[#t + 1] = redis.call('lrange', KEYS[1], 0, -1) end`,
	`local t = {} while true do t[#t + 1] = redis.call('dump', KEYS[1]) end`,
	`local s = 'x' while true do s = s .. s redis.pcall('echo', s) end`,
	`while true do redis.pcall('setrange', KEYS[1], 1e300, 'x') end`,
	`return string.find(string.rep('a', 10000), string.rep('a*', 100) .. 'b')`,
	`local s = string.rep('[', 100000) while true do pcall(cjson.decode, s) end`,
	`local t = {} t[1] = t while true do pcall(cjson.encode, t) pcall(cmsgpack.pack, t) end`,
	`error(setmetatable({}, {__index = function() while true do end end, __tostring = function() while true do end end}))`,
	`while true do redis.pcall('eval', 'return 1', 0) redis.pcall('subscribe', 'x') redis.pcall('multi') redis.pcall('blpop', 'x', 0) end`,
	`redis.setresp(3) while true do redis.pcall('config', 'get', '*') redis.pcall('command') end`,
	`while true do redis.log(redis.LOG_WARNING, string.rep('x', 1000)) redis.sha1hex(string.rep('x', 1000)) end`,
}

// TestHostileScripts stops every hostile script, soon and with an error. No lock stays held, the
// host keeps its memory, and the engine goes on. The limit is in processor time: a script may use
// it until its own time is over.
//
// Promise: Every script can be stopped.
func TestHostileScripts(t *testing.T) {
	threadtime.Lock(t)
	most := 500 * time.Millisecond
	if slow.Race {
		most *= 10
	}
	for _, loaded := range []bool{false, true} {
		const limit = 40 * time.Millisecond
		e := open(t, Options{ScriptTimeout: limit})
		s := e.Session()
		for range 100 {
			s.Do(nil, [][]byte{[]byte("RPUSH"), []byte("k"), bytes.Repeat([]byte("x"), 10_000)})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, src := range hostile {
			args := [][]byte{[]byte("EVAL"), []byte(src), []byte("1"), []byte("k")}
			if loaded { // and in a transaction
				run(s, "MULTI")
				s.Do(nil, args)
				args = [][]byte{[]byte("EXEC")}
			}
			began := threadtime.Now()
			out, _ := s.Do(nil, args)
			if took := threadtime.Now() - began; took > most {
				t.Errorf("%s\n took %v of the processor", src, took)
			}
			if out = bytes.TrimPrefix(out, []byte("*1\r\n")); out[0] != '-' || strings.Contains(string(out), "internal error") {
				t.Errorf("%s\n got %.100q", src, out)
			}
			unlocked(t, e, src)
			want(t, s, "LLEN k", ":100\r\n")
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys) - int64(before.Sys); grown > 600<<20 { //nolint:gosec // sizes of memory
			t.Errorf("the process grew by %d MiB", grown>>20)
		}
		if n := e.stats.panics.Load(); n != 0 {
			t.Errorf("%d panics", n)
		}
	}
}
