package engine

import "github.com/redoubt-go/redoubt/internal/stream"

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

// A value is the value of a key. It has a string itself, as bytes that commands may change in
// place; the other types are behind obj.
type value struct {
	expire int64 // Unix ms, 0 for none
	str    []byte
	obj    *object
	access uint32 // when it was used last, or how often: see accessed
	raw    bool   // a string made by APPEND or SETRANGE, for OBJECT ENCODING
	plain  bool   // a string made by INCRBYFLOAT, which is never an integer
	state  uint8  // itemNoted, itemGone
}

type object struct {
	kind kind
	v    any
}

// An item is a key of the keyspace with its value. Its aux is its place in
// the expiry heap.
type item = entry[value]

func (v *value) kind() kind {
	if v.obj == nil {
		return kindString
	}
	return v.obj.kind
}

func asList(it *item) *list { return it.val.obj.v.(*list) }
func asHash(it *item) *hash { return it.val.obj.v.(*hash) }
func asSet(it *item) *set   { return it.val.obj.v.(*set) }
func asZset(it *item) *zset { return it.val.obj.v.(*zset) }

func asStream(it *item) *stream.Stream { return it.val.obj.v.(*stream.Stream) }

func newStream() *object {
	o := &struct {
		object
		stream.Stream
	}{object: object{kind: kindStream}}
	o.v = &o.Stream
	return &o.object
}
