package stream

import (
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestOrderedAgainstSlice does many random changes to an ordered and to a sorted slice: it grows, shrinks,
// grows at its end and shrinks at its front.
func TestOrderedAgainstSlice(t *testing.T) {
	rnd := randtest.Rand(t)
	steps := randtest.Watch(t)
	var o ordered[ID, owned]
	var want []uint64
	var bytes int64
	top := uint64(1 << 20)
	for round := range 12 {
		steps.Begin(func() string { return "round" })
		for range 5000 {
			k := uint64(rnd.IntN(1 << 20))
			remove := round%2 == 1 && rnd.IntN(8) > 0
			switch {
			case round%4 == 2:
				top++
				k = top
			case round%4 == 3 && len(want) > 0 && rnd.IntN(2) == 0:
				k = want[0]
			case remove && len(want) > 0:
				k = want[rnd.IntN(len(want))]
			}
			at, there := slices.BinarySearch(want, k)
			p, ok := o.find(ID{0, k})
			if ok != there || o.valid(p) != (at < len(want)) || o.valid(p) && o.at(p).Seq != want[at] {
				t.Fatalf("%d is %v at %v, want %v at %d", k, ok, p, there, at)
			}
			switch {
			case remove && there:
				o.remove(p, &bytes)
				want = slices.Delete(want, at, at+1)
			case !remove && !there:
				o.insert(p, owned{ID{0, k}}, &bytes)
				want = slices.Insert(want, at, k)
			}
		}
		var got []uint64
		each(&o, place{}, func(e owned) bool { got = append(got, e.Seq); return true })
		if !slices.Equal(got, want) || o.len() != len(want) {
			t.Fatalf("round %d: %d elements, want %d", round, len(got), len(want))
		}
		var back []uint64
		for p := o.last(); o.valid(p); p = o.prev(p) {
			back = append(back, o.at(p).Seq)
			if next := o.next(p); o.valid(next) && o.at(next).Seq <= o.at(p).Seq {
				t.Fatalf("round %d: %d is behind %d", round, o.at(next).Seq, o.at(p).Seq)
			}
		}
		if slices.Reverse(back); !slices.Equal(back, want) {
			t.Fatalf("round %d: %d elements going back, want %d", round, len(back), len(want))
		}
		if bytes != o.bytes() {
			t.Fatalf("round %d: %d bytes, by a walk %d", round, bytes, o.bytes())
		}
		for i, c := range o.chunks {
			if len(c) == 0 || len(c) > chunkLen || cap(c) > chunkLen {
				t.Fatalf("round %d: chunk %d has %d of %d", round, i, len(c), cap(c))
			}
		}
		steps.End()
		if least := len(want) / 12; len(o.chunks) > least+8 {
			t.Errorf("round %d: %d chunks for %d elements", round, len(o.chunks), len(want))
		}
	}
}
