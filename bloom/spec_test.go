package bloom

import (
	"testing"
	"time"
)

// FuzzSpec wants a description that is taken to be the same when it is written again.
func FuzzSpec(f *testing.F) {
	f.Add(generation{id: "id", spec: Spec{Capacity: 1000, ErrorRate: 0.01}, layout: layout{blocks: 20, shards: 2, hashes: 7}}.text())
	f.Add(SlidingSpec{Capacity: 1000, ErrorRate: 0.01, Window: time.Hour, Periods: 4}.text("id", layout{blocks: 20, shards: 2, hashes: 7}))
	f.Add("1 NaN a 1 1 1")
	f.Add("9223372036854775808 0x1p-4 a 1 1 1")
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := parseGeneration(text); err == nil {
			if again, err := parseGeneration(g.text()); err != nil || again != g {
				t.Errorf("%q is %+v, and then %+v, %v", text, g, again, err)
			}
		}
		if s, id, l, err := parseSliding(text); err == nil {
			again, id2, l2, err := parseSliding(s.text(id, l))
			if err != nil || again != s || id2 != id || l2 != l {
				t.Errorf("%q is %+v %q %+v, and then %+v %q %+v, %v", text, s, id, l, again, id2, l2, err)
			}
		}
	})
}
