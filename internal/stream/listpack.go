package stream

import (
	"encoding/binary"
	"math"
)

// A listpack is Redis' compact list: its length in bytes, the number of its elements, the elements,
// and a byte 0xff. An element is its bytes behind a head that tells their form, and the length of
// both, which is read from its end to go backward. Numbers of 64 bits and less are stored as such.
const (
	headBytes = 6
	endByte   = 0xff
	// unknownElements stands for the number of elements when that is too large.
	unknownElements = math.MaxUint16
)

// integer returns the number that a listpack stores for b, if b is one in its shortest form.
func integer(b []byte) (n int64, ok bool) {
	const longest = 20
	if len(b) == 0 || len(b) > longest {
		return 0, false
	}
	digits, negative := b, b[0] == '-'
	if negative {
		digits = b[1:]
	}
	switch {
	case len(digits) == 0:
		return 0, false
	case digits[0] == '0':
		return 0, len(b) == 1
	}
	var v uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || v > math.MaxUint64/10 || v*10 > math.MaxUint64-d {
			return 0, false
		}
		v = v*10 + d
	}
	if negative {
		return int64(-v), v <= 1<<63 //nolint:gosec // two's complement
	}
	return int64(v), v < 1<<63 //nolint:gosec // checked
}

// backBytes is how many bytes the length behind an element takes.
func backBytes(n int) int {
	switch {
	case n <= 127:
		return 1
	case n < 1<<14-1:
		return 2
	case n < 1<<21-1:
		return 3
	case n < 1<<28-1:
		return 4
	}
	return 5
}

