package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// show writes calls as a list of k for a key, the text of a constant, and ? for
// anything else; "..." for more of that kind.
func show(p *Proto) string {
	calls, ok := p.Calls()
	if !ok {
		return "lost"
	}
	var all []string
	for _, c := range calls {
		var words []string
		for _, a := range c.Args {
			switch {
			case a.Key:
				words = append(words, "k")
			case a.Known:
				words = append(words, a.Text)
			default:
				words = append(words, "?")
			}
		}
		switch c.Rest {
		case RestKeys:
			words = append(words, "k...")
		case RestOther:
			words = append(words, "?...")
		case NoRest:
		}
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}

func TestCalls(t *testing.T) {
	for script, want := range map[string]string{
		"return 1":                                                                                          "",
		"return redis.call('GET', KEYS[1])":                                                                 "GET k",
		"return redis.pcall('GET', KEYS[1])":                                                                "GET k",
		"return redis['call']('GET', KEYS[#KEYS])":                                                          "GET k",
		"redis.call('SET', KEYS[1], ARGV[1], 'PX', 5)":                                                      "SET k ? PX ?",
		"local k = KEYS[1] local c = redis.call c('GET', k)":                                                "GET k",
		"local r, keys = redis, KEYS r.call('GET', keys[2])":                                                "GET k",
		"redis.call('GET', ARGV[1])":                                                                        "GET ?",
		"redis.call('GET', KEYS[1] .. ':x')":                                                                "GET ?",
		"redis.call('GET', 'x')":                                                                            "GET x",
		"redis.call(ARGV[1], KEYS[1])":                                                                      "? k",
		"redis.call('DEL', unpack(KEYS))":                                                                   "DEL k...",
		"redis.call('DEL', unpack(KEYS, 2))":                                                                "DEL k...",
		"local a, b = unpack(KEYS) redis.call('GET', b)":                                                    "GET k",
		"redis.call('SADD', KEYS[1], unpack(ARGV))":                                                         "SADD k ?...",
		"redis.call('SADD', KEYS[1], f())":                                                                  "lost",
		"redis.call('SADD', KEYS[1], ...)":                                                                  "SADD k ?...",
		"for i, k in ipairs(KEYS) do redis.call('DEL', k) end":                                              "DEL k",
		"for i, k in pairs(KEYS) do redis.call('SET', k, i) end":                                            "SET k ?",
		"for i, k in ipairs(ARGV) do redis.call('DEL', k) end":                                              "DEL ?",
		"for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i]) end":                                       "SET k ?",
		"local k = KEYS[1] if ARGV[1] then k = ARGV[1] end redis.call('GET', k)":                            "GET ?",
		"local k = KEYS[1] if ARGV[1] then k = KEYS[2] end redis.call('GET', k)":                            "GET k",
		"redis.call('GET', ARGV[1] and KEYS[1] or KEYS[2])":                                                 "GET k",
		"redis.call('GET', ARGV[1] or KEYS[1])":                                                             "GET ?",
		"local k = KEYS[1] while ARGV[1] do redis.call('GET', k) k = redis.call('GET', k) end":              "GET ?; GET ?",
		"local function f(k) return redis.call('GET', k) end return f(KEYS[1])":                             "GET ?",
		"local function f(i) return redis.call('GET', KEYS[i]) end return f(1)":                             "GET k",
		"local k = KEYS[1] local function f() k = 'x' end f() redis.call('GET', k)":                         "GET ?",
		"return pcall(function() return redis.call('GET', KEYS[1]) end)":                                    "GET k",
		"local t = redis.call('TIME') return t[1] * 1000 + #redis.call('KEYS', '*')":                        "TIME; KEYS *",
		"return cjson.encode({redis.call('GET', KEYS[1]), redis.sha1hex(KEYS[2])})":                         "GET k",
		"if redis.call('EXISTS', KEYS[1]) == 1 then return {err = 'x'} end redis.call('SET', KEYS[1], 'y')": "EXISTS k; SET k y",

		"local x, k = ARGV[1], KEYS[1] redis.call('GET', x or k)":                     "GET ?",
		"local x, k = KEYS[1], ARGV[1] redis.call('GET', x and k)":                    "GET ?",
		"local x, k = KEYS[1], KEYS[2] redis.call('GET', x or k)":                     "GET k",
		"local k local function f() k = 'x' end k = KEYS[1] f() redis.call('GET', k)": "GET ?",

		// Each of these could call a command, or change KEYS, unseen.
		"KEYS[1] = 'x' redis.call('GET', KEYS[1])":                                          "lost",
		"local k = KEYS k[1] = 'x' redis.call('GET', KEYS[1])":                              "lost",
		"local k = ARGV if ARGV[1] then k = KEYS end k[1] = 'x' redis.call('GET', KEYS[1])": "lost",
		"table.insert(KEYS, 1, 'x') redis.call('GET', KEYS[1])":                             "lost",
		"rawset(KEYS, 1, 'x') redis.call('GET', KEYS[1])":                                   "lost",
		"local t = {KEYS} t[1][1] = 'x' redis.call('GET', KEYS[1])":                         "lost",
		"local t = {k = KEYS} t.k[1] = 'x' redis.call('GET', KEYS[1])":                      "lost",
		"local k local function f() k[1] = 'x' end k = KEYS f() redis.call('GET', KEYS[1])": "lost",
		"local k = KEYS local function f() k[1] = 'x' end f() redis.call('GET', KEYS[1])":   "lost",
		"local function f() return KEYS end f()[1] = 'x' redis.call('GET', KEYS[1])":        "lost",
		"local _, k = ipairs(KEYS) k[1] = 'x' redis.call('GET', KEYS[1])":                   "lost",
		"local _, k, _ = ipairs(KEYS) k[1] = 'x' redis.call('GET', KEYS[1])":                "lost",
		"local _, k, _ = pairs(KEYS) while ARGV[1] do k[1] = 'x' end for a in k do end":     "lost",
		"local k local function f() k = KEYS end f() k[1] = 'x' redis.call('GET', KEYS[1])": "lost",
		"local r = ARGV if ARGV[1] then r = redis end r.call('GET', 'x')":                   "lost",
		"_G.redis.call('GET', 'x')":                                                         "lost",
		"_G['KEYS'][1] = 'x' redis.call('GET', KEYS[1])":                                    "lost",
		"pcall(redis.call, 'GET', 'x')":                                                     "lost",
		"local t = {c = redis.call} t.c('GET', 'x')":                                        "lost",
		"local t = {redis.call} t[1]('GET', 'x')":                                           "lost",
		"redis[ARGV[1]]('GET', 'x')":                                                        "lost",
		"for _, f in pairs(redis) do f('GET', 'x') end":                                     "lost",
		"local c = ARGV[1] and redis.call or redis.sha1hex c('GET', 'x')":                   "lost",
		"loadstring(\"redis.call('GET', 'x')\")()":                                          "lost",
		"getfenv().redis.call('GET', 'x')":                                                  "lost",
		"setmetatable({}, {__index = redis}).call('GET', 'x')":                              "lost",
		"coroutine.wrap(redis.call)('GET', 'x')":                                            "lost",
		"redis.call('GET', redis.call)":                                                     "lost",
		"table.foreach(redis, function(_, f) f('GET', 'x') end)":                            "lost",
		"string.gsub('x', 'x', redis)":                                                      "lost",
		"local c = redis.call return (function() return c('GET', 'x') end)()":               "lost",
		"return (function(c) return c('GET', 'x') end)(redis.call)":                         "lost",
		"return (function(...) return select(1, ...)('GET', 'x') end)(redis.call)":          "lost",
		"redis.call('GET', unpack({redis.call}))":                                           "lost",
		"return unpack(ARGV, redis.call)":                                                   "lost",
		"redis.call = redis.pcall redis.call('GET', KEYS[1])":                               "lost",
	} {
		p, err := Compile("x", script)
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if got := show(p); got != want {
			t.Errorf("%s\n is %q, want %q", script, got, want)
		}
	}
}

// TestCallsOfLongScripts wants an answer soon, whatever it is: half a second
// by itself, and many times that under the race detector on a busy machine.
func TestCallsOfLongScripts(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "local v%d = KEYS[1]\n", i)
	}
	b.WriteString("while ARGV[1] do\n")
	for i := range 150 {
		fmt.Fprintf(&b, "if ARGV[2] then v%d = v%d end\n", i, (i+1)%150)
	}
	b.WriteString("v7 = 'x'\nend\nredis.call('GET', v3)")
	long := strings.Repeat("redis.call('SET', KEYS[1], {"+strings.Repeat("1,", 200)+"})\n", 2000)
	for script, want := range map[string]string{b.String(): "GET ?", long: "lost"} {
		p, err := Compile("x", script)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := show(p); got != want {
			t.Errorf("%.40q… is %q, want %q", script, got, want)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("%.40q… took %v", script, d)
		}
	}
}
