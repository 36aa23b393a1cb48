package stream

import (
	"strconv"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A node has some entries, in Redis' form. It is a listpack of
//
//	live dead n name*n 0 entry*(live+dead)
//
// The first entry has the names. An entry is
//
//	flags ms seq value*n count        when it has the same names
//	flags ms seq n (name value)*n count   otherwise
//
// with the ID as the distance from the node's, and count the number of elements before it, for
// going backward. Entries that were deleted stay, with a flag.
type node struct {
	first ID // of the first entry that was added
	pack  []byte
}

const (
	flagDeleted   = 1
	flagSameNames = 2
)

func (n node) compare(id ID) int { return n.first.Compare(id) }

// A head is the part of a node before the entries.
type head struct {
	live, dead int
	pairs      int
	names      int // where they begin
	entries    int // likewise
}

func (n *node) head() (h head) {
	live, at := read(n.pack, headBytes)
	dead, at := read(n.pack, at)
	pairs, at := read(n.pack, at)
	h.live, h.dead, h.pairs, h.names = int(live.n), int(dead.n), int(pairs.n), at
	h.entries = skip(n.pack, at, h.pairs+1)
	return h
}

// An entry is one of a node.
type entry struct {
	id    ID
	flags byte
	pairs int
	at    int // where its pairs begin, or its values
	end   int // where the next entry begins
}

func (e *entry) deleted() bool { return e.flags&flagDeleted != 0 }

// entry reads the entry at i.
func (n *node) entry(h head, i int) (e entry) {
	e = n.entryHead(h, i)
	values := e.pairs
	if e.flags&flagSameNames == 0 {
		values *= 2
	}
	e.end = skip(n.pack, e.at, values+1)
	return e
}

// entryHead is entry without its end.
func (n *node) entryHead(h head, i int) (e entry) {
	e.flags, e.pairs = n.pack[i], h.pairs // a number of 7 bits is itself
	ms, i := read(n.pack, i+2)
	seq, i := read(n.pack, i)
	e.id = ID{n.first.MS + uint64(ms.n), n.first.Seq + uint64(seq.n)} //nolint:gosec // may wrap, as in Redis
	if e.flags&flagSameNames == 0 {
		var pairs element
		pairs, i = read(n.pack, i)
		e.pairs = int(pairs.n)
	}
	e.at = i
	return e
}

// start returns where the entry begins that ends at i, 0 when there is none.
func (n *node) start(i int) int {
	i = before(n.pack, i)
	count, _ := read(n.pack, i)
	if count.n == 0 {
		return 0 // the 0 behind the names
	}
	for range count.n {
		i = before(n.pack, i)
	}
	return i
}

// lastID is the ID of the last entry, deleted or not.
func (n *node) lastID() ID {
	return n.entryHead(n.head(), n.start(len(n.pack)-1)).id
}

// full reports whether an entry of size bytes goes into a new node.
func (n *node) full(limits Limits, size int) bool {
	most := limits.Bytes
	if most <= 0 || most > LargestEntry {
		most = LargestEntry
	}
	if len(n.pack)+size >= most {
		return true
	}
	if limits.Entries <= 0 {
		return false
	}
	live, at := read(n.pack, headBytes)
	dead, _ := read(n.pack, at)
	return live.n+dead.n >= int64(limits.Entries)
}

func newNode(id ID, pairs [][]byte, bytes *int64) node {
	size := 40
	for _, p := range pairs {
		size += mostBytes(len(p))
	}
	b := newListpack(size)
	b = appendInt(appendInt(appendInt(b, 1), 0), int64(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		b = appendElement(b, pairs[i])
	}
	b = appendInt(b, 0)
	b = appendEntry(b, ID{}, pairs, true)
	b = finish(b, 4+len(pairs)/2+entryElements(len(pairs), true))
	if cap(b) > len(b) {
		b = append(make([]byte, 0, len(b)), b...)
	}
	*bytes += sizeclass.Of(cap(b))
	return node{id, b}
}

// entryElements is the number of elements of an entry.
func entryElements(strings int, same bool) int {
	if same {
		return 4 + strings/2
	}
	return 5 + strings
}

// appendEntry appends an entry whose ID is distance from the node's.
func appendEntry(b []byte, distance ID, pairs [][]byte, same bool) []byte {
	flags := int64(0)
	if same {
		flags = flagSameNames
	}
	b = appendInt(b, flags)
	b = appendInt(b, int64(distance.MS))  //nolint:gosec // two's complement, as in Redis
	b = appendInt(b, int64(distance.Seq)) //nolint:gosec // likewise
	if !same {
		b = appendInt(b, int64(len(pairs)/2))
	}
	for i, p := range pairs {
		if !same || i%2 == 1 {
			b = appendElement(b, p)
		}
	}
	return appendInt(b, int64(entryElements(len(pairs), same)-1))
}

// add appends an entry to a node that is not full.
func (n *node) add(limits Limits, id ID, pairs [][]byte, bytes *int64) {
	h := n.head()
	same := n.sameNames(h, pairs)
	size := 24
	for i, p := range pairs {
		if !same || i%2 == 1 {
			size += mostBytes(len(p))
		}
	}
	n.count(h.live+1, h.dead, bytes)
	if need := len(n.pack) + size; need > cap(n.pack) {
		room := need + len(n.pack)/2
		if limits.Bytes > 0 && need <= limits.Bytes+size {
			room = min(room, max(need, limits.Bytes))
		}
		n.resize(room, bytes)
	}
	b := appendEntry(n.pack[:len(n.pack)-1], ID{id.MS - n.first.MS, id.Seq - n.first.Seq}, pairs, same)
	n.pack = finish(b, entryElements(len(pairs), same))
}

// sameNames reports whether the names of pairs are the node's.
func (n *node) sameNames(h head, pairs [][]byte) bool {
	if h.pairs != len(pairs)/2 {
		return false
	}
	var buf [20]byte
	var e element
	for i, at := 0, h.names; i < len(pairs); i += 2 {
		if e, at = read(n.pack, at); string(e.text(buf[:0])) != string(pairs[i]) {
			return false
		}
	}
	return true
}

// text returns the element as text, in buf when it is a number.
func (e element) text(buf []byte) []byte {
	if e.s != nil {
		return e.s
	}
	return strconv.AppendInt(buf, e.n, 10)
}

// count sets the number of live and of deleted entries.
func (n *node) count(live, dead int, bytes *int64) {
	old := cap(n.pack)
	n.pack = replaceInt(n.pack, headBytes, int64(live))
	_, at := read(n.pack, headBytes)
	n.pack = replaceInt(n.pack, at, int64(dead))
	*bytes += sizeclass.Of(cap(n.pack)) - sizeclass.Of(old)
}

// resize gives the listpack an array of size bytes, if that takes more memory or less.
func (n *node) resize(size int, bytes *int64) {
	if sizeclass.Of(size) == sizeclass.Of(cap(n.pack)) && size <= cap(n.pack) {
		return
	}
	*bytes += sizeclass.Of(size) - sizeclass.Of(cap(n.pack))
	n.pack = append(make([]byte, 0, size), n.pack...)
}
