package engine

// A hash maps fields to values. A small one is a slice in the order of
// insertion, which is searched from end to end; a larger one a dict.
type hash struct {
	limits *limits
	small  []smallField
	big    *dict[field]
	// expiring has the fields of a large one that have a time to live, nil
	// before there were any.
	expiring *deadlines[*entry[field]]
	soonest  int64 // when the first of a small one expires, or earlier
	bytes    int64 // of names and values
	volatile int   // fields with a time to live
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
	return &object{kindHash, &hash{limits: c.e.config.limits.Load(), place: -1}}
}

func (h *hash) len() int {
	if h.big != nil {
		return h.big.len()
	}
	return len(h.small)
}

func (h *hash) get(name []byte) *field {
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

// grow turns a small hash into a large one when name or value are too long for
// it, or it is too full for one more field.
func (h *hash) grow(name, value int, more bool) {
	if h.big != nil {
		return
	}
	if name <= h.limits.hashValue && value <= h.limits.hashValue && (!more || len(h.small) < h.limits.hashEntries) {
		return
	}
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
	f := h.get(name)
	h.grow(len(name), len(value), f == nil)
	if f != nil {
		f = h.get(name) // it may have moved
		h.setExpire(name, f, 0)
		h.replace(f, value)
		return false
	}
	h.bytes += fieldSize(len(name), len(value))
	if h.big != nil {
		e, _ := h.big.add(name)
		e.val.value = string(value)
		return true
	}
	h.small = append(h.small, smallField{string(name), field{value: string(value)}})
	return true
}

// replace gives a field that is there a value.
func (h *hash) replace(f *field, value []byte) {
	h.bytes += allocated(len(value)) - allocated(len(f.value))
	f.value = string(value)
}

func (h *hash) remove(name []byte) bool {
	f := h.get(name)
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

// each calls f for every field until it returns false.
func (h *hash) each(f func(name string, v *field) bool) {
	if h.big != nil {
		h.big.each(func(e *entry[field]) bool { return f(e.key, &e.val) })
		return
	}
	for i := range h.small {
		if !f(h.small[i].name, &h.small[i].field) {
			return
		}
	}
}
