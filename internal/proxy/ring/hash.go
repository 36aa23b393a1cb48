package ring

import (
	"crypto/md5" //nolint:gosec // it spreads keys, as in twemproxy
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A Hash is one of twemproxy's hash functions, by the name that it has there.
type Hash string

// The hash functions. All are kept for rings that exist: for a new one
// take [FNV64a], the default.
const (
	OneAtATime Hash = "one_at_a_time"
	MD5        Hash = "md5"
	// CRC16 has 32 bits, for the C forgets to cut it.
	CRC16 Hash = "crc16"
	// CRC32 is that of libmemcached, of 15 bits: on a [Ketama] ring it sends nearly
	// all keys to one server.
	CRC32 Hash = "crc32"
	// CRC32a is what others call CRC-32.
	CRC32a Hash = "crc32a"
	FNV64  Hash = "fnv1_64"
	// FNV64a is the lower half of the 64-bit FNV-1a.
	FNV64a  Hash = "fnv1a_64"
	FNV32   Hash = "fnv1_32"
	FNV32a  Hash = "fnv1a_32"
	Hsieh   Hash = "hsieh"
	Murmur  Hash = "murmur"
	Jenkins Hash = "jenkins"
)

// Hashes are all of them, in the order of twemproxy.
var Hashes = []Hash{OneAtATime, MD5, CRC16, CRC32, CRC32a, FNV64, FNV64a, FNV32, FNV32a, Hsieh, Murmur, Jenkins}

// functions are what the hashes compute. A char of C is signed where twemproxy
// was tested, x86-64.
var functions = map[Hash]func(key []byte) uint32{
	OneAtATime: oneAtATime,
	MD5:        func(key []byte) uint32 { return md5Points(key)[0] },
	CRC16:      crc16,
	CRC32:      func(key []byte) uint32 { return crc32.ChecksumIEEE(key) >> 16 & 0x7fff },
	CRC32a:     crc32.ChecksumIEEE,
	FNV64:      func(key []byte) uint32 { return fnv1(key, fnv64Offset, fnv64Prime) },
	FNV64a:     func(key []byte) uint32 { return fnv1a(key, fnv64Offset, fnv64Prime) },
	FNV32:      func(key []byte) uint32 { return fnv1(key, fnv32Offset, fnv32Prime) },
	FNV32a:     func(key []byte) uint32 { return fnv1a(key, fnv32Offset, fnv32Prime) },
	Hsieh:      hsieh,
	Murmur:     murmur,
	Jenkins:    jenkins,
}

// signed is a char as C extends it to 32 bits.
func signed(b byte) uint32 { return uint32(int8(b)) } //nolint:gosec // the wrap is meant

func md5Points(b []byte) (points [4]uint32) {
	sum := md5.Sum(b) //nolint:gosec // it spreads keys
	for i := range points {
		points[i] = binary.LittleEndian.Uint32(sum[4*i:])
	}
	return points
}

// oneAtATime is that of Bob Jenkins (Dr. Dobb's, 1997).
func oneAtATime(key []byte) (h uint32) {
	for _, b := range key {
		h += signed(b)
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	h += h << 15
	return h
}

var crc16Table = func() (table [256]uint32) {
	for i := range table {
		c := uint16(i) << 8 //nolint:gosec // i < 256
		for range 8 {
			over := c&0x8000 != 0
			c <<= 1
			if over {
				c ^= 0x1021
			}
		}
		table[i] = uint32(c)
	}
	return table
}()

// crc16 is CRC-16/XMODEM with what was shifted out of its 16 bits still there.
func crc16(key []byte) (h uint32) {
	for _, b := range key {
		h = h<<8 ^ crc16Table[byte(h>>8)^b]
	}
	return h
}

// The lower half of a product depends on the lower halves only. So the hashes of
// 64 bits are computed in 32.
const (
	fnv64Offset = 0xcbf29ce484222325 & 0xffffffff
	fnv64Prime  = 0x100000001b3 & 0xffffffff
	fnv32Offset = 2166136261
	fnv32Prime  = 16777619
)

func fnv1(key []byte, h, prime uint32) uint32 {
	for _, b := range key {
		h *= prime
		h ^= signed(b)
	}
	return h
}

func fnv1a(key []byte, h, prime uint32) uint32 {
	for _, b := range key {
		h ^= signed(b)
		h *= prime
	}
	return h
}

// hsieh is Paul Hsieh's SuperFastHash.
func hsieh(key []byte) (h uint32) {
	for len(key) >= 4 {
		h += uint32(binary.LittleEndian.Uint16(key))
		h = h<<16 ^ uint32(binary.LittleEndian.Uint16(key[2:]))<<11 ^ h
		h += h >> 11
		key = key[4:]
	}
	switch len(key) {
	case 3:
		h += uint32(binary.LittleEndian.Uint16(key))
		h ^= h << 16
		h ^= signed(key[2]) << 18
		h += h >> 11
	case 2:
		h += uint32(binary.LittleEndian.Uint16(key))
		h ^= h << 11
		h += h >> 17
	case 1:
		h += uint32(key[0])
		h ^= h << 10
		h += h >> 1
	}
	h ^= h << 3
	h += h >> 5
	h ^= h << 4
	h += h >> 17
	h ^= h << 25
	h += h >> 6
	return h
}

// murmur is Austin Appleby's MurmurHash2 with libmemcached's seed.
func murmur(key []byte) uint32 {
	const m = 0x5bd1e995
	n := uint32(len(key)) //nolint:gosec // keys are shorter
	h := 0xdeadbeef*n ^ n
	for len(key) >= 4 {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> 24
		h = h*m ^ k*m
		key = key[4:]
	}
	if len(key) > 0 {
		for i, b := range key {
			h ^= uint32(b) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// jenkins is Bob Jenkins' lookup3 (2006), hashlittle with initval 13.
func jenkins(key []byte) uint32 {
	a := 0xdeadbeef + uint32(len(key)) + 13 //nolint:gosec // keys are shorter
	b, c := a, a
	for len(key) > 12 {
		a += binary.LittleEndian.Uint32(key)
		b += binary.LittleEndian.Uint32(key[4:])
		c += binary.LittleEndian.Uint32(key[8:])
		a -= c
		a ^= bits.RotateLeft32(c, 4)
		c += b
		b -= a
		b ^= bits.RotateLeft32(a, 6)
		a += c
		c -= b
		c ^= bits.RotateLeft32(b, 8)
		b += a
		a -= c
		a ^= bits.RotateLeft32(c, 16)
		c += b
		b -= a
		b ^= bits.RotateLeft32(a, 19)
		a += c
		c -= b
		c ^= bits.RotateLeft32(b, 4)
		b += a
		key = key[12:]
	}
	if len(key) == 0 {
		return c
	}
	var tail [12]byte
	copy(tail[:], key)
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:])
	for _, step := range []struct {
		x, y *uint32
		by   int
	}{{&c, &b, 14}, {&a, &c, 11}, {&b, &a, 25}, {&c, &b, 16}, {&a, &c, 4}, {&b, &a, 14}, {&c, &b, 24}} {
		*step.x ^= *step.y
		*step.x -= bits.RotateLeft32(*step.y, step.by)
	}
	return c
}
