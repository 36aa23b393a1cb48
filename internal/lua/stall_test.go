package lua

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/threadtime"
)

// stalls are scripts in which one native, or one instruction, has as much to do as memory
// allows. Unless it is stopped, each goes on for seconds, most for minutes.
var stalls = []struct{ name, src string }{
	{"find set", `local n = 4e6 return string.find(('a'):rep(n), '[' .. ('b'):rep(n) .. 'a]*$')`},
	{"find set once", `local p = '[' .. ('b'):rep(2e7) .. ']' while true do string.find('a', p) end`},
	{"find set of ranges", `local p = '[' .. ('b-c'):rep(7e6) .. ']' while true do string.find('a', p) end`},
	{"find set of classes", `local p = '[' .. ('%d%u'):rep(5e6) .. ']' while true do string.find('a', p) end`},
	{"find set without end", `local p = '[' .. ('b'):rep(2e7) while true do pcall(string.find, 'a', p) end`},
	{"frontier of a set", `local p = '%f[' .. ('b'):rep(1e7) .. ']' while true do string.find('aaaa', p) end`},
	{"balance", `local s = ('x'):rep(1e7) return s:find('%bxy')`},
	{"balance nested", `local s = ('xxy'):rep(5e6) return s:find('%bxyz')`},
	{"any to the end", `local s = ('x'):rep(2e7) while true do s:find('.*y') end`},
	{"any to the end twice", `return ('x'):rep(2e7):find('.-.-y')`},
	{"any of a set", `return ('x'):rep(2e7):find('[%w_]*[%w_]*y')`},
	{"back reference", `local s = ('x'):rep(1e7) return (s .. s):find('^(.-)%1y')`},
	{"plain", `local s, p = ('a'):rep(2e7), ('a'):rep(1e7) .. 'b' while true do s:find(p, 1, true) end`},
	{"plain short", `local s = ('a'):rep(3e7) while true do s:find(('a'):rep(60) .. 'b', 1, true) end`},
	{"is it plain", `local p = ('a'):rep(3e7) while true do ('a'):find(p) end`},
	{"gmatch", `local s = ('x'):rep(2e7) for a in s:gmatch('[^x]') do end`},
	{"gmatch pattern", `local p = ('x'):rep(2e7) while true do for a in ('x'):gmatch(p) do end end`},
	{"gsub nothing", `local s = ('x'):rep(2e7) while true do s:gsub('y', '') end`},
	{"gsub by much", `local r = ('x'):rep(5e6) while true do pcall(string.gsub, 'aaaa', '.', r) end`},
	{"gsub by escapes", `local r = ('%%'):rep(4e6) while true do pcall(string.gsub, 'aaaa', '.', r) end`},
	{"gsub captures", `local s = ('x'):rep(1e7) while true do s:gsub('(.*)', function(a) end) end`},
	{"format plain", `local f = ('a'):rep(2e7) while true do string.format(f) end`},
	{"format percents", `local f = ('%%'):rep(1e7) while true do string.format(f) end`},
	{"format quoted", `local s = ('\n'):rep(1e7) while true do string.format('%q', s) end`},
	{"format text", `local s = ('a'):rep(2e7) while true do string.format('%s%.9s', s, s) end`},
	{"reverse", `local s = ('a'):rep(2e7) while true do s:reverse() end`},
	{"upper", `local s = ('a'):rep(2e7) while true do s:upper() s:lower() end`},
	{"rep", `while true do ('a'):rep(2e7) end`},
	{"rep of much", `local s = ('a'):rep(1e7) while true do s:rep(2) end`},
	{"sub", `local s = ('a'):rep(2e7) while true do s:sub(2) end`},
	{"byte and char", `local s = ('a'):rep(7000) while true do string.char(s:byte(1, -1)) end`},
	{"concatenation", `local s = ('a'):rep(2e7) while true do local x = s .. 'b' .. 'c' end`},
	{"equal strings", `local a, b = ('a'):rep(2e7), ('a'):rep(2e7) local n = 0 while a == b do n = n + 1 end`},
	{"order of strings", `local a, b = ('a'):rep(2e7), ('a'):rep(2e7) while not (a < b) and a <= b do end`},
	{"rawequal", `local a, b = ('a'):rep(2e7), ('a'):rep(2e7) while rawequal(a, b) do end`},
	{"long keys", `local a, b = ('a'):rep(2e7), ('a'):rep(2e7) local t = {[a] = 1} while t[b] do t[b] = 2 end`},
	{"long keys of rawget", `local a, b = ('a'):rep(2e7), ('a'):rep(2e7) local t = {[a] = 1} while rawget(t, b) do next(t, b) end`},
	{"tonumber of digits", `local s = ('1'):rep(2e7) while true do tonumber(s) end`},
	{"tonumber of a fraction", `local s = '.' .. ('0'):rep(2e7) .. '1' while true do local x = s + 1 end`},
	{"tonumber of blanks", `local s = (' '):rep(2e7) .. '1' .. (' '):rep(1e7) while true do tonumber(s) end`},
	{"tonumber by a base", `local s = ('1'):rep(2e7) while true do tonumber(s, 7) end`},
	{"tonumber of nan", `local s = 'nan(' .. ('1'):rep(2e7) .. ')' while true do tonumber(s) end`},
	{"for by a long text", `local s = ('0'):rep(2e7) while true do for i = s, s do end end`},
	{"bit", `local s = ('0'):rep(2e7) while true do bit.tobit(s) end`},
	{"math", `local t = {} for i = 1, 7000 do t[i] = i end while true do math.max(unpack(t)) end`},
	{"select", `local t = {} for i = 1, 7000 do t[i] = i end while true do select(2, unpack(t)) end`},
	{"unpack", `local t = {} for i = 1, 7000 do t[i] = i end while true do unpack(t) end`},
	{"arguments", `local t = {} for i = 1, 7000 do t[i] = i end local function f(...) return ... end while true do f(unpack(t)) end`},
	{"yielded values", `local t = {} for i = 1, 7000 do t[i] = i end local f = coroutine.wrap(function() while true do coroutine.yield(unpack(t)) end end) while true do f() end`},
	{"table.concat", `local s = ('a'):rep(1e6) local t = {} for i = 1, 20 do t[i] = s end while true do table.concat(t) end`},
	{"table.concat of separators", `local s = ('a'):rep(5e6) while true do table.concat({'', '', '', ''}, s) end`},
	{"table.concat of nothing", `local t = setmetatable({}, {}) t[1] = '' while true do table.concat({'', '', ''}, '', 1, 3) table.concat({}, '', 1, -2147483648) end`},
	{"sort equal strings", `local t = {} for i = 1, 12 do t[i] = ('a'):rep(2e6) .. i end while true do table.sort(t, nil) table.sort(t, function(a, b) return a > b end) end`},
	{"sort", `local t = {} for i = 1, 500000 do t[i] = -i end table.sort(t)`},
	{"insert in front", `local t = {} for i = 1, 300000 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end`},
	{"next over an emptied table", `local t = {} for i = 1, 300000 do t[i] = i t['k' .. i] = i end for k in pairs(t) do t[k] = nil end while true do next(t) end`},
	{"pairs over an emptied table", `local t = {} for i = 1, 1e6 do t[i] = i end for k in pairs(t) do t[k] = nil end while true do for k in pairs(t) do end end`},
	{"maxn", `local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) end`},
	{"border", `local t = {} for i = 1, 60 do t[2^i] = 1 end for i = 200000, 1, -1 do t[i] = 1 t[i * 4096 + 0.5] = 1 end while true do local n = #t end`},
	{"rehash without growth", `local t = {} for i = 1, 2^18 do t['k' .. i] = i end local i = 0 while true do t['k' .. i] = nil i = i + 1 t['k' .. i + 2^18] = i end`},
	{"colliding numbers", `local t = {} for i = 1, 1e6 do t[(2^52 + i * 2^20) * 2^(i % 3)] = nil t[collide(i)] = i end`},
	{"colliding numbers read", `local t = {} for i = 1, 40000 do t[collide(i)] = i end while true do local x = t[collide(50000)] end`},
	{"colliding numbers in order", `local t = {} for i = 1, 40000 do t[collide(i)] = i end while true do for k in pairs(t) do end end`},
	{"metatable of collisions", `local t = {} for i = 1, 40000 do t[collide(i)] = i end local x = setmetatable({}, {__index = t}) while true do local y = x[collide(50000)] end`},
	{"sha1hex", `local s = ('a'):rep(3e7) while true do redis.sha1hex(s) end`},
	{"error replies", `local s = ('a'):rep(1e7) while true do redis.error_reply(s) redis.status_reply(s) end`},
	{"arguments of commands", `local s = ('a'):rep(1e7) while true do redis.pcall('nope', s) end`},
	{"errors with long texts", `local s = ('a'):rep(1e7) while true do pcall(error, s) end`},
	{"errors about long names", `local s = ('a'):rep(1e6) local f = loadstring('return ' .. s .. '.x.y') while true do pcall(f) end`},
	{"errors in long functions", `local f = loadstring(('local a '):rep(100) .. ('a = a '):rep(200000) .. 'return a.b.c') while true do pcall(f) end`},
	{"error handler", `local s = ('a'):rep(1e7) while true do pcall(__redis__err__handler, s) end`},
	{"loadstring", `local s = ('a=1 '):rep(100000) while true do loadstring(s) end`},
	{"loadstring of one long chunk", `return loadstring(('a=1 '):rep(1e6))`},
	{"loadstring of blanks", `local s = (' '):rep(1e7) while true do loadstring(s) end`},
	{"loadstring of a comment", `local s = '--[[' .. ('x'):rep(1e7) while true do loadstring(s) end`},
	{"loadstring of a long string", `local s = 'return "' .. ('x'):rep(8e6) while true do loadstring(s) end`},
	{"loadstring of a name", `local s = ('x'):rep(8e6) while true do loadstring(s) end`},
	{"loadstring of a numeral", `local s = 'return ' .. ('1'):rep(8e6) while true do loadstring(s) end`},
	{"load", `local s = ('a=1 '):rep(1000) load(function() return s end)`},
	{"compile breaks", `return loadstring('while true do ' .. ('if a then break end '):rep(150000) .. 'end')`},
	{"straight code", `local f = loadstring('local a = 1 ' .. ('a = -a '):rep(700000)) while true do f() end`},
	{"cjson.decode of blanks", `local s = (' '):rep(2e7) .. '1' while true do cjson.decode(s) end`},
	{"cjson.decode of a string", `local s = '"' .. ('a'):rep(2e7) .. '"' while true do cjson.decode(s) end`},
	{"cjson.decode of escapes", `local s = '"' .. ('\\n'):rep(8e6) .. '"' while true do cjson.decode(s) end`},
	{"cjson.decode of a numeral", `local s = ('1'):rep(2e7) while true do cjson.decode(s) end`},
	{"cjson.decode of nan", `local s = 'nan(' .. ('1'):rep(2e7) while true do pcall(cjson.decode, s) end`},
	{"cjson.decode of an array", `local s = '[' .. ('0,'):rep(1e6) .. '0]' while true do cjson.decode(s) end`},
	{"cjson.encode of a string", `local s = ('a'):rep(1e7) while true do cjson.encode(s) end`},
	{"cjson.encode of an emptied table", `local t = {} for i = 1, 1e6 do t[i] = i end for i = 2, 1e6 do t[i] = nil end while true do cjson.encode(t) end`},
	{"cmsgpack.pack of an emptied table", `local t = {} for i = 1, 1e6 do t[i] = i end for i = 2, 1e6 do t[i] = nil end while true do cmsgpack.pack(t) end`},
	{"cmsgpack.pack of a string", `local s = ('a'):rep(1e7) while true do cmsgpack.pack(s) end`},
	{"cmsgpack.unpack of a string", `local s = cmsgpack.pack(('a'):rep(1e7)) while true do cmsgpack.unpack(s) end`},
	{"cmsgpack.unpack", `local s = '\221\0\15\66\64' .. ('\1'):rep(1e6) while true do cmsgpack.unpack(s) end`},
	{"struct.pack of blanks", `local s = (' '):rep(1e7) while true do struct.pack(s) struct.size(s) end`},
	{"struct.pack of digits", `local s = '!' .. ('0'):rep(1e7) .. '8' while true do struct.pack(s) end`},
	{"struct.unpack", `local s = ('a'):rep(3e7) while true do struct.unpack('b', s) pcall(struct.unpack, 's', s) end`},
	{"marking", `local t = {} for i = 1, 250000 do t[i] = {i} end while true do local x = ('a'):rep(1e5) end`},
	{"refused memory", `local t = {} for i = 1, 250000 do t[i] = {i} end while true do pcall(string.rep, 'a', 5e7) end`},
	{"metamethods", `local t = setmetatable({}, {__concat = function() return '' end}) while true do local x = t .. t end`},
	{"long frames", `local function f(n) if n > 0 then return 1 + f(n - 1) end error('x', 15000) end while true do pcall(f, 15000) end`},
	{"collectgarbage by a long name", `local s = ('a'):rep(2e7) while true do pcall(collectgarbage, s) end`},
}

