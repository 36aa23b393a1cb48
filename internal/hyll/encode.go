package hyll

// Encode returns the bytes of registers, in the sparse form where Redis would choose it.
func Encode(registers *[Registers]byte) []byte {
	b := make([]byte, header, header+512)
	copy(b, "HYLL")
	b[4] = sparse
	Stale(b)
	for i := 0; i < Registers; {
		v, n := registers[i], 1
		for i+n < Registers && registers[i+n] == v {
			n++
		}
		i += n
		switch {
		case v == 0:
			b = appendZeros(b, n)
		case v <= 32:
			for ; n > 0; n -= 4 {
				b = appendValue(b, int(v), min(n, 4))
			}
		}
		if v > 32 || len(b) > sparseMax {
			return EncodeDense(registers)
		}
	}
	return b
}

// EncodeDense returns the bytes of registers in the dense form.
func EncodeDense(registers *[Registers]byte) []byte {
	b := make([]byte, denseSize)
	copy(b, "HYLL")
	b[4] = dense
	Stale(b)
	for i, to := 0, header; i < Registers; i, to = i+4, to+3 { // four registers are three bytes
		v := uint32(registers[i]) | uint32(registers[i+1])<<6 | uint32(registers[i+2])<<12 | uint32(registers[i+3])<<18
		b[to], b[to+1], b[to+2] = byte(v), byte(v>>8), byte(v>>16)
	}
	return b
}

// EstimateOf returns the cardinality of registers.
func EstimateOf(registers *[Registers]byte) uint64 {
	var histogram [64]int
	for _, v := range registers {
		histogram[v&63]++
	}
	return Estimate(&histogram)
}

// Element returns 8 bytes that raise the register to count, 1 to 51, when they are added. It runs
// the hash backwards: for 8 bytes the hash is a bijection.
func Element(register int, count byte) string {
	h := uint64(register) | 1<<(13+count) // for 51 the shift drops the bit
	h ^= h >> 47
	h *= inverse
	h ^= h >> 47
	const begin = seed ^ 8*multiplier&(1<<64-1)
	k := (h*inverse ^ begin) * inverse
	k ^= k >> 47
	k *= inverse
	var b [8]byte
	for i := range b {
		b[i] = byte(k >> (8 * i))
	}
	return string(b[:])
}

// inverse is the inverse of multiplier modulo 2^64.
var inverse = func() uint64 {
	x := uint64(multiplier)
	for range 6 { // three bits are right at first, and each step doubles their number
		x *= 2 - multiplier*x
	}
	return x
}()
