package engine

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

const exampleLibrary = `#!lua name=mylib
local n = 0
redis.register_function("inc", function(keys, args) n = n + 1; return {n, #keys, args[1], keys[1]} end)
redis.register_function{function_name="ro", description="a desc", callback=function(keys, args) return redis.call("GET", keys[1]) end, flags={"no-writes", "allow-oom"}}
redis.register_function("w", function(keys, args) redis.call("SET", keys[1], args[1]); return redis.status_reply("done") end)
redis.register_function("err", function(keys, args) return foo.bar end)
redis.register_function("err2", function(keys, args) return redis.call("LPUSH", keys[1]) end)
redis.register_function("err3", function(keys, args) error({err="MY error"}) end)
redis.register_function("err4", function(keys, args) error("text") end)
redis.register_function("keys", function(keys, args) return KEYS end)
redis.register_function("set", function(keys, args) x = 1 end)
redis.register_function("reg", function(keys, args) redis.register_function("y", function() end) end)
redis.register_function("resp", function(keys, args) redis.setresp(3); return redis.call("HGETALL", keys[1]) end)
redis.register_function("math", function(keys, args) return math.floor(7 / 2) .. cjson.encode(args) end)
`

// A library's code with a first line and what follows.
func lib(body string) string { return "#!lua name=ab\n" + body }

// FUNCTION and FCALL answer as on redis-server.
func TestFunctionsAsInRedis(t *testing.T) {
	register := func(args string) string { return lib("redis.register_function" + args) }
	none := ", function() end)"
	for _, proto := range []resp.Protocol{resp.RESP2, resp.RESP3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, proto)
			do := func(args ...string) {
				var command [][]byte
				for _, a := range args {
					command = append(command, []byte(a))
				}
				p.do(command)
			}
			do("FUNCTION", "FLUSH")
			do("FUNCTION", "STATS")
			do("FUNCTION", "LOAD", exampleLibrary)
			for _, line := range []string{
				"FCALL inc 1 k a", "FCALL INC 0", "FCALL inc 0 b", "FCALL w 1 k v", "FCALL ro 1 k", "FCALL_RO ro 1 k", "FCALL_RO w 1 k v",
				"FCALL err 1 k", "FCALL err2 1 k", "FCALL err3 1 k", "FCALL err4 1 k", "FCALL keys 1 k", "FCALL set 1 k", "FCALL reg 1 k", "FCALL nope 1 k",
				"HSET h a 1", "FCALL resp 1 h", "FCALL math 0 a b", "FCALL inc x", "FCALL inc 5 a", "FCALL inc -1", "FCALL inc", "FCALL_RO inc 0",
				"FUNCTION LIST LIBRARYNAME", "FUNCTION LIST foo", "FUNCTION LIST WITHCODE WITHCODE", "FUNCTION LIST LIBRARYNAME no*", "FUNCTION STATS", "FUNCTION KILL", "SCRIPT KILL",
				"FUNCTION DELETE nope", "FUNCTION FLUSH foo", "FUNCTION FLUSH sync x", "FUNCTION RESTORE x", "FUNCTION RESTORE x y", "FUNCTION RESTORE x y z", "FUNCTION HELP", "FUNCTION", "FUNCTION nope",
				"MULTI", "FCALL inc 0", "FUNCTION STATS", "FUNCTION DELETE mylib", "FCALL inc 0", "EXEC", "FUNCTION LIST",
				"COMMAND GETKEYS FCALL inc 2 a b c",
			} {
				p.do(split(line))
			}
			do("FUNCTION", "LOAD", register(`{function_name="one", description="d", callback=function() return 1 end, flags={"allow-oom", "no-writes"}}`))
			do("FUNCTION", "LIST")
			do("FUNCTION", "LIST", "LIBRARYNAME", "A*", "WITHCODE")
			for _, code := range []string{
				"x", "#!lua name=a", "#!lua foo=a\nx", "#!lua\nx", "#!js name=a\nx", "#!LUA name=a\nx", "#!lua name=a-b\nx", "#!lua name=a name=b\nx", "#!lua name=\nx", "#!lua name=\"q\nx", "#!lua name=é\nx",
				lib("x x"), lib("return 1"), lib("return redis.call('PING')"), lib("return math.random()"), lib("y = 1"), lib("local a = KEYS"), lib("error('x')"), lib("error({err='y'})"),
				register(`("a")`), register(`("a-b"` + none), register(`("one"` + none), register(`("ONE"` + none), register(`("a", 1)`), register(`({}` + none), register("(1" + none), register("(1, 2, 3)"), register("()"), register("(1)"),
				register(`("a"` + none + ` redis.register_function("a"` + none), register(`{function_name="a", callback=function() end, flags={"foo"}}`), register(`{function_name="a", callback=function() end, flags={1}}`),
				register(`{function_name="a", callback=function() end, flags=1}`), register(`{function_name="a", callback=1}`), register(`{function_name={}, callback=1}`), register(`{function_name="a"}`), register(`{callback=function() end}`),
				register("{bad=1}"), register("{function() end}"), register(`{FUNCTION_NAME="up", Callback=function() end, FLAGS={"NO-WRITES"}}`), register(`{function_name="a", description={}, callback=function() end}`),
				"#!lua name=\"quoted\"\nredis.register_function('quoted', function() return 1 end)", "#!lua NAME=upper\nredis.register_function('upper', function() return 1 end)",
				lib("while true do end"),
			} {
				do("FUNCTION", "LOAD", code)
				do("FUNCTION", "LOAD", "REPLACE", code)
			}
			do("FUNCTION", "LOAD", "REPLACE", "FOO", lib("x"))
			do("FUNCTION", "STATS")
			do("FCALL", "quoted", "0")
		})
	}
}

