package bloom

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// A Local is a filter in the memory of this process alone: the blocks of a [Filter] without a
// server. Its methods may be called by many goroutines at once.
type Local struct {
	spec Spec
	bitmap
}

// NewLocal returns an empty Local. It allocates its memory at once: 9.94 bits an item at an error
// rate of 0.01.
func NewLocal(spec Spec) (*Local, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	return &Local{spec: spec, bitmap: newBitmap(layoutFor(spec))}, nil
}

// Add adds an item. It reports whether the item is new; false may be a false positive. When several
// callers add the same item at once, at least one of them gets true.
func (l *Local) Add(item string) bool {
	s := l.spot(item)
	return l.set(&s)
}

// MayContain reports whether an item may have been added. False is certain.
func (l *Local) MayContain(item string) bool {
	s := l.spot(item)
	return l.has(&s)
}

// Stats counts the bits of the filter. It reads all of them.
func (l *Local) Stats() Info { return infoOf(generation{spec: l.spec, layout: l.layout}, l.count(), 0) }

// A bitmap has the shards of a generation in memory, with bits numbered as in Redis: the first bit
// of a byte is its highest.
type bitmap struct {
	layout
	words []uint64 // accessed atomically
}

func newBitmap(l layout) bitmap {
	return bitmap{layout: l, words: make([]uint64, l.blocks*(blockBits/64))}
}

// word returns the word of a bit of s, and the bit in it.
func (m *bitmap) word(s *spot, i int) (*uint64, uint64) {
	first := (int64(s.shard)*m.perShard() + s.block) * (blockBits / 64)
	return &m.words[first+int64(s.bits[i]>>6)], 1 << (63 - s.bits[i]&63)
}

func (m *bitmap) has(s *spot) bool {
	for i := range s.n {
		if w, b := m.word(s, i); atomic.LoadUint64(w)&b == 0 {
			return false
		}
	}
	return true
}

func (m *bitmap) set(s *spot) (isNew bool) {
	for i := range s.n {
		if w, b := m.word(s, i); atomic.OrUint64(w, b)&b == 0 {
			isNew = true
		}
	}
	return isNew
}

// merge sets the bits of a piece of a shard. The piece begins at the start of a block.
func (m *bitmap) merge(shard int, offset int64, piece string) {
	words := m.words[(int64(shard)*m.shardLen()+offset)/8:]
	for i := 0; i+8 <= len(piece); i += 8 {
		if w := binary.BigEndian.Uint64([]byte(piece[i : i+8])); w != 0 {
			atomic.OrUint64(&words[i/8], w)
		}
	}
}

// count returns how many bits are set.
func (m *bitmap) count() (n int64) {
	for i := range m.words {
		n += int64(bits.OnesCount64(atomic.LoadUint64(&m.words[i])))
	}
	return n
}
