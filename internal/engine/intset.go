package engine

import (
	"encoding/binary"
	"math"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A set of integers has them in ascending order, each in as many bytes as the
// longest that there ever was takes: 2, 4 or 8.

func intWidth(n int64) int {
	switch {
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return 2
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return 4
	}
	return 8
}

// intForm returns the form whose integers take width bytes.
func intForm(width int) form {
	switch width {
	case 2:
		return formInts16
	case 4:
		return formInts32
	}
	return formInts64
}

func (s *set) width() int { return 2 << (s.form - formInts16) }

// int returns the integer i.
func (s *set) int(i int) int64 {
	switch b := s.bytes(); s.form {
	case formInts16:
		return int64(int16(binary.LittleEndian.Uint16(b[2*i:]))) //nolint:gosec // it was one
	case formInts32:
		return int64(int32(binary.LittleEndian.Uint32(b[4*i:]))) //nolint:gosec // likewise
	default:
		return int64(binary.LittleEndian.Uint64(b[8*i:])) //nolint:gosec // likewise
	}
}

func (s *set) putInt(i int, n int64) {
	switch b := s.bytes(); s.form {
	case formInts16:
		binary.LittleEndian.PutUint16(b[2*i:], uint16(n)) //nolint:gosec // it fits
	case formInts32:
		binary.LittleEndian.PutUint32(b[4*i:], uint32(n)) //nolint:gosec // likewise
	default:
		binary.LittleEndian.PutUint64(b[8*i:], uint64(n)) //nolint:gosec // likewise
	}
}

// search returns where n is, or belongs.
func (s *set) search(n int64) (i int, found bool) {
	to := s.len()
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
	if w := intWidth(n); w > s.width() {
		s.widen(w)
	}
	w := s.width()
	s.setBytes(s.packed().splice(i*w, i*w, w))
	s.putInt(i, n)
	s.few++
}

// widen gives every integer w bytes.
func (s *set) widen(w int) {
	old := *s
	s.form = intForm(w)
	if s.few == 0 {
		return
	}
	size := s.len() * w
	s.setBytes(make([]byte, size, sizeclass.Of(size+w)))
	for i := range s.len() {
		s.putInt(i, old.int(i))
	}
}
