package engine

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A dict is a hash table with string keys that grows and shrinks a little
// with each operation, never all at once, and that can be scanned while it
// does so.
//
// It is chained and its size is a power of two. While it is being resized
// there are two tables; every operation moves one bucket from the first to the
// second. Buckets are allocated in segments when first used, so that even the
// step that doubles a table of millions costs no more than its directory. A
// Go map was rejected because it can't be scanned with a cursor or sampled
// evenly.
//
// A scan cursor counts with its bits reversed, which gives the guarantee of
// Redis' SCAN: whatever is in the dict from the first call to the last is
// returned at least once, through any resizing.
type dict[V any] struct {
	tables [2]table[V]
	moved  uint64 // buckets of tables[0] below this have been moved
	resize bool
}

// An entry is a key with its value, in the chain of its bucket.
type entry[V any] struct {
	next *entry[V]
	key  string
	hash uint32
	aux  int32 // for the owner of the dict: its place in a heap
	val  V
}

// place makes aux the place in deadlines.
func (e *entry[V]) place() *int32 { return &e.aux }

type table[V any] struct {
	segments [][]*entry[V]
	only     []*entry[V] // the segment of a table that has one: a way to it that is shorter by a cache line
	mask     uint64
	used     int
}

const (
	segmentBits = 12
	segmentMask = 1<<segmentBits - 1
	leastSize   = 4
)

var seed = maphash.MakeSeed()

func hashOf(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }

// view returns the bytes of s, which must not be written to. They are not nil:
// an argument that is empty is not one that is missing.
func view(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// text returns b as a string that must not outlive the next write to b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func newTable[V any](size uint64) table[V] {
	t := table[V]{mask: size - 1}
	if size <= 1<<segmentBits {
		t.only = make([]*entry[V], size)
		t.segments = [][]*entry[V]{t.only}
	} else {
		t.segments = make([][]*entry[V], size>>segmentBits)
	}
	return t
}

func (t *table[V]) head(i uint64) *entry[V] {
	if i < uint64(len(t.only)) {
		return t.only[i]
	}
	s := t.segments[i>>segmentBits]
	if s == nil {
		return nil
	}
	return s[i&segmentMask]
}

// slot returns the bucket i for writing.
func (t *table[V]) slot(i uint64) **entry[V] {
	s := t.segments[i>>segmentBits]
	if s == nil {
		s = make([]*entry[V], 1<<segmentBits)
		t.segments[i>>segmentBits] = s
	}
	return &s[i&segmentMask]
}

func (t *table[V]) push(e *entry[V]) {
	p := t.slot(uint64(e.hash) & t.mask)
	e.next, *p = *p, e
	t.used++
}

func (d *dict[V]) len() int { return d.tables[0].used + d.tables[1].used }

// get returns the entry of key, or nil.
func (d *dict[V]) get(key []byte) *entry[V] {
	if d.len() == 0 {
		return nil
	}
	if d.resize {
		d.step()
	}
	return d.find(key, hashOf(key))
}

func (d *dict[V]) find(key []byte, h uint32) *entry[V] {
	for i := range d.tables {
		t := &d.tables[i]
		if t.used > 0 {
			for e := t.head(uint64(h) & t.mask); e != nil; e = e.next {
				if e.hash == h && e.key == string(key) {
					return e
				}
			}
		}
	}
	return nil
}

// add returns the entry of key, which it copies when there was none.
func (d *dict[V]) add(key []byte) (e *entry[V], added bool) {
	if d.tables[0].segments == nil {
		d.tables[0] = newTable[V](leastSize)
	}
	if d.resize {
		d.step()
	}
	h := hashOf(key)
	if e := d.find(key, h); e != nil {
		return e, false
	}
	if !d.resize && uint64(d.tables[0].used) > d.tables[0].mask {
		d.resizeTo((d.tables[0].mask + 1) * 2)
	}
	e = newEntry[V](key)
	e.hash, e.aux = h, -1
	d.insert(e)
	return e, true
}

// newEntry makes an entry with a copy of key. If that takes no more memory, entry and key are one
// allocation: a comparison of keys then seldom waits for a second cache line.
func newEntry[V any](key []byte) *entry[V] {
	var e *entry[V]
	var room []byte
	own, size := int(unsafe.Sizeof(entry[V]{})), int(sizeclass.Of(len(key)))
	if sizeclass.Of(own+size) <= sizeclass.Of(own)+int64(size) {
		switch size {
		case 8:
			p := &struct {
				entry[V]
				room [8]byte
			}{}
			e, room = &p.entry, p.room[:]
		case 16:
			p := &struct {
				entry[V]
				room [16]byte
			}{}
			e, room = &p.entry, p.room[:]
		case 24:
			p := &struct {
				entry[V]
				room [24]byte
			}{}
			e, room = &p.entry, p.room[:]
		case 32:
			p := &struct {
				entry[V]
				room [32]byte
			}{}
			e, room = &p.entry, p.room[:]
		}
	}
	if e == nil {
		return &entry[V]{key: string(key)}
	}
	e.key = text(room[:copy(room, key)])
	return e
}

func (d *dict[V]) insert(e *entry[V]) {
	if d.resize {
		d.tables[1].push(e)
	} else {
		d.tables[0].push(e)
	}
}

