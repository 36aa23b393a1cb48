package stream

import (
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// EachNode calls f for each node in order: its ID, and its entries in the form of Redis' RDB files. f
// must not keep or change them.
func (s *Stream) EachNode(f func(id ID, listpack []byte) bool) {
	each(&s.nodes, place{}, func(n node) bool { return f(n.first, n.pack) })
}

// Nodes is how many nodes [Stream.EachNode] gives.
func (s *Stream) Nodes() int { return s.nodes.len() }

// AddNode appends a copy of a node that another stream or Redis wrote. It returns false, and adds nothing, when the
// node is broken or its entries don't come behind the entries of the stream. LastID, EntriesAdded and MaxDeletedID stay
// as they are: SetID sets them. It calls work with the number of bytes that it is about to read; work may panic.
func (s *Stream) AddNode(id ID, listpack []byte, work func(bytes int)) bool {
	if at := s.nodes.last(); s.nodes.valid(at) {
		if n := s.nodes.at(at); !n.lastID().Less(id) {
			return false
		}
	}
	if work != nil {
		work(2 * len(listpack))
	}
	live, ok := sound(id, listpack)
	if !ok {
		return false
	}
	pack := append(make([]byte, 0, len(listpack)), listpack...)
	s.taken += sizeclass.Of(cap(pack))
	s.nodes.insert(place{len(s.nodes.chunks), 0}, node{id, pack}, &s.taken)
	s.length += live
	if s.length == live {
		s.findFirst()
	}
	return true
}

// A checker reads a listpack that may be broken.
type checker struct {
	b        []byte
	at, end  int
	elements int
	bad      bool
}

func (c *checker) next() (e element) {
	if c.bad {
		return e
	}
	e, next, ok := check(c.b, c.at, c.end)
	if !ok {
		c.bad = true
		return e
	}
	c.at = next
	c.elements++
	return e
}

// number reads an element that is a number, at least 0 and no more than the listpack has bytes.
func (c *checker) number() int {
	e := c.next()
	if e.s != nil || e.n < 0 || e.n > int64(len(c.b)) {
		c.bad = true
		return 0
	}
	return int(e.n)
}

func (c *checker) strings(n int) {
	for ; n > 0 && !c.bad; n-- {
		c.next()
	}
}

// sound checks a listpack, and returns how many entries are live. A node can have all that it accepts: numbers are
// where the node reads them without a look, IDs are in order, and counts are right.
func sound(id ID, b []byte) (live int, ok bool) {
	if len(b) <= headBytes || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != endByte {
		return 0, false
	}
	c := &checker{b: b, at: headBytes, end: len(b) - 1}
	live = c.number()
	dead := c.number()
	names := c.number()
	c.strings(names)
	if zero := c.next(); zero.s != nil || zero.n != 0 || names == 0 {
		return 0, false
	}
	last, gone := ID{}, 0
	for i := 0; i < live+dead && !c.bad; i++ {
		at := c.at
		flags := c.number()
		ms, seq := c.next(), c.next()
		if c.bad || flags > flagDeleted|flagSameNames || c.b[at] != byte(flags) || ms.s != nil || seq.s != nil {
			return 0, false
		}
		this := ID{id.MS + uint64(ms.n), id.Seq + uint64(seq.n)} //nolint:gosec // may wrap, as in Redis
		if this.IsZero() || this.Less(id) || i > 0 && !last.Less(this) {
			return 0, false
		}
		last = this
		if flags&flagDeleted != 0 {
			gone++
		}
		count := 3
		if flags&flagSameNames != 0 {
			c.strings(names)
			count += names
		} else {
			n := c.number()
			c.strings(2 * n)
			count += 1 + 2*n
			c.bad = c.bad || n == 0
		}
		if c.number() != count {
			return 0, false
		}
	}
	switch n := int(binary.LittleEndian.Uint16(b[4:])); {
	case c.bad, c.at != c.end, gone != dead, live+dead == 0:
		return 0, false
	case n != unknownElements && n != c.elements:
		return 0, false
	}
	return live, true
}
