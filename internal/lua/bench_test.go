package lua

import "testing"

const gcraScript = `
local now = tonumber(ARGV[1])
local interval = tonumber(ARGV[2])
local burst = tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval
local allow = new - burst * interval
if allow > now then return {0, 0, allow - now, tat - now} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000) + 1)
redis.call('PEXPIRE', KEYS[1], 60000)
return {1, math.floor((now - allow) / interval), -1, new - now}`

// stubHost answers at once: what is measured is Lua.
type stubHost struct{}

func (stubHost) Call(args [][]byte, r *Reply) {
	switch string(args[0]) {
	case "GET":
		r.BulkString("1732147200123456")
	case "SET":
		r.Status("OK")
	default:
		r.Int(1)
	}
}

// discard is a Writer that keeps nothing.
type discard struct{}

func (discard) Null()                   {}
func (discard) NullArray()              {}
func (discard) Int(int64)               {}
func (discard) Bulk([]byte)             {}
func (discard) BulkString(string)       {}
func (discard) Status(string)           {}
func (discard) Error(s string)          { panic(s) }
func (discard) Double(float64)          {}
func (discard) Bool(bool)               {}
func (discard) BigNumber(string)        {}
func (discard) Verbatim(string, string) {}
func (discard) Array(int)               {}
func (discard) Set(int)                 {}
func (discard) Map(int)                 {}

// benchScripts are run here. bench/lua.go runs most of them on other interpreters too.
var benchScripts = []struct{ name, src string }{
	{"gcra", gcraScript},
	{"return", `return 1`},
	{"arith", `local s = 0 for i = 1, 1000 do s = s + i % 7 * 2 - i / 3 end return s`},
	{"fib", `local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib(15)`},
	{"concat", `local s = '' for i = 1, 100 do s = s .. i .. ',' end return #s`},
	{"table", `local t = {} for i = 1, 100 do t[#t+1] = i * 2 end local s = 0 for _, v in ipairs(t) do s = s + v end for k, v in pairs({a=1,b=2,c=3}) do s = s + v end return s`},
	{"fields", `local t = {x=1,y=2} for i = 1, 500 do t.x = t.x + t.y end return t.x`},
	{"cjson", `local t = cjson.decode('{"id":17,"name":"widget","tags":["a","b","c"],"price":12.5}') t.id = t.id + 1 return cjson.encode(t)`},
	{"match", `local n = 0 for k, v in string.gmatch('a=1,b=2,c=3,d=4', '(%w+)=(%w+)') do n = n + v end return n`},
}

func BenchmarkRun(b *testing.B) {
	for _, bm := range benchScripts {
		b.Run(bm.name, func(b *testing.B) {
			rt := newTestRuntime(b, Options{})
			p, err := Compile("user_script", bm.src)
			if err != nil {
				b.Fatal(err)
			}
			inv := Invocation{Host: stubHost{}, Keys: []string{"limit:42"}, Args: []string{"1732147200123456", "100000", "10"}}
			b.ReportAllocs()
			for b.Loop() {
				if err := rt.Run(p, inv, discard{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("user_script", gcraScript); err != nil {
			b.Fatal(err)
		}
	}
}