// remove takes the entry of key out and returns it, or nil.
func (d *dict[V]) remove(key []byte) *entry[V] {
	if d.len() == 0 {
		return nil
	}
	if d.resize {
		d.step()
	}
	h := hashOf(key)
	for i := range d.tables {
		t := &d.tables[i]
		if t.used == 0 || t.head(uint64(h)&t.mask) == nil {
			continue
		}
		for p := t.slot(uint64(h) & t.mask); *p != nil; p = &(*p).next {
			if e := *p; e.hash == h && e.key == string(key) {
				*p, e.next = e.next, nil
				t.used--
				d.shrink()
				return e
			}
		}
	}
	return nil
}

func (d *dict[V]) shrink() {
	t := &d.tables[0]
	if d.resize || t.mask < 64 || uint64(t.used)*8 > t.mask {
		return
	}
	size := uint64(leastSize)
	if t.used > 2 {
		size = max(size, 1<<bits.Len64(uint64(t.used-1)))
	}
	d.resizeTo(size)
}

func (d *dict[V]) resizeTo(size uint64) {
	d.tables[1] = newTable[V](size)
	d.resize, d.moved = true, 0
}

// step moves one bucket, or skips a few that are empty.
func (d *dict[V]) step() {
	from, to := &d.tables[0], &d.tables[1]
	for range 16 {
		if from.used == 0 || d.moved > from.mask {
			d.tables[0], d.tables[1], d.resize = *to, table[V]{}, false
			return
		}
		s := from.segments[d.moved>>segmentBits]
		if s == nil {
			d.moved = (d.moved>>segmentBits + 1) << segmentBits
			continue
		}
		e := s[d.moved&segmentMask]
		s[d.moved&segmentMask] = nil
		d.moved++
		if d.moved&segmentMask == 0 {
			from.segments[(d.moved-1)>>segmentBits] = nil
		}
		if e == nil {
			continue
		}
		for e != nil {
			next := e.next
			from.used--
			to.push(e)
			e = next
		}
		return
	}
}

// each calls f for every entry until f returns false. f must not change the
// dict.
func (d *dict[V]) each(f func(*entry[V]) bool) {
	// Nothing is moved meanwhile: f may look into this dict, as SINTER k k does.
	defer func(resize bool) { d.resize = d.resize || resize }(d.resize)
	d.resize = false
	for i := range d.tables {
		for _, s := range d.tables[i].segments {
			for _, e := range s {
				for ; e != nil; e = e.next {
					if !f(e) {
						return
					}
				}
			}
		}
	}
}

// scan calls f for the entries of one bucket, and of the buckets in the larger
// table that it grows into, and returns the next cursor, 0 at the end.
func (d *dict[V]) scan(cursor uint64, f func(*entry[V])) uint64 {
	if d.len() == 0 {
		return 0
	}
	visit := func(t *table[V], i uint64) {
		for e := t.head(i & t.mask); e != nil; {
			next := e.next
			f(e)
			e = next
		}
	}
	small, large := &d.tables[0], &d.tables[0]
	if d.resize {
		large = &d.tables[1]
		if small.mask > large.mask {
			small, large = large, small
		}
	}
	visit(small, cursor)
	if !d.resize {
		return advance(cursor, small.mask)
	}
	for {
		visit(large, cursor)
		cursor = advance(cursor, large.mask)
		if cursor&(small.mask^large.mask) == 0 {
			return cursor
		}
	}
}

// advance increments the bits of v under mask from the highest down.
func advance(v, mask uint64) uint64 {
	return bits.Reverse64(bits.Reverse64(v|^mask) + 1)
}

// deepest is the length up to which entries of a chain are chosen evenly.
const deepest = 6

// random returns an entry, each with the same probability. The dict must not
// be empty.
func (d *dict[V]) random() *entry[V] {
	// Choose a bucket with a probability proportional to the length of its chain, by rejecting most
	// of the short chains. Chains longer than deepest are few; their entries are chosen a little
	// less often.
	total := d.tables[0].mask + 1
	if d.resize {
		d.step()
		if d.resize {
			total = d.tables[0].mask + d.tables[1].mask + 2
		} else {
			total = d.tables[0].mask + 1
		}
	}
	for {
		i := rand.Uint64N(total)
		var e *entry[V]
		if i <= d.tables[0].mask {
			e = d.tables[0].head(i)
		} else {
			e = d.tables[1].head(i - d.tables[0].mask - 1)
		}
		if e == nil {
			continue
		}
		n := 0
		for f := e; f != nil; f = f.next {
			n++
		}
		if at := rand.IntN(max(n, deepest)); at < n {
			for ; at > 0; at-- {
				e = e.next
			}
			return e
		}
	}
}

// some calls f for up to n entries that are near each other, from a place
// chosen at random: for samples that need not be as even as random's.
func (d *dict[V]) some(n int, f func(*entry[V])) {
	if d.len() == 0 {
		return
	}
	first := d.tables[0].mask + 1
	total := first
	if d.resize {
		total += d.tables[1].mask + 1
	}
	n = min(n, d.len())
	// At least half of the buckets are empty, so this may take several tries.
	for i, looks := rand.Uint64N(total), 16*n; n > 0 && looks > 0; looks-- {
		t, at := &d.tables[0], i
		if i >= first {
			t, at = &d.tables[1], i-first
		}
		for e := t.head(at); e != nil && n > 0; e = e.next {
			f(e)
			n--
		}
		if i++; i == total {
			i = 0
		}
	}
}