// Each library keeps its variables, from FCALL to FCALL, until it is replaced.
func TestLibraryKeepsItsVariables(t *testing.T) {
	s := open(t, Options{}).Session()
	load := func(step int) {
		t.Helper()
		reply, _ := s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), []byte(lib(fmt.Sprintf(
			`local n, kept = 0, {} redis.register_function("inc", function(keys, args) n = n + %d; kept[#kept + 1] = {keys[1], args[1]}; return {n, kept[1][1], kept[1][2]} end)`, step)))})
		if string(reply) != "$2\r\nab\r\n" {
			t.Fatalf("%q", reply)
		}
	}
	load(1)
	want(t, s, "FCALL inc 1 first a", "*3\r\n:1\r\n$5\r\nfirst\r\n$1\r\na\r\n")
	want(t, s, "FCALL inc 1 other b", "*3\r\n:2\r\n$5\r\nfirst\r\n$1\r\na\r\n")
	load(10)
	want(t, s, "FCALL inc 1 k c", "*3\r\n:10\r\n$1\r\nk\r\n$1\r\nc\r\n")
}

// Calls of functions run one at a time, also with StrictKeys, where they hold the shards of their keys alone.
func TestFunctionsShareVariables(t *testing.T) {
	for _, strict := range []bool{false, true} {
		e := open(t, Options{StrictKeys: strict})
		s := e.Session()
		s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(lib(`local n = 0 redis.register_function("inc", function(keys) n = n + 1; redis.call("SET", keys[1], n); return n end)`))})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				s := e.Session()
				for range 200 {
					run(s, fmt.Sprint("FCALL inc 1 k", w))
				}
			})
		}
		wg.Wait()
		want(t, s, "FCALL inc 1 k", ":801\r\n")
	}
}

