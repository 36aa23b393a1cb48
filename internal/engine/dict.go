package engine

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
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
	shown  *atomic.Pointer[buckets[V]] // has the buckets of tables[0], for [Session.Prefetch]; nil: nobody asks
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
	buckets[V]
	used int
}

// Buckets are in the one segment that only is, or in as many as segments has. A segment is nil before it is first used,
// and after its last entry has been moved to another table. A bucket is the first entry of its chain.
//
// Any goroutine may load a bucket, and read the key and the hash of its entry.
type buckets[V any] struct {
	only     []bucket[V]
	segments []atomic.Pointer[[1 << segmentBits]bucket[V]]
	mask     uint64
}

type bucket[V any] = atomic.Pointer[entry[V]]

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

func newTable[V any](size uint64) (t table[V]) {
	t.mask = size - 1
	if size <= 1<<segmentBits {
		t.only = make([]bucket[V], size)
	} else {
		t.segments = make([]atomic.Pointer[[1 << segmentBits]bucket[V]], size>>segmentBits)
	}
	return t
}

// head returns the first entry of bucket i, or nil.
func (t *buckets[V]) head(i uint64) *entry[V] {
	if i < uint64(len(t.only)) {
		return t.only[i].Load()
	}
	s := t.segments[i>>segmentBits].Load()
	if s == nil {
		return nil
	}
	return s[i&segmentMask].Load()
}

// at returns bucket i, or nil if its segment is nil.
func (t *buckets[V]) at(i uint64) *bucket[V] {
	if i < uint64(len(t.only)) {
		return &t.only[i]
	}
	s := t.segments[i>>segmentBits].Load()
	if s == nil {
		return nil
	}
	return &s[i&segmentMask]
}

// drop makes the segment of bucket i nil.
func (t *buckets[V]) drop(i uint64) {
	if t.segments != nil {
		t.segments[i>>segmentBits].Store(nil)
	}
}

// all returns the segments that are not nil.
func (t *buckets[V]) all(yield func([]bucket[V]) bool) {
	if t.only != nil {
		yield(t.only)
		return
	}
	for i := range t.segments {
		if s := t.segments[i].Load(); s != nil && !yield(s[:]) {
			return
		}
	}
}

func (t *table[V]) push(e *entry[V]) {
	i := uint64(e.hash) & t.mask
	p := t.at(i)
	if p == nil {
		s := new([1 << segmentBits]bucket[V])
		t.segments[i>>segmentBits].Store(s)
		p = &s[i&segmentMask]
	}
	e.next = p.Load()
	p.Store(e)
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
	e, _, added = d.addWith(key, 0)
	return e, added
}

// addWith is add with room for the value of a new entry, as with create.
func (d *dict[V]) addWith(key []byte, n int) (e *entry[V], value []byte, added bool) {
	h := hashOf(key)
	if d.len() > 0 {
		if d.resize {
			d.step()
		}
		if e := d.find(key, h); e != nil {
			return e, nil, false
		}
	}
	e, value = d.createHashed(key, h, n)
	return e, value, true
}

// create adds an entry for key, which must have none. value has room for n bytes that are to be stored with
// the entry, or none.
func (d *dict[V]) create(key []byte, n int) (e *entry[V], value []byte) {
	return d.createHashed(key, hashOf(key), n)
}

func (d *dict[V]) createHashed(key []byte, h uint32, n int) (e *entry[V], value []byte) {
	if d.tables[0].mask == 0 {
		d.tables[0] = newTable[V](leastSize)
		d.show(d.shown)
	}
	if !d.resize && uint64(d.tables[0].used) > d.tables[0].mask {
		d.resizeTo((d.tables[0].mask + 1) * 2)
	}
	e, value = newEntry[V](key, n)
	e.hash, e.aux = h, -1
	d.insert(e)
	return e, value
}

// maxRoom is the room that an entry may have for its key and value.
const maxRoom = 64

// tinyBlock is what Go's allocator keeps for a few bytes if its neighbours in the block are garbage.
const tinyBlock = 16

