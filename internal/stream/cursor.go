package stream

// A Cursor goes over entries. The stream must not change meanwhile.
type Cursor struct {
	s        *Stream
	from, to ID
	back     bool

	p       place
	n       *node // nil before the first node
	h       head
	at      int // in n, where the next entry begins; going back, where the entry before ends
	entry   entry
	id      ID
	name    int // where the next name is, if the entry has the names of the node
	left    int // pairs that Pair has not returned
	skipped int

	nameBuf, valueBuf [20]byte
}

// Range goes over the entries from ≤ ID ≤ to in order.
func (s *Stream) Range(from, to ID) *Cursor {
	c := &Cursor{s: s, from: from, to: to}
	p, ok := s.nodes.find(from)
	if prev := s.nodes.prev(p); !ok && s.nodes.valid(prev) {
		p = prev
	}
	c.p = p
	return c
}

// RangeBack goes over the entries from ≤ ID ≤ to in reverse order.
func (s *Stream) RangeBack(from, to ID) *Cursor {
	c := &Cursor{s: s, from: from, to: to, back: true}
	p, ok := s.nodes.find(to)
	if !ok {
		p = s.nodes.prev(p)
	}
	c.p = p
	return c
}

// Next moves to the next entry, at first to the first. It reports false at the end.
func (c *Cursor) Next() bool {
	if c.to.Less(c.from) {
		return false
	}
	if c.back {
		return c.previous()
	}
	for {
		if c.n == nil {
			if !c.s.nodes.valid(c.p) {
				return false
			}
			c.n = c.s.nodes.at(c.p)
			c.h = c.n.head()
			c.at = c.h.entries
		} else if c.left >= 0 {
			c.at = c.entryEnd()
		}
		for c.n.pack[c.at] != endByte {
			c.entry = c.n.entryHead(c.h, c.at)
			if e := &c.entry; !e.deleted() && !e.id.Less(c.from) {
				if c.to.Less(e.id) {
					c.stop()
					return false
				}
				c.here()
				return true
			}
			c.skipped++
			c.left = c.entry.pairs
			c.at = c.entryEnd()
		}
		c.left = -1
		c.n, c.p = nil, c.s.nodes.next(c.p)
	}
}

// entryEnd returns where the entry ends, of whose pairs some are left.
func (c *Cursor) entryEnd() int {
	values := c.left
	if c.entry.flags&flagSameNames == 0 {
		values *= 2
	}
	return skip(c.n.pack, c.entry.at, values+1)
}

func (c *Cursor) here() {
	c.id, c.left, c.name = c.entry.id, c.entry.pairs, c.h.names
}

func (c *Cursor) stop() { c.from, c.to = Largest, ID{} }

func (c *Cursor) previous() bool {
	for {
		if c.n == nil {
			if !c.s.nodes.valid(c.p) {
				return false
			}
			c.n = c.s.nodes.at(c.p)
			c.h = c.n.head()
			c.at = len(c.n.pack) - 1
		}
		for {
			at := c.n.start(c.at)
			if at == 0 {
				break
			}
			c.at, c.entry = at, c.n.entryHead(c.h, at)
			if e := &c.entry; !e.deleted() && !c.to.Less(e.id) {
				if e.id.Less(c.from) {
					c.stop()
					return false
				}
				c.here()
				return true
			}
			c.skipped++
		}
		c.n, c.p = nil, c.s.nodes.prev(c.p)
	}
}

// ID is the ID of the entry.
func (c *Cursor) ID() ID { return c.id }

// Pairs is how many pairs of field and value the entry has.
func (c *Cursor) Pairs() int { return c.entry.pairs }

// Pair returns the next pair of the entry, at first the first. It must be called at most Pairs() times. The slices
// are valid until the next call of Pair or Next.
func (c *Cursor) Pair() (field, value []byte) {
	var f, v element
	if c.entry.flags&flagSameNames != 0 {
		f, c.name = read(c.n.pack, c.name)
	} else {
		f, c.entry.at = read(c.n.pack, c.entry.at)
	}
	v, c.entry.at = read(c.n.pack, c.entry.at)
	c.left--
	return f.text(c.nameBuf[:0]), v.text(c.valueBuf[:0])
}

// Steps returns how many entries the cursor has passed without returning them since the last call: for commands
// that count their work.
func (c *Cursor) Steps() int {
	n := c.skipped
	c.skipped = 0
	return n
}