// Libraries, and what their functions wrote, are there after a restart and after a compaction.
//
// Promise: The log has the libraries of FUNCTION LOAD.
func TestFunctionsAreSaved(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir, Fsync: aof.Always})
	load := func(name string) {
		t.Helper()
		code := fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function(keys) return redis.call('INCR', keys[1]) end)", name, name)
		if reply, _ := e.Session().Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(code)}); bytes.HasPrefix(reply, []byte("-")) {
			t.Fatalf("%s: %q", name, reply)
		}
	}
	reopen := func() {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = open(t, Options{Dir: dir, Fsync: aof.Always})
	}
	for _, name := range []string{"stays", "goes", "compacted"} {
		load(name)
	}
	want(t, e.Session(), "FCALL stays 1 k", ":1\r\n")
	want(t, e.Session(), "FUNCTION DELETE goes", "+OK\r\n")
	reopen()
	want(t, e.Session(), "FCALL stays 1 k", ":2\r\n")
	want(t, e.Session(), "FCALL goes 1 k", "-ERR Function not found\r\n")
	if err := e.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	load("later")
	reopen()
	for i, name := range []string{"stays", "compacted", "later"} {
		want(t, e.Session(), "FCALL "+name+" 1 k", fmt.Sprintf(":%d\r\n", 3+i))
	}
	want(t, e.Session(), "FUNCTION FLUSH", "+OK\r\n")
	reopen()
	want(t, e.Session(), "FUNCTION LIST", "*0\r\n")
}

// FUNCTION KILL ends a function that has written nothing; SCRIPT KILL doesn't, and other commands are told.
func TestFunctionKill(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	want(t, s, "CONFIG SET busy-reply-threshold 1", "+OK\r\n")
	s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(lib(`redis.register_function("loop", function() while true do end end)`))})
	ended := make(chan string)
	go func() { ended <- run(e.Session(), "FCALL loop 0 a") }()
	eventually(t, "the function is slow", func() bool { return strings.HasPrefix(run(s, "GET k"), "-BUSY") })
	want(t, s, "GET k", "-"+busyFunction+"\r\n")
	if got := run(s, "FUNCTION STATS"); !strings.Contains(got, "$4\r\nname\r\n$4\r\nloop\r\n$7\r\ncommand\r\n*4\r\n$5\r\nFCALL\r\n$4\r\nloop\r\n$1\r\n0\r\n$1\r\na\r\n") {
		t.Errorf("FUNCTION STATS: %q", got)
	}
	want(t, s, "SCRIPT KILL", "-"+busyFunction+"\r\n")
	want(t, s, "FUNCTION KILL", "+OK\r\n")
	select {
	case got := <-ended:
		if got != "-ERR Script killed by user with SCRIPT KILL... script: loop, on @user_function:2.\r\n" {
			t.Errorf("the function: %q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the function goes on")
	}
	want(t, s, "FUNCTION KILL", "-NOTBUSY No scripts in execution right now.\r\n")
}

// A function that is not slow yet is shown and can be killed: the commands that ask for it don't wait for it.
func TestFunctionKillBeforeSlow(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	want(t, s, "CONFIG SET busy-reply-threshold 0", "+OK\r\n") // no run is ever slow
	s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(lib(`redis.register_function("loop", function() while true do end end)`))})
	ended := make(chan string, 1)
	go func() { ended <- run(e.Session(), "FCALL loop 0") }()
	eventually(t, "the function is shown", func() bool { return strings.Contains(run(s, "FUNCTION STATS"), "$4\r\nloop\r\n") })
	eventually(t, "the function can be killed", func() bool { return run(s, "FUNCTION KILL") == "+OK\r\n" })
	begins(t, <-ended, "-ERR Script killed by user")
}

