package engine

import (
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// The engine knows the size of a key at any time without a walk. Each form of a value counts the
// bytes of its elements as they come and go, and size adds the overhead. All counts follow the size
// classes of Go's allocator, which rounds up.

const (
	bucketBytes = 16 // of a dict for each entry: it is between half full and full, and holds a pointer each
	itemBytes   = int64(unsafe.Sizeof(item{})) + bucketBytes
	heapBytes   = int64(unsafe.Sizeof(due[*item]{})) // of an expiryHeap for each entry

	listBytes = int64(unsafe.Sizeof(list{}))
	chunkHead = int64(unsafe.Sizeof(chunk{}))
	hashBytes = int64(unsafe.Sizeof(bigHash{}))
	setBytes  = int64(unsafe.Sizeof(bigSet{})) + leastTable
	treeBytes = int64(unsafe.Sizeof(ztree{})+unsafe.Sizeof(znode{})) + leastTable
	// Go's allocator rounds these up to 16.
	memberBytes = int64((unsafe.Sizeof(entry[struct{}]{})+15)&^15) + bucketBytes
	// leastTable is the overhead of the smallest table of a dict, beside the dict itself and its
	// entries. It matters for a hash or a set that is large only because of the size of one
	// element.
	leastTable = int64(unsafe.Sizeof([]*item{})) + leastSize*8 - bucketBytes
	dictBytes  = int64(unsafe.Sizeof(dict[string]{})) + leastTable
	smallBytes = int64(unsafe.Sizeof(smallField{}))
	// A leaf has 1120 bytes for 64 places, and two thirds of the places are used.
	nodeBytes = (int64(unsafe.Sizeof(zentry{}))+15)&^15 + bucketBytes + 26
)

// size estimates the bytes that a value takes, in O(1).
func (v *value) size() int64 {
	switch v.form {
	case formList:
		return v.asList().size()
	case formSet:
		return (*bigSet)(v.p).size()
	case formZset:
		return (*ztree)(v.p).size()
	case formHash:
		return (*bigHash)(v.p).size()
	case formStream:
		return v.asStream().Bytes()
	default:
		return sizeclass.Of(int(v.room))
	}
}

// footprint is the size of a key with its value, in O(1).
func footprint(it *item) int64 {
	n := int64(bucketBytes)
	if it.val.isBytes() {
		n += it.bytes(it.val.bytes())
	} else {
		n += it.bytes(nil) + it.val.size()
	}
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

func (b *bigHash) size() int64 {
	n := hashBytes + b.bytes + int64(b.volatile)*heapBytes
	if b.dict != nil {
		return n + dictBytes + int64(b.dict.len())*bucketBytes
	}
	return n + int64(cap(b.few))*smallBytes
}

// fieldSize is the size of the strings of a field.
func fieldSize(name, value int) int64 { return sizeclass.Of(name) + sizeclass.Of(value) }

func (b *bigSet) size() int64 { return setBytes + b.bytes + int64(b.len())*memberBytes }

func (t *ztree) size() int64 { return treeBytes + t.bytes + int64(t.len())*nodeBytes }
