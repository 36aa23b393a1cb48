package lua

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A generator writes random programs of a small grammar. They end by their
// own: loops are counted, and there is no recursion.
type generator struct {
	r     *rand.Rand
	sb    strings.Builder
	vars  []string
	depth int
	next  int
}

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) number() string {
	return g.pick("0", "1", "2", "3", "7", "-1", "0.5", "1e3", "100", "1e15", "0x1f", "2^53", "-0", "1/0", "3.25", "123456789012345")
}

func (g *generator) str() string {
	return g.pick(`""`, `"a"`, `"abc"`, `"10"`, `" 5 "`, `"0x10"`, `"x y"`, `"a,b,c"`, `"%d"`, `"1e2"`, `"key"`, `"\0\1"`, `[[long]]`)
}

func (g *generator) variable() string {
	if len(g.vars) == 0 || g.r.IntN(12) == 0 {
		return g.pick("KEYS", "ARGV", "KEYS[1]", "ARGV[1]", "nil")
	}
	return g.vars[g.r.IntN(len(g.vars))]
}

func (g *generator) expr() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 {
		return g.pick(g.number(), g.str(), g.variable(), "true", "false", "nil")
	}
	switch g.r.IntN(16) {
	case 0, 1:
		return g.number()
	case 2:
		return g.str()
	case 3, 4, 5:
		return g.variable()
	case 6:
		return g.pick("true", "false", "nil")
	case 7, 8:
		return "(" + g.expr() + " " + g.pick("+", "-", "*", "/", "%", "^") + " " + g.expr() + ")"
	case 9:
		return "(" + g.expr() + " " + g.pick("==", "~=", "<", "<=", ">", ">=") + " " + g.expr() + ")"
	case 10:
		return "(" + g.expr() + " " + g.pick("and", "or", "..") + " " + g.expr() + ")"
	case 11:
		return g.pick("not ", "#", "-") + g.expr()
	case 12:
		return g.tableExpr()
	case 13:
		return "(" + g.variable() + ")" + g.pick(".a", ".b.c", "[1]", "["+g.expr()+"]", ":upper()", ":f(1)")
	case 14:
		return "(function(a, b, ...) " + g.pick("return a", "return b, a", "return ...", "return select('#', ...)", "local x = a; return function() x = (x or 0) + 1 return x end", "if a then return b end return a") + " end)(" + g.expr() + ", " + g.expr() + ", " + g.expr() + ")"
	}
	return g.call()
}

