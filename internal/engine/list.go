package engine

import "github.com/redoubt-go/redoubt/internal/sizeclass"

// A list is a deque of chunks, whose elements lie one behind the other as bytes. Both ends cost
// O(1). The middle costs the number of chunks and one chunk's elements; an insertion moves at most
// one chunk. A list of one chunk is Redis' listpack, a longer list its quicklist: here too the
// elements have no headers, and the garbage collector scans none of them.
//
// Strings that a list returns point into it: they are valid until the list changes.
type list struct {
	first, last *chunk
	n           int
	taken       int   // bytes of all chunks, as they are allocated, without their headers
	own         chunk // the first that there was: most lists have no other
}

// chunkBytes is the greatest length of a chunk with more than one element, as with Redis'
// list-max-listpack-size of -1. Twice as much, Redis' default, makes an insertion in the middle
// cost twice as much.
const chunkBytes = 4096

// A chunk has its elements in buf[from:to]. An element is its length, its bytes, and its length
// again for reading backwards. A length is a varint, the second one with its bytes in reverse.
type chunk struct {
	prev, next *chunk
	buf        []byte
	from, to   int32
	n          int32
}

func (l *list) len() int { return l.n }

// lengthBytes is how many bytes a length takes.
func lengthBytes(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// entryBytes is the size of an element of n bytes in a chunk.
func entryBytes(n int) int { return n + 2*lengthBytes(n) }

// putEntry writes an element at b[0:].
func putEntry(b []byte, s string) {
	i, n := 0, len(s)
	for ; n >= 0x80; n >>= 7 {
		b[i] = byte(n) | 0x80
		i++
	}
	b[i] = byte(n)
	end := i + 1 + copy(b[i+1:], s) + i
	for j := range i + 1 {
		b[end-j] = b[j]
	}
}

// value returns the element at i, and where the next begins.
func (k *chunk) value(i int) (s string, next int) {
	n := int(k.buf[i])
	if n < 0x80 {
		return text(k.buf[i+1 : i+1+n]), i + n + 2
	}
	n &= 0x7f
	size := 1
	for shift := 7; ; shift += 7 {
		b := k.buf[i+size]
		size++
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return text(k.buf[i+size : i+size+n]), i + n + 2*size
}

// before returns where the element begins that ends at i.
func (k *chunk) before(i int) int {
	n, size := 0, 0
	for shift := 0; ; shift += 7 {
		size++
		b := k.buf[i-size]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return i - n - 2*size
		}
	}
}

// newChunk makes a chunk of at least size bytes, to be filled from the front or from the back.
func (l *list) newChunk(size int, front bool) *chunk {
	return l.makeChunk(&chunk{}, size, front)
}

// makeChunk is newChunk in the memory of k.
func (l *list) makeChunk(k *chunk, size int, front bool) *chunk {
	size = int(sizeclass.Of(size))
	l.taken += size
	*k = chunk{buf: make([]byte, size)}
	if front {
		k.from = int32(size) //nolint:gosec // a string has at most 512 MB
		k.to = k.from
	}
	return k
}

// room makes space for an element of need bytes at one end of k. It returns
// false when k is full.
func (l *list) room(k *chunk, need int, front bool) bool {
	used := int(k.to - k.from)
	switch {
	case k.n > 0 && used+need > chunkBytes:
		return false
	case front && int(k.from) >= need || !front && len(k.buf)-int(k.to) >= need:
		return true
	}
	l.resize(k, max(used+need, min(used+need+used/2, chunkBytes)), front)
	return true
}

// resize gives k an array of at least size bytes, its own if that is enough, and
// moves the elements to the end of it or to its beginning.
func (l *list) resize(k *chunk, size int, toEnd bool) {
	old := k.buf[k.from:k.to]
	if size > len(k.buf) {
		l.taken -= len(k.buf)
		size = int(sizeclass.Of(size))
		l.taken += size
		k.buf = make([]byte, size)
	}
	k.from = 0
	if toEnd {
		k.from = int32(len(k.buf) - len(old)) //nolint:gosec // a string has at most 512 MB
	}
	k.to = k.from + int32(copy(k.buf[k.from:], old)) //nolint:gosec // likewise
}

// reserve makes a list that is empty ready for elements of size bytes in all.
func (l *list) reserve(size int, front bool) {
	if l.first == nil {
		l.first = l.makeChunk(&l.own, min(size, chunkBytes), front)
		l.last = l.first
	}
}

func (l *list) pushFront(s string) {
	need := entryBytes(len(s))
	l.reserve(need, true)
	if !l.room(l.first, need, true) {
		k := l.newChunk(max(need, chunkBytes), true)
		k.next, l.first.prev, l.first = l.first, k, k
	}
	k := l.first
	k.from -= int32(need) //nolint:gosec // a string has at most 512 MB
	putEntry(k.buf[k.from:], s)
	k.n++
	l.n++
}

func (l *list) pushBack(s string) {
	need := entryBytes(len(s))
	l.reserve(need, false)
	if !l.room(l.last, need, false) {
		k := l.newChunk(max(need, chunkBytes), false)
		k.prev, l.last.next, l.last = l.last, k, k
	}
	k := l.last
	putEntry(k.buf[k.to:], s)
	k.to += int32(need) //nolint:gosec // a string has at most 512 MB
	k.n++
	l.n++
}

func (l *list) popFront() string {
	k := l.first
	s, next := k.value(int(k.from))
	k.from = int32(next) //nolint:gosec // inside of the chunk
	l.removed(k)
	return s
}

func (l *list) popBack() string {
	k := l.last
	k.to = int32(k.before(int(k.to))) //nolint:gosec // inside of the chunk
	s, _ := k.value(int(k.to))
	l.removed(k)
	return s
}

// end returns the place of the first element or of the last.
func (l *list) end(front bool) place {
	if front {
		return place{l.first, int(l.first.from)}
	}
	return place{l.last, l.last.before(int(l.last.to))}
}

// drop removes n elements at one end. It costs the number of their chunks.
func (l *list) drop(n int, front bool) {
	for n > 0 {
		k := l.last
		if front {
			k = l.first
		}
		gone := min(n, int(k.n))
		switch {
		case gone == int(k.n):
			l.unlink(k)
		case front:
			k.from = int32(k.at(gone).i) //nolint:gosec // inside of the chunk
		default:
			k.to = int32(k.at(int(k.n) - gone).i) //nolint:gosec // inside of the chunk
		}
		k.n -= int32(gone) //nolint:gosec // at most k.n
		l.n -= gone
		n -= gone
	}
}

func (l *list) removed(k *chunk) {
	l.n--
	if k.n--; k.n == 0 {
		l.unlink(k)
	}
}

func (l *list) unlink(k *chunk) {
	l.taken -= len(k.buf)
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.prev = k.prev
	}
	k.prev, k.next, k.buf = nil, nil, nil // own stays as long as the list, and would keep them
}

