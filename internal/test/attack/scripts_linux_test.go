package attack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// hungry are scripts that try to hold more memory than is counted. KEYS[1] is a
// string of 20 MB.
var hungry = []string{
	"local t={} for i=1,80 do local b=string.rep('x',30*1024*1024) t[i]=b:sub(1,1) end return #t",
	"local t={} for i=1,80 do local b=string.rep('x',30*1024*1024) t[i]=b:match('^x') end return #t",
	"local t={} for i=1,80 do for w in string.rep('x ',15*1024*1024):gmatch('x') do t[i]=w break end end return #t",
	"local t={} for i=1,100 do t[i]=redis.call('GET',KEYS[1]):sub(7,9) end return #t",
	"local t={} for i=1,100 do t[i]=redis.call('GETRANGE',KEYS[1],0,-1) end return #t",
	"local t={} local s=string.rep('a=1 ',200000) for i=1,1000 do t[i]=loadstring(s) end return #t",
	"local t={} for i=1,10000000 do t[i]=loadstring('local a='..i..' return a') end return #t",
	"local s='x' while true do s=s..s end",
	"local t={} for i=1,1000 do t[i]=string.rep('x',1024*1024) end return table.concat(t)",
	"local t={} for i=1,1e9 do t[i]={i} end",
	"local t={} for i=1,1e9 do t['k'..i]=i end",
	"local t={} for i=1,1e9 do t[i]=function() return i end end",
	"local t={} for i=1,1e9 do t[i]=coroutine.create(function() coroutine.yield(1) end) coroutine.resume(t[i]) end",
	"local s='' for i=1,100000 do s=s..string.format('%99d',i) end return string.gsub(s,'.','%0%0%0%0%0%0%0%0')",
	"return string.rep('x',2147483647)",
	"return string.rep('',1e18,'')",
	"return cjson.decode(string.rep('[',30*1024*1024))",
	"return #cjson.decode('['..string.rep('[],',10*1024*1024)..'1]')",
	"local t={} for i=1,1e6 do t[i]=i end for i=1,1000 do t[i]=cjson.encode(t) end return 1",
	"local t={} for i=1,1e6 do t[i]=i end for i=1,1000 do t[i]=cmsgpack.pack(t) end return 1",
	"return #{cmsgpack.unpack(string.rep('\\144',30*1024*1024))}",
	"local b=string.rep('x',10*1024*1024) local t={} for i=1,100 do t[i]=b end return t",
	"local b=string.rep('x',30*1024*1024) local t={} for i=1,1000 do pcall(error,b..i) end error(b)",
	"local t={} for i=1,200 do t[i]=string.char(unpack({string.byte(string.rep('x',7000),1,-1)})) end return redis.sha1hex(table.concat(t))",
	"local function f(n) return n==0 and 0 or 1+f(n-1) end return f(1e9)",
	"local t={} for i=1,100 do t[i]=string.reverse(string.upper(string.rep('x',9*1024*1024))):sub(1,1) end return #t",
	"return {string.byte(string.rep('x',50*1024*1024),1,-1)}",
	"local t=setmetatable({},{__index=function(t,k) return t[k+1] end}) return t[1]",
	// Nothing kills a script that has written, so this one must end by itself before victims give up.
	"for i=1,100 do redis.call('SET',KEYS[1],string.rep('x',20*1024*1024)) end return 1",
}

// hastens sets the time after which a script can be killed, and others are told BUSY.
func (r *round) hastens() {
	c := r.caller()
	defer c.close()
	_, _ = c.do(patience, "CONFIG", "SET", "lua-time-limit", "50") // The attack goes on with 5 s otherwise.
}

// eatsMemory runs hungry scripts, several at once.
func eatsMemory(ctx context.Context, rng *rand.Rand, on *round) {
	on.hastens()
	order := rng.Perm(len(hungry))
	next := make(chan string)
	go func() {
		defer close(next)
		for _, i := range order {
			next <- hungry[i]
		}
	}()
	each(rng, 6, func(i int, _ *rand.Rand) {
		c := on.caller()
		defer c.close()
		key := fmt.Sprintf("attack:{%d}", i)
		_, _ = c.do(patience, "SET", key, strings.Repeat("x", 20<<20)) // Any reply will do.
		for script := range next {
			if ctx.Err() != nil {
				continue
			}
			// A script of this kind may hold everybody up, so it gets a part of a second.
			over := time.AfterFunc(500*time.Millisecond, on.killScripts)
			_, _ = c.do(patience, "EVAL", script, "1", key) // Only the memory counts.
			over.Stop()
		}
	})
}

// manyAtOnce runs sixty scripts that each stay below the limit of one.
func manyAtOnce(ctx context.Context, rng *rand.Rand, on *round) {
	each(rng, 60, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		mib := 30 + rng.IntN(25)
		// Its key is in KEYS and its code names no other, so it runs beside the others.
		script := fmt.Sprintf("local b=string.rep('x',%d*1024*1024) redis.call('GET',KEYS[1]) for i=1,2e7 do end return #b", mib)
		if ctx.Err() == nil {
			_, _ = c.do(patience, "EVAL", script, "1", fmt.Sprintf("attack:{%d}", i)) // An error is an answer.
		}
	})
}