// collide is a function that makes numbers that all lie in one chain.
const collide = `local function collide(i) return 2^20 * (1 + i * 2^-20 - i * 2^-52) end `

// TestNothingStalls holds that every script can be stopped: no more than 100 ms of
// the processor's time pass between two looks at the clock, and no work is
// counted that is much more than that. It is 10 to 30 ms on a quiet machine. Time is
// that of the test's own thread, so that others on the machine matter little. It takes
// some seconds because the scripts need megabytes.
//
// Promise: Every native function of a script can be stopped, and it counts its work by the bytes that it
// reads.
func TestNothingStalls(t *testing.T) {
	rt := newTestRuntime(t, Options{})
	for _, tt := range stalls {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) { stallTest(t, rt, tt.src) })
	}
	// The 70 keys of one chain make an index of all 450,000.
	const index = `local t = {} for i = 1, 450000 do t[i + 0.5] = i end redis.call('ready')
		while true do pcall(function() for i = 1, 70 do t[collide(i)] = i end end) end`
	t.Run("index-of-a-table", func(t *testing.T) { stallTest(t, newTestRuntime(t, Options{Memory: 256 << 20}), index) })
	t.Run("index-without-room", func(t *testing.T) { stallTest(t, newTestRuntime(t, Options{Memory: 50 << 20}), index) })
}

