package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A hash maps fields to values. A small hash keeps its fields packed, in the order of insertion. A search reads
// one field after the other. The hash becomes a bigHash when it grows or a field gets a time to live.
type hash struct{ value }

// A bigHash keeps its fields in a dict, or in a slice while they are few.
type bigHash struct {
	few  []smallField
	dict *dict[string]
	// expiring has the fields of dict that have a time to live, nil before there were any.
	expiring *deadlines[*entry[string]]
	soonest  int64 // when the first of few expires, or earlier
	bytes    int64 // of few: names and values; of dict: its entries
	volatile int32 // fields with a time to live
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

// big returns the fields that are not packed, nil for a packed hash.
func (h *hash) big() *bigHash {
	if h.form == formPackedHash {
		return nil
	}
	return (*bigHash)(h.p)
}

// many returns the dict of a hash, nil while it has few fields.
func (h *hash) many() *dict[string] {
	if b := h.big(); b != nil {
		return b.dict
	}
	return nil
}

func (h *hash) packed() packed { return h.bytes() }

func (b *bigHash) len() int {
	if b.dict != nil {
		return b.dict.len()
	}
	return len(b.few)
}

// get returns a field. Its value is valid until the hash is changed.
func (h *hash) get(name []byte) (f field, ok bool) {
	b := h.big()
	switch {
	case b == nil:
		at, value, _ := h.packed().find(name)
		return field{value: text(value)}, at >= 0
	case b.dict != nil:
		if e := b.dict.get(name); e != nil {
			return b.field(e), true
		}
	default:
		if f := b.find(name); f != nil {
			return f.field, true
		}
	}
	return field{}, false
}

func (h *hash) has(name []byte) bool {
	_, ok := h.get(name)
	return ok
}

func (b *bigHash) field(e *entry[string]) field {
	if e.aux < 0 {
		return field{value: e.val}
	}
	return field{e.val, b.expiring.at(int(e.aux)).at}
}

// find returns a field of few, nil when it is not there.
func (b *bigHash) find(name []byte) *smallField {
	for i := range b.few {
		if b.few[i].name == string(name) {
			return &b.few[i]
		}
	}
	return nil
}

// unpack makes a packed hash one whose fields can have a time to live.
func (h *hash) unpack() *bigHash {
	if b := h.big(); b != nil {
		return b
	}
	b := &bigHash{few: make([]smallField, 0, h.few), place: -1}
	h.each(func(name string, f field) bool {
		b.append(strings.Clone(name), strings.Clone(f.value))
		return true
	})
	h.value.become(&value{form: formHash, p: unsafe.Pointer(b)})
	return b
}

func (b *bigHash) append(name, value string) {
	b.bytes += fieldSize(len(name), len(value))
	b.few = append(b.few, smallField{name, field{value: value}})
}

// useDict moves the fields to a dict.
func (b *bigHash) useDict() {
	few := b.few
	b.few, b.bytes, b.volatile, b.dict = nil, 0, 0, &dict[string]{}
	for _, f := range few {
		e, _ := b.add(view(f.name), view(f.value))
		b.setDeadline(e, f.expire)
	}
}

// add gives a field of dict a value. The field is new if added is true.
func (b *bigHash) add(name, value []byte) (e *entry[string], added bool) {
	e, room, added := b.dict.addWith(name, len(value))
	if !added {
		b.replace(e, value)
		return e, false
	}
	if len(value) <= cap(room) {
		e.val = text(append(room, value...))
	} else {
		e.val = string(value)
	}
	b.bytes += e.bytes(view(e.val))
	return e, true
}

func (b *bigHash) replace(e *entry[string], value []byte) {
	b.bytes -= e.bytes(view(e.val))
	e.val = string(value)
	b.bytes += e.bytes(view(e.val))
}

// fits reports whether the hash stays small with a field: more says whether it is a new one.
func (h *hash) fits(l *limits, name, value []byte, more bool) bool {
	return len(name) <= l.hashValue && len(value) <= l.hashValue && (!more || h.len() < min(l.hashEntries, mostPacked))
}

// set gives a field a value and returns whether it is new. A time to live is
// taken away.
func (h *hash) set(l *limits, name, value []byte) bool { return h.put(l, name, value, false) }

// update gives a field a value and keeps its time to live.
func (h *hash) update(l *limits, name, value []byte) { h.put(l, name, value, true) }

func (h *hash) put(l *limits, name, value []byte, keep bool) (added bool) {
	b := h.big()
	if b == nil {
		p := h.packed()
		at, old, next := p.find(name)
		switch added = at < 0; {
		case !h.fits(l, name, value, added):
			b = h.unpack()
		case !added && len(old) == len(value):
			copy(old, value)
			return false
		case !added:
			h.setBytes(p.put(at, next, name, value))
			return false
		default:
			h.setBytes(p.put(len(p), len(p), name, value))
			h.few++
			return true
		}
	}
	if b.dict == nil {
		f := b.find(name)
		if added = f == nil; h.fits(l, name, value, added) {
			if added {
				b.append(string(name), string(value))
				return true
			}
			if !keep {
				h.setExpire(name, 0)
			}
			b.bytes += sizeclass.Of(len(value)) - sizeclass.Of(len(f.value))
			f.value = string(value)
			return false
		}
		b.useDict()
	}
	e, added := b.add(name, value)
	if !keep {
		b.setDeadline(e, 0)
	}
	return added
}

func (h *hash) remove(name []byte) bool {
	b := h.big()
	if b == nil {
		at, _, next := h.packed().find(name)
		if at < 0 {
			return false
		}
		h.setBytes(h.packed().splice(at, next, 0))
		h.few--
		return true
	}
	if b.dict != nil {
		e := b.dict.remove(name)
		if e == nil {
			return false
		}
		b.setDeadline(e, 0)
		b.bytes -= e.bytes(view(e.val))
		return true
	}
	for i, f := range b.few {
		if f.name != string(name) {
			continue
		}
		b.bytes -= fieldSize(len(f.name), len(f.value))
		if f.expire != 0 {
			b.volatile--
		}
		b.few = append(b.few[:i], b.few[i+1:]...)
		return true
	}
	return false
}

// each calls f for every field until it returns false. f must not change the
// hash.
func (h *hash) each(f func(name string, v field) bool) {
	b := h.big()
	switch {
	case b == nil:
		p := h.packed()
		for at := 0; at < len(p); {
			name, value, next := p.pair(at)
			if !f(text(name), field{value: text(value)}) {
				return
			}
			at = next
		}
	case b.dict != nil:
		b.dict.each(func(e *entry[string]) bool { return f(e.key, b.field(e)) })
	default:
		for i := range b.few {
			if !f(b.few[i].name, b.few[i].field) {
				return
			}
		}
	}
}

// random returns a field, each with the same probability.
func (h *hash) random() (name string, f field) {
	if d := h.many(); d != nil {
		e := d.random()
		return e.key, h.big().field(e)
	}
	left := rand.IntN(h.len())
	h.each(func(n string, v field) bool {
		name, f = n, v
		left--
		return left >= 0
	})
	return name, f
}

// clone returns a copy in the same form.
func (h *hash) clone(work func(int)) *value {
	from := h.big()
	if from == nil {
		out := &value{form: h.form, few: h.few}
		out.setBytes(slices.Clone(h.bytes()))
		return out
	}
	b := &bigHash{place: -1}
	if from.dict != nil {
		b.dict = &dict[string]{}
	}
	h.each(func(name string, f field) bool {
		work(2 * stepsPerMember)
		if b.dict == nil {
			b.append(strings.Clone(name), strings.Clone(f.value))
			b.few[len(b.few)-1].expire = f.expire
		} else {
			e, _ := b.add(view(name), view(f.value))
			b.setDeadline(e, f.expire)
		}
		return true
	})
	if b.dict == nil {
		b.soonest, b.volatile = from.soonest, from.volatile
	}
	return &value{form: formHash, p: unsafe.Pointer(b)}
}

// reserve makes an empty hash ready for names and values, if they fit.
func (h *hash) reserve(l *limits, pairs [][]byte) {
	if h.form != formPackedHash || h.len() > 0 || len(pairs) < 4 {
		return
	}
	size := 0
	for i := 0; i < len(pairs); i += 2 {
		size += pairBytes(len(pairs[i]), len(pairs[i+1]))
	}
	if len(pairs)/2 <= l.hashEntries && size <= 1<<10 { // more is seldom a small one
		h.setBytes(h.packed().reserve(size))
	}
}
