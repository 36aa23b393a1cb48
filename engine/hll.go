package engine

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// HyperLogLog in the bytes of Redis: a header "HYLL", encoding, three unused
// bytes, the cached cardinality as 8 little-endian bytes whose highest bit
// says that it is stale, and 16384 registers of 6 bits, packed (dense) or run
// length encoded (sparse).
const (
	hllHeader    = 16
	hllRegisters = 1 << 14
	hllQ         = 64 - 14
	hllDenseSize = hllHeader + hllRegisters*6/8
	hllDense     = 0
	hllSparse    = 1
	hllSparseMax = 3000 // bytes, as hll-sparse-max-bytes
)

const errHLLCorrupt = "INVALIDOBJ Corrupted HLL object detected"

// newHLL returns an empty sparse HyperLogLog.
func newHLL() []byte {
	b := make([]byte, hllHeader, hllHeader+8)
	copy(b, "HYLL")
	b[4] = hllSparse
	return append(b, 0x7f, 0xff) // 16384 zeros
}

func isHLL(b []byte) bool {
	if len(b) < hllHeader || string(b[:4]) != "HYLL" || b[4] > hllSparse {
		return false
	}
	return b[4] != hllDense || len(b) == hllDenseSize
}

func hllStale(b []byte) { b[15] |= 0x80 }

func denseGet(r []byte, i int) byte {
	at, shift := i*6/8, i*6%8
	v := uint(r[at])
	if shift > 2 {
		v |= uint(r[at+1]) << 8
	}
	return byte(v>>shift) & 63
}

func densePut(r []byte, i int, v byte) {
	at, shift := i*6/8, i*6%8
	r[at] = r[at]&^byte(63<<shift) | v<<shift
	if shift > 2 {
		r[at+1] = r[at+1]&^byte(63>>(8-shift)) | v>>(8-shift)
	}
}

// A hllRun is an opcode of the sparse form: n registers of one value.
type hllRun struct{ at, size, n, val int }

// next reads the opcode at b[at:].
func hllNext(b []byte, at int) (r hllRun, ok bool) {
	op := int(b[at])
	switch op >> 6 {
	case 0:
		return hllRun{at, 1, op&63 + 1, 0}, true
	case 1:
		if at+1 >= len(b) {
			return r, false
		}
		return hllRun{at, 2, (op&63<<8 | int(b[at+1])) + 1, 0}, true
	}
	return hllRun{at, 1, op&3 + 1, op>>2&31 + 1}, true
}

// hllEach calls f with every run. It reports false when the registers are not
// 16384.
func hllEach(b []byte, f func(first int, r hllRun)) bool {
	first := 0
	for at := hllHeader; at < len(b); {
		r, ok := hllNext(b, at)
		if !ok || first+r.n > hllRegisters {
			return false
		}
		f(first, r)
		first += r.n
		at += r.size
	}
	return first == hllRegisters
}

// hllToDense returns the dense form, or false when the sparse one is corrupt.
func hllToDense(b []byte) ([]byte, bool) {
	if b[4] == hllDense {
		return b, true
	}
	d := make([]byte, hllDenseSize)
	copy(d, b[:hllHeader])
	d[4] = hllDense
	ok := hllEach(b, func(first int, r hllRun) {
		for i := range r.n {
			if r.val > 0 {
				densePut(d[hllHeader:], first+i, byte(r.val))
			}
		}
	})
	return d, ok
}

