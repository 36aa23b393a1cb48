package engine

import (
	"fmt"
	"math/bits"
	"time"
)

// A histogram counts durations in steps of an eighth of their size.
type histogram struct {
	counts [512]int
	n      int
	most   time.Duration
	at     int // when most was
}

func (h *histogram) add(d time.Duration) {
	if h.n++; d > h.most {
		h.most, h.at = d, h.n
	}
	e := max(bits.Len64(uint64(d))-4, 0) //nolint:gosec // not negative
	h.counts[min(e*8+int(d>>e)&7, len(h.counts)-1)]++
}

// part returns the duration that p of all are not above.
func (h *histogram) part(p float64) time.Duration {
	left := int(p * float64(h.n))
	for i, c := range h.counts {
		if left -= c; left < 0 {
			return time.Duration(9+i%8) << (i / 8)
		}
	}
	return h.most
}

func (h *histogram) String() string {
	return fmt.Sprintf("p50 %v p99 %v p99.99 %v most %v (no. %d of %d)", h.part(.5), h.part(.99), h.part(.9999), h.most, h.at, h.n)
}