// mostBytes is how many bytes an element of n bytes takes at most.
func mostBytes(n int) int {
	switch {
	case n < 64:
		n++
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	return n + backBytes(n)
}

// appendBack appends the length of an element that begins at from.
func appendBack(b []byte, from int) []byte { return appendLength(b, len(b)-from) }

func appendLength(b []byte, n int) []byte {
	size := backBytes(n)
	for i := size - 1; i >= 0; i-- {
		c := byte(n>>(7*i)) & 0x7f
		if i < size-1 {
			c |= 0x80
		}
		b = append(b, c)
	}
	return b
}

// appendInt appends an element that is a number.
func appendInt(b []byte, n int64) []byte {
	if n >= 0 && n <= 127 {
		return append(b, byte(n), 1)
	}
	from := len(b)
	u := uint64(n) //nolint:gosec // two's complement
	switch {
	case n >= -1<<12 && n < 1<<12:
		b = append(b, 0xc0|byte(u>>8)&0x1f, byte(u))
	case n >= math.MinInt16 && n <= math.MaxInt16:
		b = append(b, 0xf1, byte(u), byte(u>>8))
	case n >= -1<<23 && n < 1<<23:
		b = append(b, 0xf2, byte(u), byte(u>>8), byte(u>>16))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		b = binary.LittleEndian.AppendUint32(append(b, 0xf3), uint32(u)) //nolint:gosec // cut off
	default:
		b = binary.LittleEndian.AppendUint64(append(b, 0xf4), u)
	}
	return appendBack(b, from)
}

// appendElement appends an element.
func appendElement(b, s []byte) []byte {
	if n, ok := integer(s); ok {
		return appendInt(b, n)
	}
	from := len(b)
	switch n := len(s); {
	case n < 64:
		b = append(b, 0x80|byte(n))
	case n < 4096:
		b = append(b, 0xe0|byte(n>>8), byte(n))
	default:
		b = binary.LittleEndian.AppendUint32(append(b, 0xf0), uint32(n)) //nolint:gosec // at most LargestEntry
	}
	return appendBack(append(b, s...), from)
}

// newListpack makes an empty one, without its end, with room for size bytes of elements.
func newListpack(size int) []byte { return make([]byte, headBytes, headBytes+size+1) }

// finish ends a listpack whose end is missing, and to which elements were added.
func finish(b []byte, elements int) []byte {
	b = append(b, endByte)
	binary.LittleEndian.PutUint32(b, uint32(len(b))) //nolint:gosec // checked by Add
	countElements(b, elements)
	return b
}

func countElements(b []byte, more int) {
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if n == unknownElements {
		return
	}
	binary.LittleEndian.PutUint16(b[4:], uint16(min(n+more, unknownElements))) //nolint:gosec // it fits
}

// An element is one of a listpack: a string, or a number when s is nil.
type element struct {
	s []byte
	n int64
}

// read returns the element at i, and where the next begins. The listpack is sound.
func read(b []byte, i int) (e element, next int) {
	switch c := b[i]; {
	case c < 0x80:
		return element{n: int64(c)}, i + 2
	case c < 0xc0:
		n := int(c & 0x3f)
		return element{s: b[i+1 : i+1+n : i+1+n]}, i + 2 + n
	case c < 0xe0:
		n := int64(c&0x1f)<<8 | int64(b[i+1])
		return element{n: n << 51 >> 51}, i + 3
	case c < 0xf0:
		n := int(c&0x0f)<<8 | int(b[i+1])
		return element{s: b[i+2 : i+2+n : i+2+n]}, i + 2 + n + backBytes(n+2)
	case c == 0xf0:
		n := int(binary.LittleEndian.Uint32(b[i+1:]))
		return element{s: b[i+5 : i+5+n : i+5+n]}, i + 5 + n + backBytes(n+5)
	case c == 0xf1:
		return element{n: int64(int16(binary.LittleEndian.Uint16(b[i+1:])))}, i + 4 //nolint:gosec // two's complement
	case c == 0xf2:
		u := uint32(b[i+1])<<8 | uint32(b[i+2])<<16 | uint32(b[i+3])<<24
		return element{n: int64(int32(u) >> 8)}, i + 5 //nolint:gosec // two's complement
	case c == 0xf3:
		return element{n: int64(int32(binary.LittleEndian.Uint32(b[i+1:])))}, i + 6 //nolint:gosec // two's complement
	}
	return element{n: int64(binary.LittleEndian.Uint64(b[i+1:]))}, i + 10 //nolint:gosec // two's complement
}

// skip returns where the element begins that is n behind the one at i.
func skip(b []byte, i, n int) int {
	for ; n > 0; n-- {
		switch c := b[i]; {
		case c < 0x80:
			i += 2
		case c < 0xc0:
			i += 2 + int(c&0x3f)
		default:
			_, i = read(b, i)
		}
	}
	return i
}

// before returns where the element begins that ends at i.
func before(b []byte, i int) int {
	n := 0
	for shift := 0; ; shift += 7 {
		i--
		n |= int(b[i]&0x7f) << shift
		if b[i] < 0x80 {
			return i - n
		}
	}
}

// check reads the element at i of a listpack that may be broken. end is where its last byte is.
func check(b []byte, i, end int) (e element, next int, ok bool) {
	if i >= end {
		return e, 0, false
	}
	size := 1
	switch c := b[i]; {
	case c < 0x80:
	case c < 0xc0:
		size = 1 + int(c&0x3f)
	case c < 0xe0:
		size = 2
	case c < 0xf0:
		if end-i < 2 {
			return e, 0, false
		}
		size = 2 + int(c&0x0f)<<8 + int(b[i+1])
	case c == 0xf0:
		if end-i < 5 {
			return e, 0, false
		}
		size = 5 + int(binary.LittleEndian.Uint32(b[i+1:]))
	case c <= 0xf3:
		size = 2 + int(c-0xf0)
	case c == 0xf4:
		size = 9
	default:
		return e, 0, false
	}
	if size > end-i || size+backBytes(size) > end-i {
		return e, 0, false
	}
	e, next = read(b, i)
	var buf [5]byte
	back := appendLength(buf[:0], size)
	return e, next, string(b[next-len(back):next]) == string(back)
}

// ReadElement reads the element at i of a listpack that may be broken: a string, or a number if text is nil. end is
// where the listpack's last byte is, and next where the next element begins.
func ReadElement(b []byte, i, end int) (text []byte, n int64, next int, ok bool) {
	e, next, ok := check(b, i, end)
	return e.s, e.n, next, ok
}

// replaceInt replaces the number at i, and returns the listpack, which may have moved.
func replaceInt(b []byte, i int, n int64) []byte {
	var buf [12]byte
	put := appendInt(buf[:0], n)
	_, next := read(b, i)
	if len(put) == next-i {
		copy(b[i:], put)
		return b
	}
	old, size := b, len(b)+len(put)-(next-i)
	if size > cap(b) {
		b = make([]byte, size, size+size/8)
		copy(b, old[:i])
	}
	b = b[:size]
	copy(b[i+len(put):], old[next:])
	copy(b[i:], put)
	binary.LittleEndian.PutUint32(b, uint32(size)) //nolint:gosec // as before
	return b
}
