package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A setRun does what a string of bytes says to a set and to a map.
type setRun struct {
	t    testing.TB
	s    *set
	l    *limits
	want map[string]bool
	in   []byte
	not  bool // what OBJECT ENCODING says is not intset
}

// modelInts are those at which an integer takes another size.
var modelInts = []int64{0, 1, -1, math.MaxInt16, math.MaxInt16 + 1, math.MinInt16, math.MinInt16 - 1, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MinInt32 - 1, math.MaxInt64, math.MinInt64}

func (r *setRun) pick(n int) int {
	if len(r.in) == 0 {
		return 0
	}
	b := r.in[0]
	r.in = r.in[1:]
	return int(b) % n
}

func (r *setRun) member(longest int) string {
	switch n := r.pick(16); {
	case n < longest:
		lengths := []int{0, 1, 3, 63, 64, 65}
		return strings.Repeat(string(rune('a'+r.pick(26))), lengths[r.pick(len(lengths))])
	case n < 6:
		return strconv.FormatInt(modelInts[r.pick(len(modelInts))], 10)
	}
	return strconv.Itoa(r.pick(256))
}

func (r *setRun) step(longest int) {
	m := r.member(longest)
	_, isInt := parseInt([]byte(m))
	there := r.want[m]
	switch op := r.pick(16); {
	case op < 10:
		if r.s.len() == 0 && op < 3 {
			r.s.reserve([][]byte{[]byte(m), []byte(m)})
		}
		if r.s.add(r.l, []byte(m)) == there {
			r.t.Fatalf("add of %q says %v", m, there)
		}
		if !there && (!isInt || len(r.want) >= r.l.setEntries) {
			r.not = true
		}
		r.want[m] = true
	case op < 14:
		if r.s.remove([]byte(m)) != there {
			r.t.Fatalf("remove of %q says %v", m, !there)
		}
		delete(r.want, m)
	case op == 14:
		r.s = r.s.clone(func(int) {}).asSet()
	default:
		n := 0
		r.s.sample(1+len(r.want)/2, func(m []byte) { n += int(b2i(r.want[string(m)])) })
		if n != min(1+len(r.want)/2, len(r.want)) {
			r.t.Fatalf("a sample has %d", n)
		}
	}
	if r.s.isInts() == r.not {
		r.t.Fatalf("an intset is %v", !r.not)
	}
	if r.s.has([]byte(m)) != r.want[m] {
		r.t.Fatalf("has %q is %v", m, !r.want[m])
	}
	r.compare()
}

func (r *setRun) compare() {
	r.t.Helper()
	n, last := 0, int64(math.MinInt64)
	r.s.each(func(m []byte) bool {
		n++
		if !r.want[string(m)] {
			r.t.Fatalf("%q is not a member", m)
		}
		if i, _ := parseInt(m); r.s.isInts() {
			if i < last {
				r.t.Fatalf("%d is behind %d", i, last)
			}
			last = i
		}
		return true
	})
	if n != len(r.want) || r.s.len() != n {
		r.t.Fatalf("%d members, %d by its own count, want %d", n, r.s.len(), len(r.want))
	}
	if n > 0 && !r.want[r.s.random()] {
		r.t.Fatal("random gives what is not there")
	}
}

// TestSetAgainstMap does random changes to a set and to a map.
func TestSetAgainstMap(t *testing.T) {
	forms := map[string]int{}
	steps := randtest.Watch(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // to be repeated
		run := setRun{t: t, want: map[string]bool{}, s: &set{newSet()}, l: &limits{setEntries: int(seed) * 3}}
		for range 600 {
			run.in = []byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
			in := run.in
			steps.Begin(func() string { return fmt.Sprintf("% x of seed %d", in, seed) })
			if run.step(int(seed) % 3); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			switch {
			case run.s.isInts():
				forms["integers of "+strconv.Itoa(run.s.width())]++
			case run.s.isWords():
				forms["words"]++
			default:
				forms["dict"]++
			}
		}
	}
	for _, form := range []string{"integers of 2", "integers of 4", "integers of 8", "words", "dict"} {
		if forms[form] < 10 {
			t.Errorf("%s: %d steps", form, forms[form])
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x07\x00\x01\x02\x00\x08\x00"), uint16(3))
	f.Add([]byte(strings.Repeat("\x07\x01\x00\x09\x05\x04", 40)), uint16(512))
	f.Fuzz(func(t *testing.T, in []byte, entries uint16) {
		run := setRun{t: t, want: map[string]bool{}, in: in[:min(len(in), 2000)], s: &set{newSet()}, l: &limits{setEntries: int(entries)}}
		for len(run.in) > 0 {
			run.step(2)
		}
	})
}

// TestIntersectionWithItself wants a set or a sorted set that is being resized to be
// complete for lookups during a walk.
func TestIntersectionWithItself(t *testing.T) {
	s := open(t, Options{}).Session()
	for i := range 700 {
		run(s, sprint("SADD s member%d", i))
		run(s, sprint("ZADD z 1 member%d", i))
		n := i + 1
		for _, line := range []string{"SINTERCARD 2 s s", "ZINTERCARD 2 z z", "ZINTERCARD 2 s s", "SINTERSTORE x s s", "ZINTERSTORE x 2 s s"} {
			want(t, s, line, sprint(":%d\r\n", n))
		}
	}
}