// The variables of a library count as memory of scripts, so that no library takes all memory.
func TestLibraryMemoryIsBounded(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(lib(
		`local kept = {} redis.register_function("keep", function() kept[#kept + 1] = string.rep("x", 1000000); return #kept end) redis.register_function("drop", function() kept = {} end)
		local more = {} redis.register_function("more", function() more[#more + 1] = string.rep("x", 1000000) end)`))})
	reply := ""
	for range 200 {
		if reply = run(s, "FCALL keep 0"); reply[0] == '-' {
			break
		}
	}
	if !strings.HasPrefix(reply, "-ERR not enough memory") {
		t.Fatalf("the library holds 200 MB: %q", reply)
	}
	for i := 0; !strings.HasPrefix(run(s, "FCALL more 0"), "-ERR not enough memory"); i++ {
		if i == 10 {
			t.Fatal("another function has memory of its own")
		}
	}
	held := e.lua.Held()
	if held < 32<<20 {
		t.Errorf("the library holds %d bytes, as the engine counts them", held)
	}
	want(t, s, "FCALL drop 0", "$-1\r\n")
	want(t, s, "FCALL keep 0", ":1\r\n")
	want(t, s, "FUNCTION FLUSH", "+OK\r\n")
	if held := e.lua.Held(); held != 0 {
		t.Errorf("without libraries %d bytes are held", held)
	}
}

// No client fills the memory with libraries: their number, functions, names and descriptions are bounded, and memory
// that a call needed for a while is given back.
func TestLibrariesAreBounded(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	load := func(name, body string) string {
		reply, _ := s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), []byte("#!lua name=" + name + "\n" + body)})
		return string(reply)
	}
	const registering = "-ERR Error registering functions: ERR "
	for body, want := range map[string]string{
		`local d = "x" for i = 1, 17 do d = d .. d end redis.register_function{function_name="a", description=d, callback=redis.log}`: registering + "a function's description has at most 65536 bytes\r\n",
		`local n = "x" for i = 1, 10 do n = n .. n end redis.register_function(n, redis.log)`:                                         registering + "a function's name has at most 512 bytes\r\n",
		`local n = "x" for i = 1, 10 do n = n .. n end redis.register_function{function_name=n, callback=redis.log}`:                  registering + "a function's name has at most 512 bytes\r\n",
		`for i = 1, 1001 do redis.register_function("f" .. i, redis.log) end`:                                                         registering + "a library has at most 1000 functions\r\n",
	} {
		if got := load("a", body); got != want {
			t.Errorf("%.60s: %.200q", body, got)
		}
	}
	want(t, s, "FUNCTION LIST", "*0\r\n")
	if held := e.lua.Held(); held != 0 {
		t.Errorf("libraries that were refused hold %d bytes", held)
	}

	load("a", `local d = "x" for i = 1, 16 do d = d .. d end for i = 1, 1000 do redis.register_function{function_name="f" .. i, description=d, callback=redis.log} end`)
	if held := e.lua.Held(); held < 60<<20 || held > 70<<20 {
		t.Errorf("64 MiB of descriptions hold %d bytes", held)
	}
	load("a", `redis.register_function("peak", function() return #string.rep("x", 30000000) end)`)
	want(t, s, "FCALL peak 0", ":30000000\r\n")
	if held := e.lua.Held(); held > 1<<20 {
		t.Errorf("after the call %d bytes are held", held)
	}
	for i := 1; i < mostLibraries; i++ {
		name := fmt.Sprint("l", i)
		if got := load(name, "redis.register_function('"+name+"', redis.log)"); got[0] == '-' {
			t.Fatalf("library %d: %q", i, got)
		}
	}
	if got := load("more", "redis.register_function('more', redis.log)"); got != "-ERR there are 1000 libraries already: FUNCTION DELETE some\r\n" {
		t.Errorf("one more: %q", got)
	}
	if got := load("l1", "redis.register_function('other', redis.log)"); got != "$2\r\nl1\r\n" {
		t.Errorf("in place of one: %q", got)
	}
	if held := e.lua.Held(); held > 200<<20 {
		t.Errorf("%d libraries hold %d bytes, so that scripts have none", mostLibraries, held)
	}
	want(t, s, "EVAL return(#string.rep('x',20000000)) 0", ":20000000\r\n")
}

