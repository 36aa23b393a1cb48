package lua

import (
	"errors"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// fuzzRun runs a script under small limits; only a fault of ours fails.
func fuzzRun(t *testing.T, rt *Runtime, src string, args ...string) {
	t.Helper()
	defer randtest.Command(t, func() string { return src })()
	p, err := Compile("user_script", src)
	if err != nil {
		if errors.Is(err, ErrInternal) {
			t.Fatal(err)
		}
		return
	}
	err = rt.Run(p, Invocation{Host: newFakeHost(), Keys: []string{"k"}, Args: args}, &respWriter{})
	if errors.Is(err, ErrInternal) {
		t.Fatalf("%v\n%s", err, src)
	}
}

func fuzzRuntime(t testing.TB) *Runtime {
	return newTestRuntime(t, Options{Memory: 4 << 20, Steps: 50000})
}

// FuzzCompile compiles and runs any text.
func FuzzCompile(f *testing.F) {
	for _, c := range readCorpus(f) {
		for i, s := range c.scripts {
			if i%7 == 0 {
				f.Add(s)
			}
		}
	}
	rt := fuzzRuntime(f)
	f.Fuzz(func(t *testing.T, src string) { fuzzRun(t, rt, src) })
}

// FuzzRun runs random programs of the grammar.
func FuzzRun(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i)
	}
	rt := fuzzRuntime(f)
	f.Fuzz(func(t *testing.T, seed uint64) { fuzzRun(t, rt, program(seed)) })
}

// FuzzPattern matches any pattern with any text.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{"(a)(b)%2", "^[^%a-z]*$", "%b()%f[%w]", "()x?.-", "[]]", "[%", "%f", "(((", "[a-", "%z+"} {
		f.Add("abc (def) 12", p, "%0%1")
	}
	rt := fuzzRuntime(f)
	f.Fuzz(func(t *testing.T, s, p, r string) {
		fuzzRun(t, rt, `local s, p, r = ARGV[1], ARGV[2], ARGV[3]
			local a, b = pcall(string.find, s, p) pcall(string.match, s, p) pcall(string.gsub, s, p, r)
			pcall(function() for x in string.gmatch(s, p) do end end) pcall(string.format, p, s, 1, 2.5)
			return {tostring(a), tostring(b)}`, s, p, r)
	})
}

// FuzzCJSON decodes any text; what it decodes must survive a round trip.
func FuzzCJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,null,true,"\u00e9\ud83d\ude00"]}`, `[[],{}]`, `"\`, `[1,`, `nan`, `-`, `0x1p`, "\"a\\u12"} {
		f.Add(s)
	}
	rt := fuzzRuntime(f)
	f.Fuzz(func(t *testing.T, s string) {
		got := eval(t, rt, `local ok, v = pcall(cjson.decode, ARGV[1]) if not ok then return 1 end
			local ok, a = pcall(cjson.encode, v) if not ok then return 1 end
			local b = cjson.encode(cjson.decode(a)) if #a == #b then return 1 end return {a, b}`, false, nil, []string{s})
		if got != ":1\r\n" && !strings.HasPrefix(got, "-ERR not enough") && !strings.HasPrefix(got, "-ERR script exceeded") {
			t.Fatalf("%q: %q", s, got)
		}
	})
}

// FuzzCMsgpack unpacks any bytes, as struct does; a round trip keeps lengths.
func FuzzCMsgpack(f *testing.F) {
	for _, s := range []string{"\x93\x01\x02\x03", "\x81\xa1a\x01", "\xdb\xff\xff\xff\xff", "\xdd\x7f\xff\xff\xff", "\xc1", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "\x81\xc0\x01"} {
		f.Add(s, "bBhHi4lLfds")
	}
	rt := fuzzRuntime(f)
	f.Fuzz(func(t *testing.T, s, format string) {
		fuzzRun(t, rt, `local r = {pcall(cmsgpack.unpack, ARGV[1])}
			if r[1] then local ok, p = pcall(cmsgpack.pack, unpack(r, 2)) if ok then cmsgpack.unpack(p) end end
			pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1) pcall(struct.unpack, ARGV[2], ARGV[1]) pcall(struct.size, ARGV[2])
			pcall(struct.pack, ARGV[2], 1, 2, 3, 4, 5, 6, 7, 8, 9, 'x', 'y') return #r`, s, format)
	})
}
