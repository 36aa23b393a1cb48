package engine

// A hash maps fields to values. A small one is a slice in the order of
// insertion, which is searched from end to end; a larger one a dict.
type hash struct {
	limits *limits
	small  []smallField
	big    *dict[field]
	// expiring has an entry for each time to live that a field was given; one
	// that is no longer true is skipped.
	expiring   lazyHeap[string]
	bytes      int64 // of names and values
	volatile   int   // fields with a time to live
	registered int64 // when the keyspace will look at the hash, 0 for never
}

type smallField struct {
	name string
	field
}

type field struct {
	value  string
	expire int64 // Unix ms, 0 for none
}

func (c *call) newHash() *object { return &object{kindHash, &hash{limits: c.e.config.limits.Load()}} }

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
		e.val = f.field
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
		h.big.remove(name)
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

// setExpire gives a field a deadline in Unix ms, or takes it away with 0.
func (h *hash) setExpire(name []byte, f *field, at int64) {
	if f.expire == at {
		return
	}
	if f.expire != 0 {
		h.volatile--
	}
	f.expire = at
	if at == 0 {
		return
	}
	h.volatile++
	h.expiring.push(at, string(name))
	if len(h.expiring) > 2*h.volatile+64 {
		h.expiring = h.expiring[:0]
		h.each(func(name string, f *field) bool {
			if f.expire != 0 {
				h.expiring.push(f.expire, name)
			}
			return true
		})
	}
}

// earliest returns when the next field expires, 0 for never. It may be too
// early.
func (h *hash) earliest() int64 {
	if h.volatile == 0 || len(h.expiring) == 0 {
		return 0
	}
	return h.expiring[0].at
}

// due says whether fields may have expired.
func (h *hash) due(c *call) bool {
	at := h.earliest()
	return at != 0 && at < c.time()
}

// A lazyHeap holds values by time. Entries are not changed or removed; who
// takes them out checks that they are still true.
type lazyHeap[T any] []lazyEntry[T]

type lazyEntry[T any] struct {
	at int64
	v  T
}

func (h *lazyHeap[T]) push(at int64, v T) {
	s := append(*h, lazyEntry[T]{at, v})
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].at <= s[i].at {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
	*h = s
}

func (h *lazyHeap[T]) pop() lazyEntry[T] {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = lazyEntry[T]{}
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].at < s[child].at {
			child++
		}
		if s[i].at <= s[child].at {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	*h = s
	return top
}

// registerFields makes the sweeper look at a hash when its next field expires.
func (c *call) registerFields(it *item, h *hash) {
	at := h.earliest()
	if at == 0 || h.registered != 0 && h.registered <= at {
		return
	}
	h.registered = at
	c.shard(view(it.key)).keyspace(c.db).fields.push(at, it)
	c.e.sweeper.wake(c.e, at)
}

// expireFields removes the fields whose time has passed, and the key when none
// is left.
func (c *call) expireFields(it *item, h *hash) {
	key := view(it.key)
	var gone [][]byte
	for len(h.expiring) > 0 && h.expiring[0].at < c.time() {
		e := h.expiring.pop()
		if f := h.get(view(e.v)); f != nil && f.expire == e.at {
			h.remove(view(e.v))
			gone = append(gone, view(e.v))
		}
	}
	if len(gone) == 0 {
		return
	}
	c.e.stats.expiredFields.Add(int64(len(gone)))
	c.touch(c.shard(key), c.db, key)
	c.notify(eventHash, "hexpired", key)
	c.also(append([][]byte{[]byte("HDEL"), key}, gone...)...)
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}