// A library goes on after one of its functions was killed: what ran is dead.
func TestLibraryAfterAKill(t *testing.T) {
	e := open(t, Options{ScriptTimeout: 50 * time.Millisecond})
	s := e.Session()
	s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte(lib(`local co, get
		redis.register_function("loop", function() local v = 7 get = function() return v end co = coroutine.create(function() while true do end end) coroutine.resume(co) end)
		redis.register_function("look", function() return {get(), coroutine.status(co), tostring(coroutine.resume(co))} end)`))})
	if got := run(s, "FCALL loop 0"); !strings.HasPrefix(got, "-ERR script exceeded its time limit script: loop, on @user_function:") {
		t.Fatalf("%q", got)
	}
	want(t, s, "FCALL look 0", "*3\r\n:7\r\n$4\r\ndead\r\n$5\r\nfalse\r\n")
}

// One FUNCTION RESTORE holds up the other commands no longer than one FUNCTION LOAD may, however many libraries it has.
func TestRestoreHasOneDeadline(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	do := func(args ...string) (string, time.Duration) {
		var command [][]byte
		for _, a := range args {
			command = append(command, []byte(a))
		}
		began := time.Now()
		reply, _ := s.Do(nil, command)
		return string(reply), time.Since(began)
	}
	slow := func(name string, turns int) string {
		return fmt.Sprintf("#!lua name=%s\nfor i = 1, %d do end redis.register_function('%s', redis.log)", name, turns, name)
	}
	turns := 1 << 16 // of a library that takes a fifth of the time
	for {
		quickest := loadTimeout
		for range 5 { // one alone may have waited for a processor
			_, took := do("FUNCTION", "LOAD", "REPLACE", slow("one", turns))
			quickest = min(quickest, took)
		}
		if quickest > loadTimeout/10 {
			break
		}
		turns *= 2
	}
	var code []string
	for i := range 40 {
		code = append(code, slow(fmt.Sprint("l", i), turns))
	}
	if reply, _ := do("FUNCTION", "RESTORE", string(rdb.Functions(nil, code))); reply != "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n" {
		t.Errorf("%d libraries: %q", len(code), reply)
	}
	if got := run(s, "FUNCTION STATS"); !strings.Contains(got, "libraries_count\r\n:1\r\n") {
		t.Errorf("after it: %q", got)
	}
}

// A library is replaced and deleted while others call its function, with StrictKeys too: each call is that of one or
// the other, or finds none.
func TestFunctionsAreReplacedUnderCalls(t *testing.T) {
	for _, strict := range []bool{false, true} {
		e := open(t, Options{StrictKeys: strict})
		load := func(s *Session, n int) {
			s.Do(nil, [][]byte{[]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), []byte(lib(fmt.Sprintf(`local kept = string.rep("x", 100000) redis.register_function("f", function() kept = string.rep("y", 400000 + %d); return 7 end)`, n)))})
		}
		load(e.Session(), 0)
		var wg sync.WaitGroup
		replacing, over := context.WithCancel(t.Context())
		for _, call := range []string{"FCALL f 0", "FCALL f 1 k", "FCALL f 1 other"} {
			wg.Go(func() {
				s := e.Session()
				for replacing.Err() == nil {
					if got := run(s, call); got != ":7\r\n" && got != "-ERR Function not found\r\n" {
						t.Errorf("%s: %q", call, got)
					}
				}
			})
		}
		s := e.Session()
		for i := range 30 {
			load(s, i)
			if i%10 == 9 {
				run(s, "FUNCTION DELETE ab")
			}
		}
		over()
		wg.Wait()
		run(s, "FUNCTION FLUSH")
		if held := e.lua.Held(); held != 0 {
			t.Errorf("StrictKeys %v: without libraries %d bytes are held", strict, held)
		}
	}
}
