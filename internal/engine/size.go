package engine

import (
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
	"github.com/redoubt-go/redoubt/internal/stream"
)

// The engine knows the size of a key at any time without a walk. Each form of a value counts the
// bytes of its elements as they come and go, and size adds the overhead. All counts follow the size
// classes of Go's allocator, which rounds up.

const (
	bucketBytes = 16 // of a dict for each entry: it is between half full and full, and holds a pointer each
	itemBytes   = int64(unsafe.Sizeof(item{})) + bucketBytes
	heapBytes   = int64(unsafe.Sizeof(due[*item]{})) // of an expiryHeap for each entry

	listBytes = int64(unsafe.Sizeof(object{}) + unsafe.Sizeof(list{}))
	chunkHead = int64(unsafe.Sizeof(chunk{}))
	hashBytes = int64(unsafe.Sizeof(object{}) + unsafe.Sizeof(hash{}))
	setBytes  = int64(unsafe.Sizeof(object{}) + unsafe.Sizeof(set{}))
	zsetBytes = int64(unsafe.Sizeof(object{}) + unsafe.Sizeof(zset{}))
	// streamBytes is what newStream allocates beside the Stream, whose Bytes counts that.
	streamBytes = int64(unsafe.Sizeof(object{}))
	treeBytes   = int64(unsafe.Sizeof(ztree{})+unsafe.Sizeof(znode{})) + leastTable
	// Go's allocator rounds these up to 16.
	fieldBytes  = int64((unsafe.Sizeof(entry[field]{})+15)&^15) + bucketBytes
	memberBytes = int64((unsafe.Sizeof(entry[struct{}]{})+15)&^15) + bucketBytes
	// leastTable is the overhead of the smallest table of a dict, beside the dict itself and its
	// entries. It matters for a hash or a set that is large only because of the size of one
	// element.
	leastTable = int64(unsafe.Sizeof([]*item{})) + leastSize*8 - bucketBytes
	dictBytes  = int64(unsafe.Sizeof(dict[field]{})) + leastTable
	smallBytes = int64(unsafe.Sizeof(smallField{}))
	// A leaf has 1120 bytes for 64 places, and two thirds of the places are used.
	nodeBytes = (int64(unsafe.Sizeof(zentry{}))+15)&^15 + bucketBytes + 26
)

// size estimates the bytes that a value takes, in O(1).
func (v *value) size() int64 {
	if v.obj == nil {
		return sizeclass.Of(cap(v.str))
	}
	switch o := v.obj.v.(type) { // quicker than a call of an interface
	case *list:
		return o.size()
	case *hash:
		return o.size()
	case *set:
		return o.size()
	case *stream.Stream:
		return streamBytes + o.Bytes()
	}
	return v.obj.v.(*zset).size()
}

// footprint is the size of a key with its value, in O(1).
func footprint(it *item) int64 {
	n := itemBytes + sizeclass.Of(len(it.key)) + it.val.size()
	if it.aux >= 0 {
		n += heapBytes
	}
	return n
}

// size counts the headers of chunks as if all but one, which the list has in it,
// were at least half full.
func (l *list) size() int64 {
	return listBytes + int64(l.taken) + int64(l.taken/chunkBytes)*chunkHead
}

func (h *hash) size() int64 {
	n := hashBytes + h.bytes + int64(h.volatile)*heapBytes
	if h.big != nil {
		return n + dictBytes + int64(h.big.len())*fieldBytes
	}
	return n + sizeclass.Of(cap(h.packed)) + int64(cap(h.small))*smallBytes
}

// fieldSize is the size of the strings of a field.
func fieldSize(name, value int) int64 { return sizeclass.Of(name) + sizeclass.Of(value) }

func (s *set) size() int64 {
	if s.big != nil {
		return setBytes + int64(unsafe.Sizeof(bigSet{})) + leastTable + s.big.bytes + int64(s.big.len())*memberBytes
	}
	return setBytes + sizeclass.Of(cap(s.packed))
}

func (z *zset) size() int64 {
	if z.large() {
		return zsetBytes + treeBytes + z.tree.bytes + int64(z.len())*nodeBytes
	}
	return zsetBytes + sizeclass.Of(cap(z.packed))
}
