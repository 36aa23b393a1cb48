package bloom

import (
	"encoding/binary"
	"math/bits"
)

// murmur64A is Austin Appleby's MurmurHash64A. Its halves of 64 bits are what
// RedisBloom hashes with, and one of them is enough for the filters here.
func murmur64A(s string, seed uint64) uint64 {
	const m = 0xc6a4a7935bd1e995
	h := seed ^ uint64(len(s))*m
	for ; len(s) >= 8; s = s[8:] {
		k := binary.LittleEndian.Uint64([]byte(s[:8])) * m
		k = (k ^ k>>47) * m
		h = (h ^ k) * m
	}
	if len(s) > 0 {
		for i := range len(s) {
			h ^= uint64(s[i]) << (8 * i)
		}
		h *= m
	}
	h = (h ^ h>>47) * m
	return h ^ h>>47
}

// mix scatters the bits of x: the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const (
	blockBits  = 512
	blockBytes = blockBits / 8
	// A position in a block has 9 bits, so a hash of 64 bits gives 7 of them.
	perWord = 7
	// maxHashes bounds how many bits an item sets in its block.
	maxHashes = 16
)

// A spot is where an item is in a filter: a block and bits in it.
type spot struct {
	shard int
	block int64 // within the shard
	n     int
	bits  [maxHashes]uint16
}

// spot returns where item is. The block is chosen by the high bits of the hash,
// the positions by what mix makes of it.
func (l layout) spot(item string) (s spot) {
	h := murmur64A(item, 0)
	at, _ := bits.Mul64(h, uint64(l.blocks)) //nolint:gosec // never negative
	s.shard, s.block = int(int64(at)/l.perShard()), int64(at)%l.perShard()
	s.n = l.hashes
	for i := range s.n {
		if i%perWord == 0 {
			h = mix(h)
		}
		s.bits[i] = uint16(h >> (9 * (i % perWord)) & (blockBits - 1))
	}
	return s
}

// in reports whether a block, as GETRANGE returns it, has all bits of s.
func (s *spot) in(block string) bool {
	for _, b := range s.bits[:s.n] {
		if block[b>>3]&(0x80>>(b&7)) == 0 {
			return false
		}
	}
	return true
}
