package redoubt_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/lua"
	"github.com/redoubt-go/redoubt/internal/luafile"
)

// The rules of scripts. They hold what a test run can miss: a script that is
// right on one Lua and wrong on another, a global that outlives the call, a
// header that says what isn't so.

func TestScriptsFollowTheRules(t *testing.T) {
	scripts := sources(t, ".lua")
	for name, text := range scripts {
		if strings.HasPrefix(path.Base(name), "part_") {
			for _, f := range headerFaults(path.Base(name), text) {
				t.Error(name + ": " + f)
			}
			continue // its body is looked at in the scripts that have it
		}
		text, err := luafile.Text(os.DirFS("."), name)
		if err != nil {
			t.Error(err)
		}
		for _, f := range scriptFaults(name, text) {
			t.Error(f)
		}
	}
}

// scriptFaults returns what is wrong with the script at path.
func scriptFaults(name, text string) (faults []string) {
	for _, f := range append(headerFaults(path.Base(name), text), bodyFaults(name, text)...) {
		faults = append(faults, name+": "+f)
	}
	return faults
}

var (
	firstLine  = regexp.MustCompile(`^-- (\S+): \S.*\.$`)
	headerLine = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+)(\.\.)?\]\s+\S+\s+\S+`)
	mentioned  = regexp.MustCompile(`\b(KEYS|ARGV)\b(?:\[(\d+)\])?`)
	// A comment, or a string, which may contain two dashes.
	commentOrString = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"`)
)

// headerFaults compares the comment at the top with the body:
//
//	-- extend.lua: prolong a lease still held by owner.
//	-- KEYS[1] lease  hash     {<name>}:lock
//	-- ARGV[1] owner  bytes    16 random bytes
//	-- ARGV[2..] more bytes    all that follow
//	-- Returns {held 0|1, fence integer, pttl_ms integer}
func headerFaults(name, text string) (faults []string) {
	header, body := split(text)
	if m := firstLine.FindStringSubmatch(header[0]); m == nil || m[1] != name {
		faults = append(faults, fmt.Sprintf("the first line is %q: make it `-- %s: ` and one sentence that says what the script does, with a full stop", header[0], name))
	}
	declared := map[string]bool{}
	next, open := map[string]int{"KEYS": 1, "ARGV": 1}, map[string]bool{}
	returns := 0
	for _, line := range header {
		switch m := headerLine.FindStringSubmatch(line); {
		case m != nil:
			kind, n := m[1], next[m[1]]
			if m[2] != strconv.Itoa(n) || open[kind] || kind == "KEYS" && next["ARGV"] > 1 || returns > 0 {
				faults = append(faults, fmt.Sprintf("%s[%s] is out of order in the header: KEYS from 1 up, then ARGV from 1 up, then Returns", kind, m[2]))
			}
			next[kind], open[kind] = n+1, m[3] != ""
			declared[kind+"["+m[2]+"]"] = true
		case strings.HasPrefix(line, "-- KEYS") || strings.HasPrefix(line, "-- ARGV"):
			faults = append(faults, fmt.Sprintf("header line %q: write `-- KEYS[1] name type meaning`", line))
		case strings.HasPrefix(line, "-- Returns "):
			returns++
		}
	}
	if returns != 1 {
		faults = append(faults, fmt.Sprintf("the header has %d lines that begin `-- Returns `: say once what shape the reply has", returns))
	}

	used := map[string]bool{}
	code := commentOrString.ReplaceAllString(body, " ")
	for _, m := range mentioned.FindAllStringSubmatch(code, -1) {
		n, _ := strconv.Atoi(m[2])
		kind := m[1]
		last := next[kind] - 1
		switch rest := open[kind] && (n == 0 || n >= last); {
		case n > 0 && !rest:
			used[m[0]] = true
		case !rest:
			faults = append(faults, fmt.Sprintf("%s is used without a constant index: end its header line's index with two dots, `%s[2..]`, if it has any length", kind, kind))
		default:
			used[fmt.Sprintf("%s[%d]", kind, last)] = true
		}
	}
	for _, k := range union(declared, used) {
		switch {
		case !used[k]:
			faults = append(faults, k+" is in the header and not used: take it out of both, or use it")
		case !declared[k]:
			faults = append(faults, k+" is used and not in the header: say there what it is")
		}
	}
	return faults
}

// split parts the comment at the top, at least one line, from the rest.
func split(text string) (header []string, body string) {
	lines := strings.Split(text, "\n")
	n := 1
	for n < len(lines) && strings.HasPrefix(lines[n], "--") {
		n++
	}
	return lines[:n], strings.Join(lines[n:], "\n")
}

