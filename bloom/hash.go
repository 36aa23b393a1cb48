package bloom

import (
	"math/bits"

	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

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

// A spot is the place of an item in a filter: a block, and bits in it.
type spot struct {
	shard int
	block int64 // within the shard
	n     int
	bits  [maxHashes]uint16
}

// spot returns the place of item. The high bits of the hash choose the block, and mix makes the
// positions.
func (l layout) spot(item string) (s spot) {
	h := wire.Murmur64A(item, 0)
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
