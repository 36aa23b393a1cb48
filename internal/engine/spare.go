package engine

import (
	"math/bits"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// spares are the blocks of strings that were replaced, for later strings. Strings that change their lengths leave
// little garbage then, and take little more than they need.
type spares struct {
	classes uint64 // those with blocks, a bit each
	blocks  [spareClasses][]*byte
	bytes   int64
}

const (
	leastSpare   = 33       // a shorter string gets a block of its own from Go's allocator
	mostSpare    = 16 << 10 // and a longer one
	spareClasses = 62       // the sizes between, as of [sizeclass.Of]
	nearClasses  = 2        // a block may be of so many classes above the smallest that fits: 32 bytes or a quarter larger
)

// spareClass is the class of the smallest blocks with room for n bytes.
func spareClass(n int) int {
	if n <= 128 {
		return (n+15)/16 - 3
	}
	doubling := bits.Len(uint(n-1)) - 8 //nolint:gosec // n is more than 0
	return 6 + 8*doubling + (n-1)>>(doubling+4) - 8
}

// block returns room for n bytes. s may be nil.
func (s *spares) block(n int) []byte {
	if n < leastSpare || n > mostSpare {
		return make([]byte, 0, n)
	}
	size := int(sizeclass.Of(n))
	if s == nil {
		return make([]byte, 0, size)
	}
	c := spareClass(n)
	near := s.classes >> c & (1<<(nearClasses+1) - 1)
	if near == 0 {
		return make([]byte, 0, size)
	}
	for range bits.TrailingZeros64(near) {
		c++
		size = int(sizeclass.Of(size + 1))
	}
	stack := s.blocks[c]
	last := len(stack) - 1
	p := stack[last]
	stack[last] = nil
	s.blocks[c] = stack[:last]
	if last == 0 {
		s.classes &^= 1 << c
	}
	s.bytes -= int64(size)
	return unsafe.Slice(p, size)[:0]
}

// keep takes a block that nothing else uses any more, if it is of a class and there are at most most bytes then.
func (s *spares) keep(b []byte, most int64) {
	size := cap(b)
	if size < leastSpare || size > mostSpare || int64(size) != sizeclass.Of(size) || s.bytes+int64(size) > most {
		return
	}
	c := spareClass(size)
	s.blocks[c] = append(s.blocks[c], unsafe.SliceData(b))
	s.classes |= 1 << c
	s.bytes += int64(size)
}
