package lua

import (
	"math"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// collisions are programs that fill, empty and go over tables whose keys all
// lie in a few chains, long enough for an index.
var collisions = []string{
	`local t, out = {}, {}
	for i = 1, 400 do t[collide(i)] = i t['k' .. i] = i end
	for i = 1, 400, 3 do t[collide(i)] = nil end
	for i = 401, 500 do t[collide(i)] = i end
	for k, v in pairs(t) do out[#out + 1] = v end
	for i = 1, 500 do if t[collide(i)] ~= nil then out[#out + 1] = t[collide(i)] end end
	return out`,
	`local t, out = {}, {}
	for i = 1, 300 do t[collide(i)] = i end
	for i = 1, 300 do t[collide(i)] = nil t[i + 0.5] = i if i % 7 == 0 then t[collide(i)] = -i end end
	for i = 1, 100 do t[i] = i end
	for k, v in pairs(t) do out[#out + 1] = v if v % 2 == 0 then t[k] = nil end end
	for k, v in pairs(t) do out[#out + 1] = v end
	return out`,
	`local t, out = {}, {}
	for round = 1, 30 do
		for i = 1, 200 do t[collide(round * 40 + i)] = i end
		for i = 1, 200, 2 do t[collide(round * 40 + i)] = nil end
		out[#out + 1] = next(t) ~= nil and t[next(t)]
	end
	for k, v in pairs(t) do out[#out + 1] = v end
	return out`,
}

// TestCollisionsAreInTheOrderOfC compares tables that have an index with a real
// server's tables.
func TestCollisionsAreInTheOrderOfC(t *testing.T) {
	o := newOracle(t)
	rt := newTestRuntime(t, Options{})
	for _, src := range collisions {
		src = collide + src
		want, err := o.eval(src, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runErr(t, rt, src, Invocation{})
		if err != nil || got != want {
			t.Errorf("%s\n got %.200q %v\nwant %.200q", src, got, err, want)
		}
	}
}

// TestLongNumbers compares how long numerals are read with how short ones are.
func TestLongNumbers(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	st := newState(Options{Version: "7.0.15"}, false)
	pieces := []string{"0", "00", "1", "7", "9", "123456789", ".", "e", "E5", "e-3", "p2", "-", "+", "0x", "a", "F", "nan", "nan(a_1)", "inf", "infinity", " ", "x", ")", strings.Repeat("0", 20), strings.Repeat("5", 30)}
	for range 20000 {
		s := ""
		for range 1 + r.IntN(6) {
			s += pieces[r.IntN(len(pieces))]
		}
		if isSpace(s[0]) {
			continue
		}
		steps.Begin(func() string { return s })
		x, n := st.longNumber(s)
		wantX, wantN := strtod(s)
		if n != wantN || n > 0 && math.Float64bits(x) != math.Float64bits(wantX) {
			t.Fatalf("%q: %v of %d bytes, want %v of %d", s, x, n, wantX, wantN)
		}
	}
	for _, tt := range []struct {
		s    string
		want float64
		ok   bool
	}{
		{strings.Repeat("0", 5000) + "12", 12, true},
		{"1" + strings.Repeat("0", 5000) + "e-5000", 1, true},
		{"-0." + strings.Repeat("0", 5000) + "25e5000", -0.25, true},
		{"0x" + strings.Repeat("0", 5000) + "ff", 255, true},
		{"0x1" + strings.Repeat("0", 5000) + "p-20000", 1, true},
		{"9007199254740992." + strings.Repeat("0", 5000), 9007199254740992, true},
		{"9007199254740993." + strings.Repeat("0", 5000) + "1", 9007199254740994, true},
		{strings.Repeat(" ", 5000) + "3" + strings.Repeat(" ", 5000), 3, true},
		{strings.Repeat("1", 5000), math.Inf(1), true},
		{strings.Repeat("1", 5000) + "x", 0, false},
		{strings.Repeat("1", 5000) + "e", 0, false},
		{"1" + strings.Repeat("0", 900) + "e-900", 1, true},
		{"1e" + strings.Repeat("0", 5000) + "2", 100, true},
		{strings.Repeat(" ", 5000), 0, false},
		{"7\x00" + strings.Repeat("x", 5000), 7, true},
	} {
		v := newStr(tt.s)
		if x, ok := st.toNumber(&v); ok != tt.ok || ok && x != tt.want {
			t.Errorf("%.20q… of %d bytes: %v, %v, want %v, %v", tt.s, len(tt.s), x, ok, tt.want, tt.ok)
		}
	}
}

// TestFindCountsWhatItGoesOver has a text found in which thousands of places begin as the
// wanted one does.
func TestFindCountsWhatItGoesOver(t *testing.T) {
	rt := newTestRuntime(t, Options{})
	for _, tt := range []struct {
		text, wanted, want string
		most               int
	}{
		{"(('a'):rep(1023) .. 'x'):rep(1000)", "('a'):rep(1023) .. 'y'", "$-1\r\n", 1e6},
		{"(('a'):rep(1024) .. 'x'):rep(1000)", "('a'):rep(1024) .. 'y'", "$-1\r\n", 1e6},
		{"(('a'):rep(9000) .. 'x'):rep(100) .. ('a'):rep(9000) .. 'y'", "('a'):rep(9000) .. 'y'", ":900101\r\n", 2e8},
		{"('ab'):rep(500000)", "'ba'", ":2\r\n", 1e5},
	} {
		total := 0
		inv := Invocation{Host: newFakeHost(), looked: func(steps int) { total += steps }}
		got, err := runErr(t, rt, "return (string.find("+tt.text+", "+tt.wanted+", 1, true))", inv)
		if err != nil || got != tt.want || total > tt.most {
			t.Errorf("%s in %s: %q, %v, %d steps, want at most %d", tt.wanted, tt.text, got, err, total, tt.most)
		}
	}
}