func union(a, b map[string]bool) (keys []string) {
	for _, m := range []map[string]bool{a, b} {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// globals are what scripts may use of what every Redis gives them. tostring
// and tonumber's cousins that differ between Luas are left out on purpose.
var globals = []string{"KEYS", "ARGV", "redis", "string", "table", "math", "tonumber", "type", "ipairs", "pairs", "unpack", "cjson", "struct"}

var (
	formats     = regexp.MustCompile(`string\.format\(\s*([^,)]*)`)
	exactFormat = regexp.MustCompile(`^'(%(0\d+)?\.0f)+'$`)
)

// bodyFaults finds by the compiled code what globals a script uses and whether
// it joins strings.
func bodyFaults(name, text string) (faults []string) {
	for _, m := range formats.FindAllStringSubmatch(text, -1) {
		if !exactFormat.MatchString(m[1]) {
			faults = append(faults, fmt.Sprintf("string.format with %s: integers become text by '%%.0f' and nothing else does", m[1]))
		}
	}
	script, err := lua.Compile(name, text)
	if err != nil {
		return append(faults, fmt.Sprintf("it does not compile: %v", err))
	}
	for _, u := range script.Uses() {
		switch u.Kind {
		case lua.SetsGlobal:
			faults = append(faults, fmt.Sprintf("line %d sets the global %s: make it local", u.Line, u.Global))
		case lua.ReadsGlobal:
			switch {
			case u.Global == "tostring":
				faults = append(faults, fmt.Sprintf("line %d uses tostring, which keeps 14 digits of an integer on Redis: use string.format('%%.0f', x)", u.Line))
			case !slices.Contains(globals, u.Global):
				faults = append(faults, fmt.Sprintf("line %d uses the global %s, which not every Redis has: is it a local that is misspelt?", u.Line, u.Global))
			}
		case lua.Concatenates:
			faults = append(faults, fmt.Sprintf("line %d joins strings with `..`, which keeps 14 digits of an integer on Redis: "+
				"pass text by ARGV, or make one of integers by string.format('%%.0f', x)", u.Line))
		}
	}
	return faults
}

func TestScriptFaultsAreFound(t *testing.T) {
	const head, tail = "-- x.lua: do a thing.\n-- KEYS[1] k string what\n", "-- Returns {n integer}\n"
	const use = "redis.call('GET', KEYS[1])\n"
	for text, want := range map[string]string{
		head + tail + use: "",
		head + "-- ARGV[1..] v bytes each\n" + tail + use + "for i = 1, #ARGV do redis.call('GET', ARGV[i]) end\n": "",
		head + tail + use + "local s = string.format('%.0f%09.0f', 1, 2)\n":                                        "",
		head + tail + use + "local s = '-- not a .. comment'\n":                                                    "",
		head + "-- free text\n" + tail + "-- goes on here\n" + use:                                                 "",

		"-- y.lua: do a thing.\n-- KEYS[1] k string what\n" + tail + use: "the first line is",
		"-- x.lua: do a thing\n-- KEYS[1] k string what\n" + tail + use:  "the first line is",
		"local a = 1\n": "the first line is",
		head + use:      "has 0 lines that begin `-- Returns `",
		head + tail + "-- Returns {again}\n" + use:                                                                     "has 2 lines",
		head + tail + "return 1\n":                                                                                     "KEYS[1] is in the header and not used",
		head + tail + use + "return ARGV[1]\n":                                                                         "ARGV[1] is used and not in the header",
		head + tail + use + "return KEYS[2]\n":                                                                         "KEYS[2] is used and not in the header",
		head + tail + use + "-- KEYS[2]\nlocal s = 'KEYS[2]'\nreturn ARGV[1]\n":                                        "ARGV[1] is used and not in the header",
		head + "-- KEYS[3] k string what\n" + tail + use + "return KEYS[3]\n":                                          "KEYS[3] is out of order",
		head + "-- ARGV[1] a int n\n-- KEYS[2] k string what\n" + tail + use + "return {KEYS[2], ARGV[1]}\n":           "KEYS[2] is out of order",
		head + tail + "-- ARGV[1] a int n\n" + use + "return ARGV[1]\n":                                                "ARGV[1] is out of order",
		head + "-- ARGV[1..] a int n\n-- ARGV[2] a int n\n" + tail + use + "return {ARGV[1], ARGV[2], unpack(ARGV)}\n": "ARGV[2] is out of order",
		head + "-- ARGV[1]\n" + tail + use + "return ARGV[1]\n":                                                        "header line \"-- ARGV[1]\"",
		head + tail + use + "local i = 2\nreturn KEYS[i]\n":                                                            "KEYS is used without a constant index",
		head + "-- ARGV[1..] v bytes each\n" + tail + use:                                                              "ARGV[1] is in the header and not used",
		head + tail + use + "return tostring(1)\n":                                                                     "line 5 uses tostring",
		head + tail + use + "return 'a' .. 1\n":                                                                        "line 5 joins strings",
		head + tail + use + "n = 1\n":                                                                                  "line 5 sets the global n",
		head + tail + use + "local function f() n = 1 end\n":                                                           "line 5 sets the global n",
		head + tail + use + "function f() return 1 end\n":                                                              "line 5 sets the global f",
		head + tail + use + "local now = 1\nreturn nwo\n":                                                              "line 6 uses the global nwo",
		head + tail + use + "return string.format('%d', 1)\n":                                                          "string.format with '%d'",
		head + tail + use + "return string.format(ARGV, 1)\n":                                                          "string.format with ARGV",
		head + tail + use + "return (\n":                                                                               "it does not compile",
	} {
		faults := strings.Join(scriptFaults("a/lua/x.lua", text), "\n")
		if want == "" != (faults == "") || !strings.Contains(faults, want) {
			t.Errorf("in this script:\n%sfound %q, want %q", text, faults, want)
		}
	}
}