// A place is an element of a list. Changes elsewhere make it invalid.
type place struct {
	k *chunk
	i int
}

func (p place) ok() bool { return p.k != nil }

func (p place) value() string {
	s, _ := p.k.value(p.i)
	return s
}

// at returns the place of the element i, 0 ≤ i < n.
func (l *list) at(i int) place {
	if i < l.n/2 {
		k := l.first
		for ; i >= int(k.n); k = k.next {
			i -= int(k.n)
		}
		return k.at(i)
	}
	i = l.n - 1 - i
	k := l.last
	for ; i >= int(k.n); k = k.prev {
		i -= int(k.n)
	}
	return k.at(int(k.n) - 1 - i)
}

// at returns the place of the element i of a chunk, from the end that is nearer.
func (k *chunk) at(i int) place {
	if i < int(k.n)/2 {
		at := int(k.from)
		for ; i > 0; i-- {
			_, at = k.value(at)
		}
		return place{k, at}
	}
	at := int(k.to)
	for i = int(k.n) - i; i > 0; i-- {
		at = k.before(at)
	}
	return place{k, at}
}

func (p place) next() place {
	_, p.i = p.k.value(p.i)
	if p.i < int(p.k.to) {
		return p
	}
	if p.k = p.k.next; p.k == nil {
		return place{}
	}
	p.i = int(p.k.from)
	return p
}

