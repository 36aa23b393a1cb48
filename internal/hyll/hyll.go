// Package hyll is HyperLogLog in the bytes of Redis: a header "HYLL", the encoding,
// three unused bytes, the cached cardinality as 8 little-endian bytes whose highest bit
// says that it is stale, and 16384 registers of 6 bits, packed (dense) or run length
// encoded (sparse).
package hyll

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Registers is the number of registers.
const Registers = 1 << 14

const (
	header    = 16
	q         = 64 - 14
	denseSize = header + Registers*6/8
	dense     = 0
	sparse    = 1
	sparseMax = 3000 // bytes, as hll-sparse-max-bytes
)

// New returns an empty HyperLogLog, which is sparse.
func New() []byte {
	b := make([]byte, header, header+8)
	copy(b, "HYLL")
	b[4] = sparse
	return append(b, 0x7f, 0xff) // 16384 zeros
}

// Is reports whether b looks like a HyperLogLog. It does not check sparse runs.
func Is(b []byte) bool {
	if len(b) < header || string(b[:4]) != "HYLL" || b[4] > sparse {
		return false
	}
	return b[4] != dense || len(b) == denseSize
}

// Dense reports whether b has the dense form.
func Dense(b []byte) bool { return b[4] == dense }

// Cached returns the cardinality that b caches, and false when it is stale.
func Cached(b []byte) (uint64, bool) {
	return binary.LittleEndian.Uint64(b[8:16]), b[15]&0x80 == 0
}

// Cache stores the cardinality in b.
func Cache(b []byte, n uint64) { binary.LittleEndian.PutUint64(b[8:16], n) }

// Stale marks the cached cardinality of b as stale.
func Stale(b []byte) { b[15] |= 0x80 }

// Get returns a register of the dense form.
func Get(b []byte, i int) byte { return denseGet(b[header:], i) }

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

// A Run is an opcode of the sparse form, of Size bytes: N registers of the value Val.
type Run struct{ at, Size, N, Val int }

// next reads the opcode at b[at:].
func next(b []byte, at int) (r Run, ok bool) {
	op := int(b[at])
	switch op >> 6 {
	case 0:
		return Run{at, 1, op&63 + 1, 0}, true
	case 1:
		if at+1 >= len(b) {
			return r, false
		}
		return Run{at, 2, (op&63<<8 | int(b[at+1])) + 1, 0}, true
	}
	return Run{at, 1, op&3 + 1, op>>2&31 + 1}, true
}

// Each calls f with every run of the sparse form and its first register. It reports false when the
// runs do not have 16384 registers.
func Each(b []byte, f func(first int, r Run)) bool {
	first := 0
	for at := header; at < len(b); {
		r, ok := next(b, at)
		if !ok || first+r.N > Registers {
			return false
		}
		f(first, r)
		first += r.N
		at += r.Size
	}
	return first == Registers
}

// ToDense returns the dense form, or false when the sparse one is corrupt.
func ToDense(b []byte) ([]byte, bool) {
	if b[4] == dense {
		return b, true
	}
	d := make([]byte, denseSize)
	copy(d, b[:header])
	d[4] = dense
	ok := Each(b, func(first int, r Run) {
		for i := range r.N {
			if r.Val > 0 {
				densePut(d[header:], first+i, byte(r.Val))
			}
		}
	})
	return d, ok
}

const (
	seed       = 0xadc83b19
	multiplier = 0xc6a4a7935bd1e995
)

