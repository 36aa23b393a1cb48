package lua

import (
	"math"
	"math/bits"
)

func (st *state) openBit() {
	t := st.newTable(0, 16)
	fns := map[string]native{
		"tobit": bit1(func(b uint32) uint32 { return b }),
		"bnot":  bit1(func(b uint32) uint32 { return ^b }),
		"bswap": bit1(bits.ReverseBytes32),
		"band":  bitN(func(a, b uint32) uint32 { return a & b }),
		"bor":   bitN(func(a, b uint32) uint32 { return a | b }),
		"bxor":  bitN(func(a, b uint32) uint32 { return a ^ b }),

		"lshift":  bit2(func(b, n uint32) uint32 { return b << n }),
		"rshift":  bit2(func(b, n uint32) uint32 { return b >> n }),
		"arshift": bit2(func(b, n uint32) uint32 { return uint32(int32(b) >> n) }),
		"rol":     bit2(func(b, n uint32) uint32 { return bits.RotateLeft32(b, int(n)) }),
		"ror":     bit2(func(b, n uint32) uint32 { return bits.RotateLeft32(b, -int(n)) }),
		"tohex":   bitToHex,
	}
	st.register(t, fns)
	st.globals.setField(st, "bit", value{o: t})
}

// bitArg rounds a number to an integer and takes its low 32 bits, by the
// same addition that the C library does.
func (l *thread) bitArg(i int) uint32 {
	v := l.arg(i)
	n, ok := l.st.toNumber(&v)
	if !ok {
		l.argTypeError(i, "number")
	}
	return uint32(math.Float64bits(n + 6755399441055744.0))
}

func (l *thread) pushBits(b uint32) int {
	l.pushNum(float64(int32(b)))
	return 1
}

func bit1(f func(uint32) uint32) native {
	return func(l *thread) int { return l.pushBits(f(l.bitArg(1))) }
}

func bit2(f func(b, n uint32) uint32) native {
	return func(l *thread) int { return l.pushBits(f(l.bitArg(1), l.bitArg(2)&31)) }
}

func bitN(f func(a, b uint32) uint32) native {
	return func(l *thread) int {
		b := l.bitArg(1)
		for i := l.nargs(); i > 1; i-- {
			b = f(b, l.bitArg(i))
		}
		return l.pushBits(b)
	}
}

func bitToHex(l *thread) int {
	b := l.bitArg(1)
	n := int32(8)
	if !l.none(2) {
		n = int32(l.bitArg(2))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n = -n
		digits = "0123456789ABCDEF"
	}
	if n > 8 || n < 0 {
		n = 8
	}
	var buf [8]byte
	for i := int(n) - 1; i >= 0; i-- {
		buf[i] = digits[b&15]
		b >>= 4
	}
	l.pushStr(string(buf[:n]))
	return 1
}