func (p place) prev() place {
	if p.i > int(p.k.from) {
		p.i = p.k.before(p.i)
		return p
	}
	if p.k = p.k.prev; p.k == nil {
		return place{}
	}
	p.i = p.k.before(int(p.k.to))
	return p
}

func (l *list) set(p place, s string) {
	k, offset := p.k, p.i-int(p.k.from)
	old, next := k.value(p.i)
	if len(old) == len(s) {
		putEntry(k.buf[p.i:], s)
		return
	}
	if k.n == 1 && len(k.buf) > 2*chunkBytes && entryBytes(len(s)) < len(k.buf)/2 {
		l.taken -= len(k.buf) // a long element gives way to a short one
		k.buf, k.from, k.to = nil, 0, 0
	} else {
		k.to -= int32(next - p.i) //nolint:gosec // inside of the chunk
		copy(k.buf[p.i:k.to], k.buf[next:])
	}
	k.n--
	l.n--
	l.insertAt(k, offset, s)
}

// remove takes the element at p out. Going forward, the place of the element
// behind it is p itself when that is still inside the chunk.
func (l *list) remove(p place) {
	k := p.k
	_, next := k.value(p.i)
	copy(k.buf[p.i:], k.buf[next:k.to])
	k.to -= int32(next - p.i) //nolint:gosec // inside of the chunk
	l.removed(k)
}

// insert puts s before p, or behind it.
func (l *list) insert(p place, s string, before bool) {
	k, i := p.k, p.i
	if !before {
		_, i = k.value(i)
	}
	l.insertAt(k, i-int(k.from), s)
}

// insertAt puts s into k, at offset bytes from its first element. A chunk that is
// full is divided there.
func (l *list) insertAt(k *chunk, offset int, s string) {
	need := entryBytes(len(s))
	if !l.room(k, need, false) {
		if offset == 0 {
			k = l.link(l.newChunk(need, false), k.prev)
		} else {
			l.divide(k, offset)
			if !l.room(k, need, false) {
				k, offset = l.link(l.newChunk(need, false), k), 0
			}
		}
	}
	i := int(k.from) + offset
	copy(k.buf[i+need:], k.buf[i:k.to])
	putEntry(k.buf[i:], s)
	k.to += int32(need) //nolint:gosec // a string has at most 512 MB
	k.n++
	l.n++
}

// link puts a new chunk behind prev, which may be nil, and returns it.
func (l *list) link(k, prev *chunk) *chunk {
	k.prev, k.next = prev, l.first
	if prev != nil {
		k.next, prev.next = prev.next, k
	} else {
		l.first = k
	}
	if k.next != nil {
		k.next.prev = k
	} else {
		l.last = k
	}
	return k
}

// divide moves the elements from offset on into a chunk of their own.
func (l *list) divide(k *chunk, offset int) {
	tail := k.buf[int(k.from)+offset : k.to]
	if len(tail) == 0 {
		return
	}
	half := l.link(l.newChunk(len(tail), false), k)
	half.to = int32(copy(half.buf, tail)) //nolint:gosec // inside of the chunk
	for i := 0; i < int(half.to); half.n++ {
		_, i = half.value(i)
	}
	k.n -= half.n
	k.to -= half.to
}

// all calls f for each element until it returns false.
func (l *list) all(f func(string) bool) {
	for k := l.first; k != nil; k = k.next {
		for i := int(k.from); i < int(k.to); {
			var s string
			if s, i = k.value(i); !f(s) {
				return
			}
		}
	}
}