// Hash is MurmurHash64A with the seed of Redis.
func Hash(b []byte) uint64 {
	const m = multiplier
	h := uint64(seed) ^ uint64(len(b))*m
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

// Position returns the register of an element and the length of its run of zeros.
func Position(element []byte) (register int, count byte) {
	h := Hash(element)
	register = int(h & (Registers - 1))
	h = h>>14 | 1<<q
	return register, byte(bits.TrailingZeros64(h)) + 1
}

// Set raises a register. It returns the bytes, which may have moved, whether they changed, and
// false when they are corrupt.
func Set(b []byte, register int, count byte) (out []byte, changed, ok bool) {
	if b[4] == dense {
		if denseGet(b[header:], register) >= count {
			return b, false, true
		}
		densePut(b[header:], register, count)
		return b, true, true
	}
	if count <= 32 {
		out, changed, ok, full := sparseSet(b, register, int(count))
		if !full {
			return out, changed, ok
		}
	}
	d, ok := ToDense(b)
	if !ok {
		return b, false, false
	}
	if denseGet(d[header:], register) < count {
		densePut(d[header:], register, count)
		changed = true
	}
	return d, changed, true
}

func appendZeros(dst []byte, n int) []byte {
	switch {
	case n == 0:
		return dst
	case n <= 64:
		return append(dst, byte(n-1))
	}
	return append(dst, 0x40|byte((n-1)>>8), byte(n-1))
}

func appendValue(dst []byte, val, n int) []byte {
	if n == 0 {
		return dst
	}
	return append(dst, 0x80|byte(val-1)<<2|byte(n-1))
}

// sparseSet splits the run that covers register. full says that the sparse form may not grow any
// more.
func sparseSet(b []byte, register, count int) (out []byte, changed, ok, full bool) {
	first, prev := 0, header
	var r Run
	at := header
	for at < len(b) {
		if r, ok = next(b, at); !ok {
			return b, false, false, false
		}
		if register < first+r.N {
			break
		}
		prev = at
		first += r.N
		at += r.Size
	}
	if at >= len(b) {
		return b, false, false, false
	}
	if r.Val >= count {
		return b, false, true, false
	}
	var buf [5]byte
	seq := buf[:0]
	before, after := register-first, first+r.N-1-register
	if r.Val > 0 {
		seq = appendValue(seq, r.Val, before)
		seq = appendValue(seq, count, 1)
		seq = appendValue(seq, r.Val, after)
	} else {
		seq = appendZeros(seq, before)
		seq = appendValue(seq, count, 1)
		seq = appendZeros(seq, after)
	}
	if more := len(seq) - r.Size; more > 0 && len(b)+more > sparseMax {
		return b, false, true, true
	}
	tail := b[at+r.Size:]
	if more := len(seq) - r.Size; more > 0 {
		b = append(b, seq[:more]...)
		copy(b[at+len(seq):], b[at+r.Size:len(b)-more])
	} else if more < 0 {
		copy(b[at+len(seq):], tail)
		b = b[:len(b)+more]
	}
	copy(b[at:], seq)
	b = join(b, prev)
	Stale(b)
	return b, true, true, false
}

// join merges neighbours of one value near at.
func join(b []byte, at int) []byte {
	for range 5 {
		if at >= len(b) {
			break
		}
		r, ok := next(b, at)
		if !ok {
			break
		}
		if r.Val > 0 && at+1 < len(b) && b[at+1]&0x80 != 0 {
			if s, _ := next(b, at+1); s.Val == r.Val && r.N+s.N <= 4 {
				b[at+1] = 0x80 | byte(r.Val-1)<<2 | byte(r.N+s.N-1)
				b = append(b[:at], b[at+1:]...)
				continue
			}
		}
		at += r.Size
	}
	return b
}

// Max raises max to the registers of b. It reports false when b is corrupt.
func Max(max *[Registers]byte, b []byte) bool {
	if b[4] == dense {
		for i := range max {
			if v := denseGet(b[header:], i); v > max[i] {
				max[i] = v
			}
		}
		return true
	}
	return Each(b, func(first int, r Run) {
		for i := range r.N {
			if byte(r.Val) > max[first+i] {
				max[first+i] = byte(r.Val)
			}
		}
	})
}

// Count estimates the cardinality of b. It reports false when b is corrupt.
func Count(b []byte) (uint64, bool) {
	var histogram [64]int
	if b[4] == dense {
		for i := range Registers {
			histogram[denseGet(b[header:], i)]++
		}
	} else if !Each(b, func(_ int, r Run) { histogram[r.Val] += r.N }) {
		return 0, false
	}
	return Estimate(&histogram), true
}

// Estimate returns the cardinality, given how often each value occurs (Ertl,
// "New cardinality estimation algorithms for HyperLogLog sketches", 2017).
func Estimate(histogram *[64]int) uint64 {
	const m = float64(Registers)
	const alphaInf = 0.721347520444481703680
	z := m * tau((m-float64(histogram[q+1]))/m)
	for i := q; i >= 1; i-- {
		z += float64(histogram[i])
		z *= 0.5
	}
	z += m * sigma(float64(histogram[0])/m)
	return uint64(math.Round(alphaInf * m * m / z))
}

func sigma(x float64) float64 {
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

func tau(x float64) float64 {
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