func (g *generator) tableExpr() string {
	var parts []string
	for range g.r.IntN(5) {
		switch g.r.IntN(4) {
		case 0:
			parts = append(parts, g.pick("a", "b", "c")+" = "+g.expr())
		case 1:
			parts = append(parts, "["+g.pick("1", "2", "3", "10", `"z"`, "true", "1.5", "-1")+"] = "+g.expr())
		default:
			parts = append(parts, g.expr())
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (g *generator) call() string {
	name := g.pick("tostring", "tonumber", "type", "math.floor", "math.max", "math.min", "math.abs", "math.fmod",
		"string.rep", "string.sub", "string.upper", "string.format", "string.find", "string.match", "string.gsub",
		"string.byte", "string.len", "string.reverse", "table.concat", "#", "select", "unpack", "rawget", "rawequal", "next", "pcall", "cjson.encode",
		"cjson.decode", "cmsgpack.pack", "cmsgpack.unpack", "bit.band", "bit.lshift", "bit.tohex", "struct.pack", "struct.unpack",
		"redis.call", "redis.pcall", "redis.sha1hex", "redis.status_reply", "table.maxn", "setmetatable", "math.modf", "math.ceil")
	arg := g.expr
	switch name {
	case "#":
		return "#" + g.tableExpr()
	case "string.rep":
		return "string.rep(" + g.expr() + ", " + g.pick("0", "1", "3", "-1", "'2'") + ")"
	case "string.format":
		return "string.format(" + g.pick(`"%d"`, `"%5.1f"`, `"%s"`, `"%q"`, `"%g"`, `"%x"`, `"%-5s|"`, `"%c"`, `"%.14g"`, `"%%"`, `"%5d"`, `"%e"`, `"%i %s"`) + ", " + arg() + ", " + arg() + ")"
	case "string.find", "string.match":
		return name + "(" + g.str() + ", " + g.pattern() + ")"
	case "string.gsub":
		return "string.gsub(" + g.str() + ", " + g.pattern() + ", " + g.pick(`"%0"`, `"x"`, `"[%1]"`, "{a=1}", "function(c) return c .. c end", `"%%"`) + ")"
	case "select":
		return "select(" + g.pick(`"#"`, "1", "2", "-1") + ", " + arg() + ", " + arg() + ")"
	case "pcall":
		return "pcall(" + g.pick("tostring", "error", "type", "math.floor", "function(x) return x.y end", "function(x) return x + 1 end", "redis.call") + ", " + arg() + ")"
	case "redis.call", "redis.pcall":
		return name + "(" + g.pick(`"get", "k"`, `"set", "k", `+arg(), `"incr", "n"`, `"echo", `+arg(), `"rpush", "l", "a"`, `"lrange", "l", 0, -1`, `"hset", "h", "f", 1`, `"hgetall", "h"`, `"nope"`, `"get"`, `"mget", "k", "n"`) + ")"
	case "struct.pack":
		return "struct.pack(" + g.pick(`"b"`, `">h"`, `"i"`, `"s"`, `"d"`, `"c2"`) + ", " + arg() + ")"
	case "struct.unpack":
		return "struct.unpack(" + g.pick(`"b"`, `">h"`, `"i"`, `"s"`, `"c2"`) + ", " + g.str() + ")"
	case "cjson.decode":
		return "cjson.decode(" + g.pick(`"[1,2,{}]"`, `'{"a":1.5,"b":null}'`, `"tru"`, `"[1"`, `"123"`, g.expr()) + ")"
	case "setmetatable":
		return "setmetatable(" + g.tableExpr() + ", {" + g.pick("__index", "__add", "__call", "__concat", "__lt", "__eq", "__len", "__unm", "__newindex", "__tostring", "__le") + " = " + g.pick("function(a, b) return 5 end", "function(a, b) return tostring(b) end", "{a=7}", "error") + "})"
	}
	args := make([]string, g.r.IntN(3)+1)
	for i := range args {
		args[i] = arg()
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func (g *generator) pattern() string {
	return g.pick(`"a"`, `"%a+"`, `"(%w)"`, `"()"`, `"^a"`, `".-"`, `"[a-c]*"`, `"%d+$"`, `"(a)(b)"`, `"%b()"`, `"x?"`, `"[^,]+"`, `"%s*"`, `"(.)%1"`, `"%f[%w]"`, `"("`, `"[a"`, `"%"`)
}

func (g *generator) fresh() string {
	g.next++
	return fmt.Sprintf("v%d", g.next)
}

func (g *generator) stmt(level int) {
	in := strings.Repeat(" ", level)
	switch k := g.r.IntN(12); {
	case k < 4 || level > 3:
		e := g.expr()
		v := g.fresh()
		if g.r.IntN(4) == 0 {
			fmt.Fprintf(&g.sb, "%slocal %s = %s\n", in, v, e)
		} else {
			fmt.Fprintf(&g.sb, "%slocal _, %s = pcall(function() return %s end)\n", in, v, e)
		}
		g.vars = append(g.vars, v)
	case k < 6:
		if len(g.vars) > 0 {
			fmt.Fprintf(&g.sb, "%s_, %s = pcall(function() return %s end)\n", in, g.vars[g.r.IntN(len(g.vars))], g.expr())
		}
	case k == 6:
		if len(g.vars) > 0 {
			fmt.Fprintf(&g.sb, "%spcall(function() %s%s = %s end)\n", in, g.vars[g.r.IntN(len(g.vars))], g.pick(".a", "[1]", "[2]", ".b", "[\"z\"]"), g.expr())
		}
	case k == 7:
		fmt.Fprintf(&g.sb, "%sif select(2, pcall(function() return %s end)) then\n", in, g.expr())
		g.block(level)
		if g.r.IntN(2) == 0 {
			fmt.Fprintf(&g.sb, "%selse\n", in)
			g.block(level)
		}
		fmt.Fprintf(&g.sb, "%send\n", in)
	case k == 8:
		v := g.fresh()
		fmt.Fprintf(&g.sb, "%sfor %s = %s, %s do\n", in, v, g.pick("1", "3", "'2'"), g.pick("3", "5", "0"))
		g.vars = append(g.vars, v)
		n := len(g.vars)
		g.block(level)
		g.vars = g.vars[:n-1]
		fmt.Fprintf(&g.sb, "%send\n", in)
	case k == 9:
		a, b := g.fresh(), g.fresh()
		fmt.Fprintf(&g.sb, "%sfor %s, %s in %s(%s) do\n", in, a, b, g.pick("pairs", "ipairs"), g.tableExpr())
		g.vars = append(g.vars, a, b)
		n := len(g.vars)
		g.block(level)
		g.vars = g.vars[:n-2]
		fmt.Fprintf(&g.sb, "%send\n", in)
	case k == 10:
		v := g.fresh()
		fmt.Fprintf(&g.sb, "%slocal %s = function(p) %s return %s end\n", in, v, g.pick("", "p = p or 1"), g.expr())
		g.vars = append(g.vars, v)
	default:
		fmt.Fprintf(&g.sb, "%slocal _ = {pcall(function() return %s end)}\n", in, g.call())
	}
}

func (g *generator) block(level int) {
	n := len(g.vars)
	for range 1 + g.r.IntN(3) {
		g.stmt(level + 1)
	}
	g.vars = g.vars[:n]
}

// program makes a script; what it returns shows its variables.
func program(seed uint64) string {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1))}
	for range 3 + g.r.IntN(8) {
		g.stmt(0)
	}
	g.sb.WriteString("local function show(v, d) if type(v) == 'table' and d < 3 then local o = {} for k, x in pairs(v) do o[#o+1] = show0 and '' or tostring(type(k) == 'table' and 'T' or k) .. '=' .. tostring(type(x) == 'table' and 'T' or type(x) == 'function' and 'F' or x) end return table.concat(o, ';') end if type(v) == 'function' then return 'F' end return v end\n")
	src := "local _\n" + strings.Replace(g.sb.String(), "show0 and '' or ", "", 1)
	vars := g.vars
	if len(vars) > 20 {
		vars = vars[:20]
	}
	out := make([]string, len(vars))
	for i, v := range vars {
		out[i] = "tostring(show(" + v + ", 0))"
	}
	return src + "return {" + strings.Join(out, ", ") + "}"
}

// unstable finds replies that name addresses, which differ by nature.
func unstable(s string) bool { return strings.Contains(s, ": 0x") }

// TestRandomPrograms runs the same random programs here and on redis-server.
func TestRandomPrograms(t *testing.T) {
	o := newOracle(t)
	rt := newTestRuntime(t, Options{})
	n := 3000
	if testing.Short() {
		n = 300
	}
	base := randtest.Seed(t)
	failures := 0
	for i := range n {
		src := program(base + uint64(i))
		got := eval(t, rt, src, false, corpusKeys, corpusArgs)
		want, err := o.eval(src, corpusKeys, corpusArgs)
		if err != nil {
			o.restart()
			continue
		}
		if got != want && !unstable(got) && !unstable(want) {
			t.Errorf("seed %d:\n%s\n got %q\nwant %q", base+uint64(i), src, got, want)
			if failures++; failures > 5 {
				return
			}
		}
	}
}
