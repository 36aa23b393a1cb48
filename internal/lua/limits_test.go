package lua

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func runErr(t *testing.T, rt *Runtime, src string, inv Invocation) (string, error) {
	t.Helper()
	p, err := Compile("user_script", src)
	if err != nil {
		t.Fatal(err)
	}
	if inv.Host == nil {
		inv.Host = newFakeHost()
	}
	w := &respWriter{}
	err = rt.Run(p, inv, w)
	return string(w.b), err
}

var endless = []string{
	`while true do end`,
	`repeat until false`,
	`for i = 1, 1e300 do end`,
	`for i = 2, 1, 0 do end`,
	`local function f() return f() end return f()`,
	`while true do pcall(error, 'x') end`,
	`while true do pcall(function() while true do end end) end`,
	`while true do xpcall(function() while true do end end, function() while true do end end) end`,
	`while true do redis.pcall('nope') end`,
	`local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end`,
	`coroutine.wrap(function() while true do end end)()`,
	`for k in function() return 1 end do end`,
	`return string.find(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(40) .. 'b')`,
	`return string.find(('a'):rep(3000), '.-.-.-.-b')`,
	`return string.match(('a'):rep(200), '(.*)(.*)(.*)(.*)(.*)(.*)b')`,
	`table.sort({3,2,1}, function(a, b) while true do end end)`,
	`return ('x'):gsub('x', function() while true do end end)`,
	`local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) while true do pcall(function() return t.a end) end`,
	`local t = {} t[1e9] = 1 table.insert(t, -2147483648, 1)`,
	`cjson.encode_sparse_array(true, 0) return cjson.encode({[2147483647] = 1})`,
	`load(function() return ' ' end)`,
	`error(setmetatable({}, {__newindex = function() while true do end end}))`,
	`error(setmetatable({}, {__index = function() while true do end end}))`,
	`return tostring(setmetatable({}, {__tostring = function() while true do end end}))`,
	`local a = {} for i = 1, 40 do a = {a, a} end return a`,
	`local a = {} a[1] = a a[2] = a return a`,
	`local a = {} for i = 1, 40 do a = {a, a} end return cjson.encode(a)`,
	`local a = {} for i = 1, 15 do a = {a, a, a, a, a, a} end return cmsgpack.pack(a)`,
}

