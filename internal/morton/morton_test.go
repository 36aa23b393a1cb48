package morton_test

import (
	"testing"
	"testing/quick"

	"github.com/redoubt-go/redoubt/internal/morton"
)

func TestSpreadAndGather(t *testing.T) {
	bitByBit := func(v uint32) (x uint64) {
		for i := range 32 {
			x |= uint64(v>>i&1) << (2 * i)
		}
		return x
	}
	ok := func(v, other uint32) bool {
		x := morton.Spread(v)
		return x == bitByBit(v) && morton.Gather(x|morton.Spread(other)<<1) == v
	}
	if err := quick.Check(ok, &quick.Config{MaxCount: 10_000}); err != nil {
		t.Error(err)
	}
}
