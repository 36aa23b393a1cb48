package engine

import (
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// A kind is the type of a value.
type kind uint8

const (
	kindString kind = iota
	kindList
	kindSet
	kindZset
	kindHash
	kindStream
)

var kindNames = [...]string{"string", "list", "set", "zset", "hash", "stream"}

func (k kind) String() string { return kindNames[k] }

// A form is a way to store a value of a kind.
type form uint8

const (
	formString form = iota
	formRaw         // a string made by APPEND or SETRANGE, for OBJECT ENCODING
	formPlain       // a string made by INCRBYFLOAT, which is never an integer
	formInts16      // a small set of integers, see intset.go
	formInts32
	formInts64
	formWords      // a small set with other members
	formPackedZset // a small sorted set
	formPackedHash // a small hash whose fields have no time to live
	// The forms up to here are bytes.
	formList
	formSet
	formZset
	formHash
	formStream
)

var formKinds = [...]kind{
	formInts16: kindSet, formInts32: kindSet, formInts64: kindSet, formWords: kindSet, formPackedZset: kindZset,
	formPackedHash: kindHash, formList: kindList, formSet: kindSet, formZset: kindZset, formHash: kindHash, formStream: kindStream,
}

// A value is the value of a key. A string and the small forms of other types are bytes, which commands may change
// in place: p points to them. For other forms p points to a list, bigSet, ztree, bigHash or Stream.
type value struct {
	expire  int64 // Unix ms, 0 for none
	p       unsafe.Pointer
	n, room uint32 // length and capacity of the bytes
	access  uint32 // when it was used last, or how often: see accessed
	few     uint16 // the members or fields in the bytes
	form    form
	state   uint8 // itemNoted, itemGone
}

// mostPacked is how many members or fields can be counted in the bytes of a value.
const mostPacked = 1<<16 - 1

// An item is a key of the keyspace with its value. Its aux is its place in
// the expiry heap.
type item = entry[value]

func (v *value) kind() kind { return formKinds[v.form] }

// isBytes reports whether the form is bytes.
func (v *value) isBytes() bool { return v.form < formList }

// bytes returns a string, or the bytes of a small form.
func (v *value) bytes() []byte { return unsafe.Slice((*byte)(v.p), v.room)[:v.n] }

// setBytes is called with at most some 600 MB: see maxString.
func (v *value) setBytes(b []byte) {
	v.p, v.n, v.room = unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)), uint32(cap(b)) //nolint:gosec // they fit
}

// setString makes the value a string.
func (v *value) setString(b []byte, f form) {
	v.setBytes(b)
	v.form, v.few = f, 0
}

// become makes the value that of from, and keeps what belongs to the key.
func (v *value) become(from *value) {
	v.p, v.n, v.room, v.few, v.form = from.p, from.n, from.room, from.few, from.form
}

// len is the number of elements of a value that is not a string.
func (v *value) len() int {
	switch v.form {
	case formList:
		return v.asList().len()
	case formSet:
		return (*bigSet)(v.p).len()
	case formZset:
		return (*ztree)(v.p).len()
	case formHash:
		return (*bigHash)(v.p).len()
	case formStream:
		return v.asStream().Len()
	default:
		return int(v.few)
	}
}

// A value is a hash, a set and a sorted set itself, with methods of its own.
func (v *value) asHash() *hash { return (*hash)(unsafe.Pointer(v)) }
func (v *value) asSet() *set   { return (*set)(unsafe.Pointer(v)) }
func (v *value) asZset() *zset { return (*zset)(unsafe.Pointer(v)) }

func (v *value) asList() *list            { return (*list)(v.p) }
func (v *value) asStream() *stream.Stream { return (*stream.Stream)(v.p) }

func asList(it *item) *list { return it.val.asList() }
func asHash(it *item) *hash { return it.val.asHash() }
func asSet(it *item) *set   { return it.val.asSet() }
func asZset(it *item) *zset { return it.val.asZset() }

func asStream(it *item) *stream.Stream { return it.val.asStream() }

func newList() value { return value{form: formList, p: unsafe.Pointer(new(list))} }
func newSet() value  { return value{form: formInts16} }
func newZset() value { return value{form: formPackedZset} }
func newHash() value { return value{form: formPackedHash} }

func newStream(s *stream.Stream) value { return value{form: formStream, p: unsafe.Pointer(s)} }