// newEntry makes an entry with a copy of key. If that takes no more memory, entry and key are one allocation, with
// room for a value of n bytes: then a comparison of keys, and the value, seldom wait for another cache line.
func newEntry[V any](key []byte, n int) (e *entry[V], value []byte) {
	own := int64(unsafe.Sizeof(entry[V]{}))
	together := sizeclass.Of(int(own) + len(key) + n)
	apart := sizeclass.Of(int(own)) + sizeclass.Of(len(key))
	if n > 0 {
		apart += max(sizeclass.Of(n), tinyBlock)
	}
	if together > apart {
		if n > 0 {
			return newEntry[V](key, 0)
		}
		return &entry[V]{key: string(key)}, nil
	}
	var room []byte
	switch (together - own) / 8 {
	case 1:
		e, room = withRoom[V, [8]byte]()
	case 2:
		e, room = withRoom[V, [16]byte]()
	case 3:
		e, room = withRoom[V, [24]byte]()
	case 4:
		e, room = withRoom[V, [32]byte]()
	case 5:
		e, room = withRoom[V, [40]byte]()
	case 6:
		e, room = withRoom[V, [48]byte]()
	case 7:
		e, room = withRoom[V, [56]byte]()
	case 8:
		e, room = withRoom[V, [maxRoom]byte]()
	default:
		return &entry[V]{key: string(key)}, nil
	}
	k := copy(room, key)
	e.key = text(room[:k])
	if n == 0 {
		return e, nil
	}
	return e, room[k:k]
}

func withRoom[V, R any]() (*entry[V], []byte) {
	p := new(struct {
		entry[V]
		room R
	})
	return &p.entry, unsafe.Slice((*byte)(unsafe.Pointer(&p.room)), unsafe.Sizeof(p.room))
}

// holds reports whether the entry, its key and value are one allocation: see newEntry.
func (e *entry[V]) holds(value []byte) bool {
	key := uintptr(unsafe.Pointer(e)) + unsafe.Sizeof(*e)
	return cap(value) > 0 && uintptr(unsafe.Pointer(unsafe.StringData(e.key))) == key &&
		uintptr(unsafe.Pointer(unsafe.SliceData(value))) == key+uintptr(len(e.key))
}

// bytes is what the entry takes with its key and value, without its bucket.
func (e *entry[V]) bytes(value []byte) int64 {
	own := int(unsafe.Sizeof(*e))
	if e.holds(value) {
		return sizeclass.Of(own + len(e.key) + cap(value))
	}
	return sizeclass.Of(own) + sizeclass.Of(len(e.key)) + sizeclass.Of(cap(value))
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
		if t.used == 0 {
			continue
		}
		i := uint64(h) & t.mask
		var before *entry[V]
		for e := t.head(i); e != nil; before, e = e, e.next {
			if e.hash != h || e.key != string(key) {
				continue
			}
			if before == nil {
				t.at(i).Store(e.next)
			} else {
				before.next = e.next
			}
			e.next = nil
			t.used--
			d.shrink()
			return e
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

// show makes the buckets of the dict known at to, from now on.
func (d *dict[V]) show(to *atomic.Pointer[buckets[V]]) {
	d.shown = to
	switch b := d.tables[0].buckets; {
	case to == nil:
	case b.mask == 0: // it has none yet
		to.Store(nil)
	default:
		to.Store(&b)
	}
}

// step moves one bucket, or skips a few that are empty.
func (d *dict[V]) step() {
	from, to := &d.tables[0], &d.tables[1]
	for range 16 {
		if from.used == 0 || d.moved > from.mask {
			d.tables[0], d.tables[1], d.resize = *to, table[V]{}, false
			d.show(d.shown)
			return
		}
		p := from.at(d.moved)
		if p == nil {
			d.moved = (d.moved>>segmentBits + 1) << segmentBits
			continue
		}
		e := p.Load()
		if e != nil {
			p.Store(nil)
		}
		d.moved++
		if d.moved&segmentMask == 0 {
			from.drop(d.moved - 1)
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
		for s := range d.tables[i].all {
			for j := range s {
				for e := s[j].Load(); e != nil; e = e.next {
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

// draws is how many buckets random looks at together. It rejects most of them.
const draws = 8

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
		// The loads of the first two loops don't depend on each other, so that the processor waits for their
		// memory together.
		var chains, nexts [draws]*entry[V]
		for k := range chains {
			if i := rand.Uint64N(total); i <= d.tables[0].mask {
				chains[k] = d.tables[0].head(i)
			} else {
				chains[k] = d.tables[1].head(i - d.tables[0].mask - 1)
			}
		}
		for k, e := range chains {
			if e != nil {
				nexts[k] = e.next
			}
		}
		for k, e := range chains {
			if e == nil {
				continue
			}
			n := 1
			for f := nexts[k]; f != nil; f = f.next {
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