// endless are scripts that don't come to an end by themselves, most of the time
// inside one native function.
var endless = []string{
	"local n=8e6 return string.find(string.rep('a',n),'['..string.rep('b',n)..'a]*$')",
	"return string.find(string.rep('x',30*1024*1024),'%bxy')",
	"return string.find(string.rep('a',60000),'.-.-.-.-.-b')",
	"return string.find(string.rep('a',30e6),'^(a*)*b') or string.find(string.rep('a',1e5),('a?'):rep(200)..('a'):rep(200)..'b')",
	"local s=string.rep('a',10e6) while true do string.gsub(s,'a','b') end",
	"local s=string.rep('a',20e6) while true do for w in string.gmatch(s,'ab') do end end",
	"local s=string.rep('a',20e6) while true do string.find(s,string.rep('a',5e6)..'b',1,true) end",
	"local s=string.rep('a=1 ',200000) while true do loadstring(s) end",
	"local s=string.rep('x',40e6) while true do redis.sha1hex(s) end",
	"local s=string.rep(' ',30e6) while true do pcall(cjson.decode,s) end",
	"local s='['..string.rep('1,',100000)..'1]' while true do cjson.decode(s) end",
	"local t={} for i=1,200000 do t[i]=i end while true do cjson.encode(t) end",
	"local t={} for i=1,200000 do t[i]=i end while true do cmsgpack.unpack(cmsgpack.pack(t)) end",
	"local t={} for i=1,500000 do t[i]=i%7 end while true do table.sort(t) end",
	"local t={} for i=1,500000 do t[i]=i end while true do pcall(table.sort,t,function(a,b) return true end) end",
	"local t={} for i=1,500000 do t[i]='xxxxxxxxxx' end while true do table.concat(t) end",
	"local t={} for i=1,500000 do t[i]=i end while true do table.insert(t,1,1) table.remove(t,1) end",
	"local t={} for i=1,1e6 do t[i]=1 end while true do local n=#t t[n+1]=1 unpack(t,1,7000) end",
	"local t={} for i=1,1e6 do t[i*4294967296]=i end while true do t={} for i=1,1e6 do t[i*4294967296]=i end end",
	"local t={} for i=1,500000 do t[i]=1 end for i=1,500000 do t[i]=nil end while true do next(t) end",
	"local s=string.rep('x',30e6) while true do string.reverse(s) string.upper(s) end",
	"local a,b=string.rep('x',20e6)..'a',string.rep('x',20e6)..'b' while true do local c=a<b c=a==b end",
	"local a=string.rep('x',10e6) while true do local b=a..'y' end",
	"local s=string.rep('x',20e6) local t={} while true do t[s..'1']=1 t={} end",
	"local s=string.rep('9',2000000) while true do tonumber(s) tostring(1e300) end",
	"while true do pcall(function() while true do end end) end",
	"while true do pcall(error,{}) end",
	"coroutine.wrap(function() while true do end end)()",
	"while true do coroutine.wrap(function() coroutine.yield() end)() end",
	"while true do redis.pcall('GET',KEYS[1]) end",
	"local t=setmetatable({},{__index=function() while true do end end}) return t.x",
	"local function f() return f() end return f()",
	"while true do string.format('%99.99f',1e300) bit.tohex(1) end",
	"while true do struct.pack('>I2I4d',1,2,3) end",
	"repeat until false",
}

// neverEnds starts endless scripts, one after the other, and stops each by SCRIPT
// KILL.
func neverEnds(ctx context.Context, rng *rand.Rand, on *round) {
	on.hastens()
	for _, i := range rng.Perm(len(endless)) {
		if ctx.Err() != nil || on.failed() {
			return
		}
		on.killsOne(ctx, rng, endless[i])
	}
}

// stopWithin is how long a script may go on once it is told to stop. The
// promise is 100 ms of a machine's own time; this is for a busy machine.
const stopWithin = 5 * time.Second

func (r *round) killsOne(ctx context.Context, rng *rand.Rand, script string) {
	w, killer := r.dial(), r.dial()
	if w == nil || killer == nil {
		return
	}
	defer w.Close()
	defer killer.Close()
	args := []string{"EVAL", script, "0"}
	if rng.IntN(2) == 0 {
		args = []string{"EVAL", script, "1", apart(rng)}
	}
	if w.raw(resp.AppendCommand(nil, args...)) != nil {
		return
	}
	answer := make(chan string, 1)
	go func() {
		v, err := w.reply()
		answer <- fmt.Sprint(v, err)
	}()
	began := time.Now()
	var told time.Time
	for {
		select {
		case got := <-answer:
			if !told.IsZero() {
				r.took(time.Since(told))
			}
			if d := time.Since(told); !told.IsZero() && d > stopWithin && ctx.Err() == nil {
				r.fault("%q went on for %v after SCRIPT KILL and answered %s", script, d, short(got, 100))
			}
			return
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Millisecond):
		}
		// It has a moment to get to where it stays.
		if told.IsZero() && time.Since(began) > 100*time.Millisecond {
			killer.waits(stopWithin)
			v, err := killer.do("SCRIPT", "KILL")
			switch {
			case err != nil && ctx.Err() == nil && r.running():
				r.fault("SCRIPT KILL of %q: %v", script, err)
				return
			case v == "OK":
				told = time.Now()
				w.waits(2 * stopWithin)
			}
		}
	}
}

