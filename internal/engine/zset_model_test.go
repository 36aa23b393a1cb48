package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

type scoredMember struct {
	member string
	score  float64
}

// modelScores are those at which a score takes another form.
var modelScores = []float64{
	0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32768, -32769, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MinInt32 - 1,
	0.5, -0.25, 1 << 60, 5e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.Copysign(0, -1),
}

// A zsetRun does what a string of bytes says to a sorted set and to a sorted
// slice.
type zsetRun struct {
	t    testing.TB
	z    *zset
	l    *limits
	want []scoredMember
	in   []byte
}

func (r *zsetRun) pick(n int) int {
	if len(r.in) == 0 {
		return 0
	}
	b := r.in[0]
	r.in = r.in[1:]
	return int(b) % n
}

func (r *zsetRun) sort() {
	slices.SortFunc(r.want, func(a, b scoredMember) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.member, b.member))
	})
}

func (r *zsetRun) step(longest []int) {
	large, n := r.z.large(), len(r.want)
	member := strings.Repeat(string(rune('a'+r.pick(5))), longest[r.pick(len(longest))])
	i := slices.IndexFunc(r.want, func(m scoredMember) bool { return m.member == member })
	switch op := r.pick(8); {
	case op < 5:
		score := modelScores[r.pick(len(modelScores))]
		if i < 0 {
			large = large || n >= r.l.zsetEntries || len(member) > r.l.zsetValue
		}
		r.z.set(r.l, []byte(member), score)
		if score == 0 && !large {
			score = 0
		}
		switch {
		case i < 0:
			r.want = append(r.want, scoredMember{member, score})
		case r.want[i].score != score:
			r.want[i].score = score
		}
		r.sort()
	case op < 7 && n > 0:
		from := r.pick(n)
		size := min(n-from, 1+r.pick(3))
		r.z.remove(r.z.at(from), size)
		r.want = slices.Delete(r.want, from, from+size)
	case op == 7 && n > 0:
		r.z = r.z.clone(func(int) {}).asZset()
	}
	if r.z.large() != large {
		r.t.Fatalf("large is %v, with %d members", r.z.large(), n)
	}
	r.compare(member)
}

func (r *zsetRun) compare(member string) {
	r.t.Helper()
	same := func(at zcursor, want scoredMember) bool {
		return at.ok() && at.member() == want.member && math.Float64bits(at.score()) == math.Float64bits(want.score)
	}
	if r.z.len() != len(r.want) {
		r.t.Fatalf("%d members, want %d", r.z.len(), len(r.want))
	}
	at, back := r.z.first(), r.z.last()
	for i, want := range r.want {
		if !same(at, want) || !same(r.z.at(i), want) || r.z.rank(at) != i || !same(r.z.get([]byte(want.member)), want) {
			r.t.Fatalf("no. %d is not %q with %v", i, want.member, want.score)
		}
		if other := len(r.want) - 1 - i; !same(back, r.want[other]) {
			r.t.Fatalf("from behind no. %d is not %q with %v", i, r.want[other].member, r.want[other].score)
		}
		at, back = at.next(), back.prev()
	}
	if at.ok() || back.ok() || r.z.at(-1).ok() || r.z.at(len(r.want)).ok() {
		r.t.Fatal("there is something past the ends")
	}
	there := slices.ContainsFunc(r.want, func(m scoredMember) bool { return m.member == member })
	if r.z.get([]byte(member)).ok() != there {
		r.t.Fatalf("get finds %v", !there)
	}
	if len(r.want) > 0 {
		some := r.z.random().member()
		if !slices.ContainsFunc(r.want, func(m scoredMember) bool { return m.member == some }) {
			r.t.Fatalf("random gives %q", some)
		}
	}
	for _, score := range []float64{0, 128} {
		in := byScore{&scoreRange{min: score, max: math.Inf(1), minEx: score > 0}}
		n := 0
		for _, m := range r.want {
			n += int(b2i(!in.r.below(m.score)))
		}
		if got := r.z.count(in); got != n {
			r.t.Fatalf("%d scores are from %v on, want %d", got, score, n)
		}
	}
}

// TestZsetAgainstSlice does random changes to a sorted set and to a slice. The
// lengths are those at which a length takes another byte, and at which a set
// becomes a large one.
func TestZsetAgainstSlice(t *testing.T) {
	grown := 0
	steps := randtest.Watch(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4)) //nolint:gosec // to be repeated
		run := zsetRun{t: t, z: &zset{newZset()}, l: &limits{zsetEntries: int(seed), zsetValue: 5000}}
		lengths := []int{0, 1, 2, 9, 31, 32, 63, 64, 65, 4095, 4096, 5000}
		if seed%4 == 0 {
			lengths = append(lengths, 5001)
		}
		for range 300 {
			run.in = []byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
			in := run.in
			steps.Begin(func() string { return fmt.Sprintf("% x of seed %d", in, seed) })
			if run.step(lengths); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		grown += int(b2i(run.z.large()))
	}
	if grown < 15 || grown > 50 {
		t.Errorf("%d of 60 sets became large", grown)
	}
}

func FuzzZset(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x07\x00\x01\x02\x00\x08\x00"), byte(3))
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 40), byte(9))
	f.Fuzz(func(t *testing.T, in []byte, entries byte) {
		run := zsetRun{t: t, in: in[:min(len(in), 1000)], z: &zset{newZset()}, l: &limits{zsetEntries: int(entries), zsetValue: 300}}
		for len(run.in) > 0 {
			run.step([]int{0, 1, 2, 31, 32, 40, 127, 128, 300, 301})
		}
	})
}
