package engine

import (
	"math/rand/v2"
	"strings"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A hash maps fields to values. A small one keeps them in the order of
// insertion and is searched from end to end: packed, or, from when a field gets
// a time to live, in a slice. A larger one is a dict.
type hash struct {
	limits *limits
	packed packed
	small  []smallField // not nil when it is in use
	big    *dict[field]
	// expiring has the fields of a large one that have a time to live, nil
	// before there were any.
	expiring *deadlines[*entry[field]]
	soonest  int64 // when the first of a small one expires, or earlier
	bytes    int64 // of names and values, when they are not packed
	volatile int32 // fields with a time to live
	count    int32 // fields that are packed
	place    int32 // where the keyspace remembers the hash, -1 for nowhere
}

type smallField struct {
	name string
	field
}

type field struct {
	value  string
	expire int64 // Unix ms, 0 for none
}

func (c *call) newHash() *object {
	o := &struct {
		object
		hash
	}{object{kind: kindHash}, hash{limits: c.e.config.limits.Load(), place: -1}}
	o.v = &o.hash
	return &o.object
}

func (h *hash) len() int {
	switch {
	case h.big != nil:
		return h.big.len()
	case h.small != nil:
		return len(h.small)
	}
	return int(h.count)
}

// get returns a field. Its value is valid until the hash is changed.
func (h *hash) get(name []byte) (f field, ok bool) {
	if h.big == nil && h.small == nil {
		at, value, _ := h.packed.find(name)
		return field{value: text(value)}, at >= 0
	}
	if p := h.unpacked(name); p != nil {
		return *p, true
	}
	return field{}, false
}

func (h *hash) has(name []byte) bool {
	_, ok := h.get(name)
	return ok
}

// unpacked returns a field of a hash that is not packed, nil when it is not
// there.
func (h *hash) unpacked(name []byte) *field {
	if h.big != nil {
		if e := h.big.get(name); e != nil {
			return &e.val
		}
		return nil
	}
	for i := range h.small {
		if h.small[i].name == string(name) {
			return &h.small[i].field
		}
	}
	return nil
}

// unpack makes a packed hash a slice, in which fields can have a time to live.
func (h *hash) unpack() {
	if h.big != nil || h.small != nil {
		return
	}
	small := make([]smallField, 0, h.count)
	h.each(func(name string, f field) bool {
		h.bytes += fieldSize(len(name), len(f.value))
		small = append(small, smallField{strings.Clone(name), field{value: strings.Clone(f.value)}})
		return true
	})
	h.small, h.packed, h.count = small, nil, 0
}

// grow turns a small hash into a large one when name or value are too long for
// it, or it is too full for one more field.
func (h *hash) grow(name, value int, more bool) {
	if h.big != nil {
		return
	}
	if name <= h.limits.hashValue && value <= h.limits.hashValue && (!more || h.len() < h.limits.hashEntries) {
		return
	}
	h.unpack()
	h.big = &dict[field]{}
	for _, f := range h.small {
		e, _ := h.big.add(view(f.name))
		if e.val = f.field; f.expire != 0 {
			h.order(e)
		}
	}
	h.small = nil
}

// set gives a field a value and returns whether it is new. A time to live is
// taken away.
func (h *hash) set(name, value []byte) bool {
	if h.big == nil && h.small == nil && len(name) <= h.limits.hashValue && len(value) <= h.limits.hashValue {
		at, old, next := h.packed.find(name)
		switch {
		case at >= 0 && len(old) == len(value):
			copy(old, value)
			return false
		case at >= 0:
			h.packed = h.packed.put(at, next, name, value)
			return false
		case int(h.count) < h.limits.hashEntries:
			h.packed = h.packed.put(len(h.packed), len(h.packed), name, value)
			h.count++
			return true
		}
	}
	if h.big != nil {
		return h.setBig(name, value)
	}
	there := h.has(name)
	h.grow(len(name), len(value), !there)
	if h.big != nil {
		return h.setBig(name, value)
	}
	if there {
		h.setExpire(name, 0)
		h.replace(h.unpacked(name), value)
		return false
	}
	h.bytes += fieldSize(len(name), len(value))
	h.small = append(h.small, smallField{string(name), field{value: string(value)}})
	return true
}

// setBig is set for a large one, in which the field is looked up once.
func (h *hash) setBig(name, value []byte) bool {
	e, added := h.big.add(name)
	if added {
		h.bytes += fieldSize(len(name), len(value))
		e.val.value = string(value)
		return true
	}
	if e.val.expire != 0 {
		h.setExpire(name, 0)
	}
	h.replace(&e.val, value)
	return false
}

// update gives a field a value and keeps its time to live.
func (h *hash) update(name, value []byte) {
	f, ok := h.get(name)
	if !ok || f.expire == 0 {
		h.set(name, value)
		return
	}
	h.grow(len(name), len(value), false)
	h.replace(h.unpacked(name), value)
}

// replace gives a field that is there, of a hash that is not packed, a value.
func (h *hash) replace(f *field, value []byte) {
	h.bytes += sizeclass.Of(len(value)) - sizeclass.Of(len(f.value))
	f.value = string(value)
}

func (h *hash) remove(name []byte) bool {
	if h.big == nil && h.small == nil {
		at, _, next := h.packed.find(name)
		if at < 0 {
			return false
		}
		h.packed = h.packed.splice(at, next, 0)
		h.count--
		return true
	}
	f := h.unpacked(name)
	if f == nil {
		return false
	}
	h.bytes -= fieldSize(len(name), len(f.value))
	if f.expire != 0 {
		h.volatile--
	}
	if h.big != nil {
		if e := h.big.remove(name); e.aux >= 0 {
			h.expiring.set(e, 0)
		}
		return true
	}
	for i := range h.small {
		if h.small[i].name == string(name) {
			h.small = append(h.small[:i], h.small[i+1:]...)
			break
		}
	}
	return true
}

// each calls f for every field until it returns false. f must not change the
// hash.
func (h *hash) each(f func(name string, v field) bool) {
	if h.big != nil {
		h.big.each(func(e *entry[field]) bool { return f(e.key, e.val) })
		return
	}
	for i := range h.small {
		if !f(h.small[i].name, h.small[i].field) {
			return
		}
	}
	for at := 0; at < len(h.packed); {
		name, value, next := h.packed.pair(at)
		if !f(text(name), field{value: text(value)}) {
			return
		}
		at = next
	}
}

// random returns a field, each with the same probability.
func (h *hash) random() (name string, f field) {
	if h.big != nil {
		e := h.big.random()
		return e.key, e.val
	}
	left := rand.IntN(h.len())
	h.each(func(n string, v field) bool {
		name, f = n, v
		left--
		return left >= 0
	})
	return name, f
}

// reserve makes an empty hash ready for names and values, if they fit.
func (h *hash) reserve(pairs [][]byte) {
	if h.len() > 0 || len(pairs) < 4 {
		return
	}
	size := 0
	for i := 0; i < len(pairs); i += 2 {
		size += pairBytes(len(pairs[i]), len(pairs[i+1]))
	}
	if len(pairs)/2 <= h.limits.hashEntries && size <= 1<<10 { // more is seldom a small one
		h.packed = h.packed.reserve(size)
	}
}