// A readyHost is told when a script has what it needs.
type readyHost struct {
	*fakeHost
	ready func()
}

func (h readyHost) Call(args [][]byte, r *Reply) {
	if string(args[0]) != "ready" {
		h.fakeHost.Call(args, r)
		return
	}
	h.ready()
	r.Status("OK")
}

// longestStall returns the longest time and the most steps between two looks, and how long the script ran.
func longestStall(rt *Runtime, p *Proto, src string) (gap, took time.Duration, work int, err error) {
	const enough = 20 * time.Millisecond
	var stop Interrupt
	began := threadtime.Now()
	last, looks := began, 0
	ready := !strings.Contains(src, "'ready'")
	host := readyHost{newFakeHost(), func() { began, ready = threadtime.Now(), true }}
	inv := Invocation{Host: host, Interrupt: &stop, looked: func(steps int) {
		now := threadtime.Now()
		gap, work, last = max(gap, now-last), max(work, steps), now
		if looks++; ready && now-began > enough && looks > 10 {
			stop.Set()
		}
	}}
	err = rt.Run(p, inv, discardErrors{})
	now := threadtime.Now()
	return max(gap, now-last), now - began, work, err
}

// stallTest stops a script after a while, but not before it is ready.
func stallTest(t *testing.T, rt *Runtime, src string) {
	most := 100 * time.Millisecond
	if slow.Race {
		most *= 20 // the race detector makes a loop over bytes that much slower
	}
	threadtime.Lock(t)
	p, err := Compile("user_script", collide+src)
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine makes it longer, so the quickest of three runs counts.
	var gap, took time.Duration
	var work int
	for range 3 {
		if gap, took, work, err = longestStall(rt, p, src); gap <= most {
			break
		}
	}
	t.Logf("%8.2f ms at most, %8d steps, of %6.1f ms; %v", gap.Seconds()*1e3, work, took.Seconds()*1e3, brief(err))
	if gap > most {
		t.Errorf("%v passed between two looks, at most %v may", gap, most)
	}
	if work > 1<<22 {
		t.Errorf("%d steps passed between two looks", work)
	}
	if err == nil {
		t.Error("it ended by itself: it does not test what it should")
	}
}

// discardErrors is a Writer that keeps nothing, not even errors.
type discardErrors struct{ discard }

func (discardErrors) Error(string) {}

func brief(err error) string {
	if errors.Is(err, ErrKilled) {
		return "killed"
	}
	return fmt.Sprintf("%.150v", err)
}