// TestEndless holds that nothing a script does escapes a budget, a deadline
// or an interrupt.
func TestEndless(t *testing.T) {
	rt := newTestRuntime(t, Options{Memory: 16 << 20})
	for _, src := range endless {
		start := time.Now()
		reply, err := runErr(t, rt, src, Invocation{Steps: 500000})
		if err == nil || !strings.HasPrefix(reply, "-") {
			t.Errorf("%s\n ended with %.80q, %v", src, reply, err)
		}
		if d := time.Since(start); d > 20*time.Second { // a busy machine, the race detector
			t.Errorf("%s\n took %v", src, d)
		}
	}
	reply, err := runErr(t, rt, endless[0], Invocation{Deadline: time.Now().Add(20 * time.Millisecond)})
	if !errors.Is(err, ErrDeadline) {
		t.Errorf("deadline: %q, %v", reply, err)
	}
	var killed Interrupt
	killed.Set()
	reply, _ = runErr(t, rt, "\nwhile true do end", Invocation{Interrupt: &killed})
	if want := "-ERR Script killed by user with SCRIPT KILL... script: " + digest("\nwhile true do end") + ", on @user_script:2.\r\n"; reply != want {
		t.Errorf("killed: %q, want %q", reply, want)
	}
	for _, src := range endless[:10] {
		var stop Interrupt
		done := make(chan error, 1)
		go func() {
			_, err := runErr(t, rt, src, Invocation{Interrupt: &stop})
			done <- err
		}()
		stop.Set()
		select {
		case err := <-done:
			var se *ScriptError
			if !errors.Is(err, ErrKilled) && !errors.As(err, &se) {
				t.Errorf("%s\n interrupt: %v", src, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s\n does not stop", src)
		}
	}
}

var hungry = []string{
	`local s = 'x' while true do s = s .. s end`,
	`return ('x'):rep(1e9)`,
	`return ('x'):rep(2147483647):rep(2147483647)`,
	`local t = {} for i = 1, 1e9 do t[i] = i end`,
	`local t = {} for i = 1, 1e9 do t['k' .. i] = i end`,
	`local t = {} for i = 1, 1e9 do t[i] = {} end`,
	`local t = {} for i = 1, 1e9 do t[i] = function() return t end end`,
	`local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end`,
	`local t = {} while true do t = {t} end`,
	`local s = ('x'):rep(1000) local t = {} for i = 1, 1e6 do t[i] = s end return table.concat(t)`,
	`return ('x'):rep(100000):gsub('x', ('y'):rep(100000))`,
	`return string.format(('%99d'):rep(1000000), unpack({1}))`,
	`local s = ('x'):rep(1e6) local t = {} for i = 1, 1e4 do t[i] = s end return t`,
	`local s = ('x'):rep(1e6) local t = {} for i = 1, 1e4 do t[i] = s end return cjson.encode(t)`,
	`local s = ('x'):rep(1e6) local t = {} for i = 1, 1e4 do t[i] = s end return cmsgpack.pack(t)`,
	`local s = ('x'):rep(1e6) local t = {} for i = 1, 7000 do t[i] = s end return redis.call('exists', unpack(t))`,
	`return struct.pack(('c1000000'):rep(1000), unpack((function() local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1000000) end return t end)()))`,
	`local t = {} for i = 1, 200 do local s = t[i-1] or 'return 1' t[i] = s .. s loadstring(t[i]) end`,
	`while true do pcall(string.rep, 'x', 1e9) end`,
	`local function f(...) return f(1, ...) end return f()`,
	`local t = {} t[1] = 1 return {unpack(t, 1, 7000), unpack(t, 1, 7000)} , (function(...) local a = {...} while true do a = {unpack(a), a} end end)()`,
}

// TestMemory holds that a run is refused what passes its limit, and that the
// host's memory stays near it.
func TestMemory(t *testing.T) {
	rt := newTestRuntime(t, Options{Memory: 8 << 20, Steps: 20e6})
	for _, src := range hungry {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		reply, err := runErr(t, rt, src, Invocation{})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.HasPrefix(reply, "-") {
			t.Errorf("%s\n ended with %.80q, %v", src, reply, err)
		}
		if grown := int(after.Sys) - int(before.Sys); grown > 200<<20 {
			t.Errorf("%s\n took %d MB from the system", src, grown>>20)
		}
	}
}

// TestGarbage holds that only what is alive counts.
func TestGarbage(t *testing.T) {
	rt := newTestRuntime(t, Options{Memory: 4 << 20})
	for _, src := range []string{
		`local n = 0 for i = 1, 200000 do local t = {i, i} n = n + #t end return n`,
		`local n = 0 for i = 1, 20000 do local s = ('x'):rep(1000) .. i n = n + 1 end return n`,
		`local keep = {} for i = 1, 100000 do keep[i % 100] = {tostring(i)} end return #keep`,
	} {
		if reply, err := runErr(t, rt, src, Invocation{}); err != nil {
			t.Errorf("%s\n %q %v", src, reply, err)
		}
	}
}

var deep = []string{
	`local function f() return 1 + f() end return f()`,
	`local function f() return pcall(f) end return f()`,
	`local function f() return coroutine.wrap(f)() end return f()`,
	`local function f() local ok, e = pcall(coroutine.wrap(f)) return e end return f()`,
	`local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k] end return t.x`,
	`local mt = {} mt.__tostring = function(x) return tostring(x) end return tostring(setmetatable({}, mt))`,
	`local mt = {} mt.__concat = function(a, b) return a .. b end return setmetatable({}, mt) .. 'x'`,
	`local mt = {} mt.__call = setmetatable({}, mt) return setmetatable({}, mt)()`,
	`local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)`,
	`cjson.encode_max_depth(2147483647) local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)`,
	`cjson.decode_max_depth(2147483647) return cjson.decode(('['):rep(100000))`,
	`cjson.decode_max_depth(2147483647) return cjson.decode(('{"a":'):rep(100000))`,
	`return cmsgpack.unpack(('\145'):rep(100000))`,
	`return cmsgpack.unpack(('\129\1'):rep(100000))`,
	`return loadstring(('('):rep(100000))()`,
	`return loadstring('return ' .. ('{'):rep(100000))()`,
	`return loadstring(('a='):rep(10) .. ('-'):rep(100000) .. '1')()`,
	`return string.find('x', ('(x'):rep(10000))`,
	`return string.find(('a'):rep(50000), ('a?'):rep(50000))`,
	`error(error)`,
	`local function h() error(h) end xpcall(h, h) error('end')`,
	`table.sort({1,2,3,4,5,6,7,8}, function() return true end)`,
	`string.gsub('abc', '.', function(c) return string.gsub('abc', '.', error) end)`,
}

// TestDeep holds that no depth of anything ends the process.
func TestDeep(t *testing.T) {
	rt := newTestRuntime(t, Options{Steps: 5e6})
	for _, src := range deep {
		reply, err := runErr(t, rt, src, Invocation{})
		if errors.Is(err, ErrInternal) || reply == "" {
			t.Errorf("%s\n %.80q, %v", src, reply, err)
		}
	}
	// A chain of tables this long is given back as Redis would: to a depth.
	reply, err := runErr(t, rt, `local a = {} a[1] = a return a`, Invocation{})
	if err != nil || !strings.HasSuffix(reply, "*1\r\n-ERR reached lua stack limit\r\n") {
		t.Errorf("cyclic reply: %.40q…%.60q %v", reply, reply[max(0, len(reply)-60):], err)
	}
}

// TestIsolation holds that nothing of one run is seen by the next.
func TestIsolation(t *testing.T) {
	rt := newTestRuntime(t, Options{})
	for _, leak := range []string{
		`redis.setresp(3)`,
		`cjson.encode_max_depth(1) cjson.encode_sparse_array(true) cjson.decode_invalid_numbers(false)`,
		`KEYS[5] = 'leak' ARGV.x = 'leak' setmetatable(KEYS, {__index = function() return 'leak' end})`,
		`local t = KEYS KEYS[1] = t ARGV[1] = nil`,
		`pcall(function() string.x = 1 end) pcall(rawset, _G, 'leak', 1)`,
		`coroutine.wrap(function() coroutine.yield() end)()`,
		`local function f() return 1 + f() end f()`,
		`error({})`,
		`local co = coroutine.create(function() error('x') end) coroutine.resume(co)`,
		`return coroutine.wrap(function() redis.call('nope') end)()`,
		`while true do end`,
		`local s = 'x' while true do s = s .. s end`,
	} {
		runErr(t, rt, leak, Invocation{Keys: []string{"a", "b"}, Args: []string{"c"}, Steps: 100000}) //nolint:errcheck // what it leaves counts
		got, err := runErr(t, rt, `redis.call('hset', 'h', 'a', 1)
			return {#KEYS, KEYS[1], #ARGV, tostring(KEYS[5]), tostring(ARGV.x), redis.call('hgetall', 'h'),
			tostring(string.x), tostring(rawget(_G, 'leak')), cjson.encode({{{1}}}), tostring(getmetatable(KEYS)), (pcall(cjson.encode, {[100] = 1})) and 1 or 0}`,
			Invocation{Keys: []string{"k"}})
		want := "*11\r\n:1\r\n$1\r\nk\r\n:0\r\n$3\r\nnil\r\n$3\r\nnil\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n$3\r\nnil\r\n$3\r\nnil\r\n$7\r\n[[[1]]]\r\n$3\r\nnil\r\n:0\r\n"
		if err != nil || got != want {
			t.Errorf("after %s\n got %q %v\nwant %q", leak, got, err, want)
		}
	}
}

type panicHost struct{}

func (panicHost) Call([][]byte, *Reply) { panic("broken command") }

// TestHostPanic holds that a fault of the host is an error of the run.
func TestHostPanic(t *testing.T) {
	rt := newTestRuntime(t, Options{})
	for _, src := range []string{`return redis.call('x')`, `return {pcall(redis.call, 'x')}`, `return coroutine.wrap(function() return redis.call('x') end)()`} {
		reply, err := runErr(t, rt, src, Invocation{Host: panicHost{}})
		if !errors.Is(err, ErrInternal) || !strings.HasPrefix(reply, "-ERR Error running script") {
			t.Errorf("%s: %q, %v", src, reply, err)
		}
	}
	if reply, err := runErr(t, rt, `return 1`, Invocation{}); err != nil || reply != ":1\r\n" {
		t.Errorf("after it: %q, %v", reply, err)
	}
}

// TestParallel runs one Proto on many goroutines, for the race detector.
func TestParallel(t *testing.T) {
	rt := newTestRuntime(t, Options{})
	p, err := Compile("user_script", `local t = {} for i = 1, 50 do t[i] = KEYS[1] .. i end
		redis.call('set', KEYS[1], #t) return cjson.encode({t[50], redis.call('get', KEYS[1]), string.format('%d', #t)})`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				w := &respWriter{}
				if err := rt.Run(p, Invocation{Host: newFakeHost(), Keys: []string{"k"}}, w); err != nil || !strings.Contains(string(w.b), `["k50","50","50"]`) {
					t.Errorf("%q %v", w.b, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestTotalMemory holds that the runs of one Runtime share what they may hold, that
// the one that passes it is told so, and that what a run held is free again.
func TestTotalMemory(t *testing.T) {
	rt := newTestRuntime(t, Options{Memory: 8 << 20, TotalMemory: 10 << 20})
	const holds = `local s = {} for i = 1, 6 do s[i] = ('x'):rep(2^20) .. i end redis.call('wait') return #s`
	within := make(chan struct{})
	leave := make(chan struct{})
	first := make(chan string)
	host := holdHost{newFakeHost(), nil}
	go func() {
		reply, _ := runErr(t, rt, holds, Invocation{Host: waitHost{host, within, leave}})
		first <- reply
	}()
	<-within
	reply, err := runErr(t, rt, holds, Invocation{})
	if want := "not enough memory: the scripts that run at once may hold 10485760 bytes"; err == nil || !strings.Contains(reply, want) {
		t.Errorf("the second is told %q, %v", reply, err)
	}
	if reply, err := runErr(t, rt, `return #('x'):rep(100000)`, Invocation{}); err != nil || reply != ":100000\r\n" {
		t.Errorf("a small one is told %q, %v", reply, err)
	}
	close(leave)
	if reply := <-first; reply != ":6\r\n" {
		t.Errorf("the first is told %q", reply)
	}
	if used := rt.shared.used.Load(); used != 0 {
		t.Errorf("%d bytes are taken when nothing runs", used)
	}
	quick := make(chan struct{})
	close(quick)
	if reply, _ := runErr(t, rt, holds, Invocation{Host: waitHost{host, make(chan struct{}, 1), quick}}); reply != ":6\r\n" {
		t.Errorf("the next is told %q", reply)
	}
}

// waitHost answers when it is told to.
type waitHost struct {
	Host
	within chan<- struct{}
	leave  <-chan struct{}
}

func (h waitHost) Call(args [][]byte, r *Reply) {
	h.within <- struct{}{}
	<-h.leave
	r.Status("OK")
}