// murmur64A is MurmurHash2 for 64 bits, with the seed of Redis.
func murmur64A(b []byte) uint64 {
	const m = 0xc6a4a7935bd1e995
	h := uint64(0xadc83b19) ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k ^= k >> 47
		h = (h ^ k*m) * m
	}
	if len(b) > 0 {
		for i, x := range b {
			h ^= uint64(x) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 47
	h *= m
	return h ^ h>>47
}

// hllPosition returns the register of an element and the length of its run of
// zeros.
func hllPosition(element []byte) (register int, count byte) {
	h := murmur64A(element)
	register = int(h & (hllRegisters - 1))
	h = h>>14 | 1<<hllQ
	return register, byte(bits.TrailingZeros64(h)) + 1
}

// hllSet raises a register. It returns the value, which may have moved,
// whether it changed, and false when it is corrupt.
func hllSet(b []byte, register int, count byte) (out []byte, changed, ok bool) {
	if b[4] == hllDense {
		if denseGet(b[hllHeader:], register) >= count {
			return b, false, true
		}
		densePut(b[hllHeader:], register, count)
		return b, true, true
	}
	if count <= 32 {
		out, changed, ok, full := hllSparseSet(b, register, int(count))
		if !full {
			return out, changed, ok
		}
	}
	d, ok := hllToDense(b)
	if !ok {
		return b, false, false
	}
	if denseGet(d[hllHeader:], register) < count {
		densePut(d[hllHeader:], register, count)
		changed = true
	}
	return d, changed, true
}

func hllZeros(dst []byte, n int) []byte {
	switch {
	case n == 0:
		return dst
	case n <= 64:
		return append(dst, byte(n-1))
	}
	return append(dst, 0x40|byte((n-1)>>8), byte(n-1))
}

func hllValue(dst []byte, val, n int) []byte {
	if n == 0 {
		return dst
	}
	return append(dst, 0x80|byte(val-1)<<2|byte(n-1))
}

// hllSparseSet splits the run that covers register. full says that the sparse
// form may not grow any more.
func hllSparseSet(b []byte, register, count int) (out []byte, changed, ok, full bool) {
	first, prev := 0, hllHeader
	var r hllRun
	at := hllHeader
	for at < len(b) {
		if r, ok = hllNext(b, at); !ok {
			return b, false, false, false
		}
		if register < first+r.n {
			break
		}
		prev = at
		first += r.n
		at += r.size
	}
	if at >= len(b) {
		return b, false, false, false
	}
	if r.val >= count {
		return b, false, true, false
	}
	var buf [5]byte
	seq := buf[:0]
	before, after := register-first, first+r.n-1-register
	if r.val > 0 {
		seq = hllValue(seq, r.val, before)
		seq = hllValue(seq, count, 1)
		seq = hllValue(seq, r.val, after)
	} else {
		seq = hllZeros(seq, before)
		seq = hllValue(seq, count, 1)
		seq = hllZeros(seq, after)
	}
	if more := len(seq) - r.size; more > 0 && len(b)+more > hllSparseMax {
		return b, false, true, true
	}
	tail := b[at+r.size:]
	if more := len(seq) - r.size; more > 0 {
		b = append(b, seq[:more]...)
		copy(b[at+len(seq):], b[at+r.size:len(b)-more])
	} else if more < 0 {
		copy(b[at+len(seq):], tail)
		b = b[:len(b)+more]
	}
	copy(b[at:], seq)
	b = hllJoin(b, prev)
	hllStale(b)
	return b, true, true, false
}

// hllJoin merges neighbours of one value near at.
func hllJoin(b []byte, at int) []byte {
	for range 5 {
		if at >= len(b) {
			break
		}
		r, ok := hllNext(b, at)
		if !ok {
			break
		}
		if r.val > 0 && at+1 < len(b) && b[at+1]&0x80 != 0 {
			if s, _ := hllNext(b, at+1); s.val == r.val && r.n+s.n <= 4 {
				b[at+1] = 0x80 | byte(r.val-1)<<2 | byte(r.n+s.n-1)
				b = append(b[:at], b[at+1:]...)
				continue
			}
		}
		at += r.size
	}
	return b
}

// hllMax raises max to the registers of b.
func hllMax(max *[hllRegisters]byte, b []byte) bool {
	if b[4] == hllDense {
		for i := range max {
			if v := denseGet(b[hllHeader:], i); v > max[i] {
				max[i] = v
			}
		}
		return true
	}
	return hllEach(b, func(first int, r hllRun) {
		for i := range r.n {
			if byte(r.val) > max[first+i] {
				max[first+i] = byte(r.val)
			}
		}
	})
}

// hllCount estimates the cardinality from how often each value occurs (Ertl,
// "New cardinality estimation algorithms for HyperLogLog sketches", 2017).
func hllCount(b []byte) (uint64, bool) {
	var histogram [64]int
	if b[4] == hllDense {
		for i := range hllRegisters {
			histogram[denseGet(b[hllHeader:], i)]++
		}
	} else if !hllEach(b, func(_ int, r hllRun) { histogram[r.val] += r.n }) {
		return 0, false
	}
	return hllEstimate(&histogram), true
}

func hllEstimate(histogram *[64]int) uint64 {
	const m = float64(hllRegisters)
	const alphaInf = 0.721347520444481703680
	z := m * hllTau((m-float64(histogram[hllQ+1]))/m)
	for i := hllQ; i >= 1; i-- {
		z += float64(histogram[i])
		z *= 0.5
	}
	z += m * hllSigma(float64(histogram[0])/m)
	return uint64(math.Round(alphaInf * m * m / z))
}

func hllSigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

func hllTau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