// killScripts sends SCRIPT KILL.
func (r *round) killScripts() {
	if w := r.dial(); w != nil {
		defer w.Close()
		_, _ = w.do("SCRIPT", "KILL") // NOTBUSY is fine.
	}
}

// apart returns a key whose shard of the engine no victim uses, so that a script on
// it holds none of them up.
func apart(rng *rand.Rand) string {
	const shards = 256
	used := map[uint16]bool{}
	for name := range ordinary {
		used[keyslot.Of([]byte(tag(name)))%shards] = true
	}
	used[keyslot.Of([]byte("victims"))%shards] = true
	for {
		if key := fmt.Sprintf("attack:%d", rng.Uint32()); !used[keyslot.Of([]byte(key))%shards] {
			return key
		}
	}
}

// leftAlone starts endless scripts on keys of their own and stops none: others go
// on, and SIGTERM ends the process. Scripts with loadstring lock all keys, since
// their text doesn't tell which they use.
func leftAlone(ctx context.Context, rng *rand.Rand, on *round) {
	on.hastens()
	parallel := slices.DeleteFunc(slices.Clone(endless), func(s string) bool { return strings.Contains(s, "loadstring") })
	each(rng, 3, func(_ int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		if ctx.Err() == nil {
			_, _ = c.do(time.Second, "EVAL", parallel[rng.IntN(len(parallel))], "1", apart(rng)) // It is still running.
		}
	})
	for range 3 {
		on.killScripts()
	}
}

// compileBombs are the sources of scripts that are slow, or deep, to compile.
func compileBombs(rng *rand.Rand) []string {
	n := 100000 + rng.IntN(200000)
	rep := func(before, s, after string) string { return before + strings.Repeat(s, n) + after }
	return []string{
		rep("local a while true do ", "if a then break end ", " break end"),
		"return " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"return " + strings.Repeat("{", n) + strings.Repeat("}", n),
		strings.Repeat("return function() ", n) + strings.Repeat("end ", n),
		strings.Repeat("if a then ", n) + strings.Repeat("end ", n),
		rep("local a='x' return a", "..a", ""),
		rep("local a=1 return a", "+a", ""),
		rep("local a return a", " or a", ""),
		rep("local a return not (a", " and a", ")"),
		rep("return ", "not ", "1"),
		rep("return ", "- ", "1"),
		rep("local a = {", "1,", "}"),
		rep("local a = {", "[1]=2,", "}"),
		rep("", "local a ", ""),
		rep("local a", ",a", ""),
		rep("a=", "f(", ""),
		rep("a", ".b", "=1"),
		rep("a", "()", ""),
		rep("return '", "\\065", "'"),
		rep("--[==[", "]=]", ""),
		rep("return [=[", "]]", "]=]"),
		rep("repeat ", "local a = function() return a end ", "until true"),
		rep("for i=1,1 do ", "local function f() return i end ", "end"),
		rep("return ", "1e", ""),
		rep("", "goto x ", ""),
	}
}

func compiles(ctx context.Context, rng *rand.Rand, on *round) {
	sources := compileBombs(rng)
	each(rng, 3, func(i int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		for k := i; k < len(sources) && ctx.Err() == nil; k += 3 {
			args := []string{"SCRIPT", "LOAD", sources[k]}
			switch rng.IntN(3) {
			case 0:
				args = []string{"EVAL", "return loadstring(ARGV[1]) and 1", "0", sources[k]}
			case 1:
				args = []string{"EVAL", "if true then return 1 end " + sources[k], "0"}
			}
			if _, err := c.do(patience, args...); errors.Is(err, os.ErrDeadlineExceeded) {
				on.fault("%s: no reply within %v", args[0], patience)
			}
		}
	})
}

// fillsScripts loads many scripts, to fill what keeps them.
func fillsScripts(ctx context.Context, rng *rand.Rand, on *round) {
	each(rng, 4, func(_ int, rng *rand.Rand) {
		c := on.caller()
		defer c.close()
		for range 25 {
			text := fmt.Sprintf("do return %d end %s", rng.Uint32(), strings.Repeat("a=1 ", 1+rng.IntN(200000)))
			args := []string{"SCRIPT", "LOAD", text}
			if rng.IntN(2) == 0 {
				args = []string{"EVAL", text, "0"}
			}
			if _, err := c.do(patience, args...); err != nil || ctx.Err() != nil {
				return
			}
		}
	})
}
