package engine

import (
	"encoding/binary"
	"math"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A set of integers has them in ascending order, each in as many bytes as the
// longest that there ever was takes: 2, 4 or 8.

func intWidth(n int64) uint8 {
	switch {
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return 2
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return 4
	}
	return 8
}

// int returns the integer i.
func (s *set) int(i int) int64 {
	switch s.width {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(s.packed[2*i:]))) //nolint:gosec // it was one
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(s.packed[4*i:]))) //nolint:gosec // likewise
	}
	return int64(binary.LittleEndian.Uint64(s.packed[8*i:])) //nolint:gosec // likewise
}

func (s *set) putInt(i int, n int64) {
	switch s.width {
	case 2:
		binary.LittleEndian.PutUint16(s.packed[2*i:], uint16(n)) //nolint:gosec // it fits
	case 4:
		binary.LittleEndian.PutUint32(s.packed[4*i:], uint32(n)) //nolint:gosec // likewise
	default:
		binary.LittleEndian.PutUint64(s.packed[8*i:], uint64(n)) //nolint:gosec // likewise
	}
}

// search returns where n is, or belongs.
func (s *set) search(n int64) (i int, found bool) {
	to := int(s.few)
	if to > 0 && n > s.int(to-1) {
		return to, false
	}
	for i < to {
		mid := (i + to) / 2
		switch at := s.int(mid); {
		case at == n:
			return mid, true
		case at < n:
			i = mid + 1
		default:
			to = mid
		}
	}
	return i, false
}

// insert puts n at i.
func (s *set) insert(i int, n int64) {
	if w := intWidth(n); w > s.width {
		s.widen(w)
	}
	at := i * int(s.width)
	s.packed = s.packed.splice(at, at, int(s.width))
	s.putInt(i, n)
	s.few++
}

// widen gives every integer w bytes.
func (s *set) widen(w uint8) {
	old := *s
	s.width = w
	if s.few == 0 {
		return
	}
	size := int(s.few) * int(w)
	s.packed = make(packed, size, sizeclass.Of(size+int(w)))
	for i := range int(s.few) {
		s.putInt(i, old.int(i))
	}
}
