package stream

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// Limits say when a node is full. 0 is no limit.
type Limits struct {
	Bytes   int // stream-node-max-bytes
	Entries int // stream-node-max-entries
}

// DefaultLimits are Redis' defaults.
var DefaultLimits = Limits{Bytes: 4096, Entries: 100}

// LargestEntry is the largest sum of the lengths of an entry's fields and values that [Stream.Add] takes.
const LargestEntry = 1 << 30

// A Stream is the value of a key. The zero value is an empty stream. It must not be copied.
type Stream struct {
	nodes      ordered[ID, node]
	groups     *groups // nil before the first
	length     int
	last       ID
	first      ID
	maxDeleted ID
	added      uint64
	taken      int64 // bytes beside the struct itself
}

// New makes an empty stream.
func New() *Stream { return &Stream{} }

// Len is the number of entries.
func (s *Stream) Len() int { return s.length }

// Bytes is the size in memory, with all groups. It costs O(1).
func (s *Stream) Bytes() int64 { return int64(unsafe.Sizeof(*s)) + s.taken }

// LastID is the ID that the next entry must exceed.
func (s *Stream) LastID() ID { return s.last }

// FirstID is the ID of the first entry, 0-0 when there is none.
func (s *Stream) FirstID() ID { return s.first }

// TopID is the ID of the last entry that is still there. It reports false when there is none.
func (s *Stream) TopID() (ID, bool) {
	if s.length == 0 {
		return ID{}, false
	}
	c := s.RangeBack(ID{}, Largest)
	ok := c.Next()
	return c.id, ok
}

// MaxDeletedID is the largest ID that was deleted, 0-0 when none was. Trimming doesn't count.
func (s *Stream) MaxDeletedID() ID { return s.maxDeleted }

// EntriesAdded is how many entries were ever added.
func (s *Stream) EntriesAdded() uint64 { return s.added }

// SetID is for XSETID: it sets what the functions above return and checks nothing.
func (s *Stream) SetID(last ID, added uint64, maxDeleted ID) {
	s.last, s.added, s.maxDeleted = last, added, maxDeleted
}

// NextID is the ID that XADD * takes at the time ms. It reports false when the largest ID is taken.
func (s *Stream) NextID(ms uint64) (ID, bool) {
	if ms > s.last.MS {
		return ID{ms, 0}, true
	}
	return s.last.Next()
}

// NextSeq is the ID that XADD MS-* takes. It reports false when there is none above LastID.
func (s *Stream) NextSeq(ms uint64) (ID, bool) {
	switch {
	case ms < s.last.MS, ms == s.last.MS && s.last.Seq == math.MaxUint64:
		return ID{}, false
	case ms == s.last.MS:
		return ID{ms, s.last.Seq + 1}, true
	}
	return ID{ms, 0}, true
}

// Add appends an entry, whose ID must be larger than LastID. pairs are names and values in turn, at least one of
// each. It returns false, and changes nothing, when they are longer than [LargestEntry] together.
func (s *Stream) Add(limits Limits, id ID, pairs [][]byte) bool {
	plain, most := 0, 64 // what the listpack takes beside the pairs
	for i, p := range pairs {
		if plain += len(p); plain > LargestEntry {
			return false
		}
		most += mostBytes(len(p))
		if i%2 == 0 {
			most += mostBytes(len(p)) // of the first entry of a node
		}
	}
	if most > math.MaxUint32 {
		return false
	}
	var n *node
	if at := s.nodes.last(); s.nodes.valid(at) {
		n = s.nodes.at(at)
		if n.full(limits, plain) || most > math.MaxUint32-len(n.pack) {
			n.resize(len(n.pack), &s.taken)
			n = nil
		}
	}
	if n == nil {
		m := newNode(id, pairs, &s.taken)
		s.nodes.insert(place{len(s.nodes.chunks), 0}, m, &s.taken)
	} else {
		n.add(limits, id, pairs, &s.taken)
	}
	s.length++
	s.added++
	s.last = id
	if s.length == 1 {
		s.first = id
	}
	return true
}

// Has reports whether an entry is there.
func (s *Stream) Has(id ID) bool {
	_, _, ok := s.find(id)
	return ok
}

// find returns the node of an entry, and where the entry begins in it.
func (s *Stream) find(id ID) (p place, at int, ok bool) {
	p, ok = s.nodes.find(id)
	if !ok {
		p = s.nodes.prev(p)
	}
	if !s.nodes.valid(p) {
		return p, 0, false
	}
	n := s.nodes.at(p)
	h := n.head()
	for at = h.entries; n.pack[at] != endByte; {
		e := n.entry(h, at)
		switch c := e.id.Compare(id); {
		case c > 0:
			return p, 0, false
		case c == 0 && !e.deleted():
			return p, at, true
		}
		at = e.end
	}
	return p, 0, false
}

// Delete deletes an entry, for XDEL. It reports whether it was there.
func (s *Stream) Delete(id ID) bool {
	p, at, ok := s.find(id)
	if !ok {
		return false
	}
	n := s.nodes.at(p)
	if h := n.head(); h.live == 1 {
		s.dropNode(p)
	} else {
		n.pack[at] |= flagDeleted
		n.count(h.live-1, h.dead+1, &s.taken)
	}
	s.length--
	if s.maxDeleted.Less(id) {
		s.maxDeleted = id
	}
	if id == s.first || s.length == 0 {
		s.findFirst()
	}
	return true
}

func (s *Stream) dropNode(p place) {
	s.taken -= sizeclass.Of(cap(s.nodes.at(p).pack))
	s.nodes.remove(p, &s.taken)
}

// findFirst sets first.
func (s *Stream) findFirst() {
	s.first = ID{}
	if s.length > 0 {
		if c := s.Range(ID{}, Largest); c.Next() {
			s.first = c.id
		}
	}
}

// A Trimming says which entries go. The zero value removes all.
type Trimming struct {
	ByID   bool
	MaxLen uint64 // how many stay, unless ByID
	MinID  ID     // entries below go, if ByID
	Approx bool   // only whole nodes go
	Limit  int64  // how many go at most, 0 for no limit; a node that would exceed it stays. Only with Approx
}

// Trim removes entries from the front and returns how many. XADD ~ and XTRIM ~ without LIMIT have a Limit of 100
// nodes, see [Limits.Entries]: the caller sets it. XADD calls it after Add, so that a new entry counts.
func (s *Stream) Trim(t Trimming) (removed int64) {
	for len(s.nodes.chunks) > 0 {
		if !t.ByID && uint64(s.length) <= t.MaxLen { //nolint:gosec // not negative
			break
		}
		p := place{}
		n := s.nodes.at(p)
		h := n.head()
		if t.Limit != 0 && removed+int64(h.live) > t.Limit {
			break
		}
		whole := uint64(s.length-h.live) >= t.MaxLen //nolint:gosec // not negative
		if t.ByID {
			whole = n.lastID().Less(t.MinID)
		}
		if whole {
			s.dropNode(p)
			s.length -= h.live
			removed += int64(h.live)
			continue
		}
		if !t.Approx {
			removed += s.trimNode(n, h, t)
		}
		break
	}
	if removed > 0 || s.length == 0 {
		s.findFirst()
	}
	return removed
}

// trimNode removes entries of the first node.
func (s *Stream) trimNode(n *node, h head, t Trimming) int64 {
	gone := 0
	for at := h.entries; n.pack[at] != endByte; {
		e := n.entry(h, at)
		if t.ByID && !e.id.Less(t.MinID) || !t.ByID && uint64(s.length) <= t.MaxLen { //nolint:gosec // not negative
			break
		}
		if !e.deleted() {
			n.pack[at] |= flagDeleted
			gone++
			s.length--
		}
		at = e.end
	}
	n.count(h.live-gone, h.dead+gone, &s.taken)
	return int64(gone)
}

// IndexKeys is radix-tree-keys of XINFO STREAM: the number of nodes.
func (s *Stream) IndexKeys() int { return s.nodes.len() }

// IndexNodes is radix-tree-nodes of XINFO STREAM: how many nodes Redis' radix tree of these keys has. It takes time
// in the number of keys.
func (s *Stream) IndexNodes() int {
	if len(s.nodes.chunks) == 0 {
		return 1
	}
	const keyBytes = 16
	var open [keyBytes]int // the depths of the forks on the way to the key
	var prev ID
	forks, count, keys := 0, 0, 0
	// chain counts the node between a fork and what is below it.
	chain := func(below, fork int) {
		if below-fork > 1 {
			count++
		}
	}
	for _, c := range s.nodes.chunks {
		for i := range c {
			if keys++; keys > 1 {
				at, below := common(prev, c[i].first), keyBytes
				for ; forks > 0 && open[forks-1] > at; forks-- {
					chain(below, open[forks-1])
					below = open[forks-1]
				}
				if forks == 0 || open[forks-1] != at {
					open[forks] = at
					forks++
					count++
				}
				chain(below, at)
			}
			prev = c[i].first
		}
	}
	below := keyBytes
	for ; forks > 0; forks-- {
		chain(below, open[forks-1])
		below = open[forks-1]
	}
	chain(below, -1)
	return count + keys
}

// common returns how many bytes of two IDs are equal, as Redis has them in its tree.
func common(a, b ID) int {
	if a.MS != b.MS {
		return bits.LeadingZeros64(a.MS^b.MS) / 8
	}
	return 8 + bits.LeadingZeros64(a.Seq^b.Seq)/8
}

// Clone copies the stream with its groups. It calls work with the number of bytes that it is about to copy; work
// may panic.
func (s *Stream) Clone(work func(bytes int)) *Stream {
	c := &Stream{length: s.length, last: s.last, first: s.first, maxDeleted: s.maxDeleted, added: s.added}
	for _, chunk := range s.nodes.chunks {
		for _, n := range chunk {
			if work != nil {
				work(len(n.pack))
			}
			pack := append(make([]byte, 0, len(n.pack)), n.pack...)
			c.taken += sizeclass.Of(cap(pack))
			c.nodes.insert(place{len(c.nodes.chunks), 0}, node{n.first, pack}, &c.taken)
		}
	}
	s.EachGroup(func(g *Group) bool {
		g.clone(c, nil, work)
		return true
	})
	return c
}

// Bare copies the stream without its entries, and the pending entries of its groups that keep wants, or all
// when it is nil. The last ID is 0-0, and the count of added entries lacks the entries that are left out. When
// these are added to it again, and the last ID is set if it is larger, it is s again.
func (s *Stream) Bare(keep func(p Pending) bool) *Stream {
	c := &Stream{maxDeleted: s.maxDeleted, added: s.added - uint64(s.length)} //nolint:gosec // may wrap, and wraps back
	s.EachGroup(func(g *Group) bool {
		g.clone(c, keep, nil)
		return true
	})
	return c
}

// Alike reports whether two streams are equal, as far as a quick comparison shows.
func (s *Stream) Alike(t *Stream) bool {
	if s.length != t.length || s.last != t.last || s.first != t.first || s.added != t.added ||
		s.maxDeleted != t.maxDeleted || s.Groups() != t.Groups() {
		return false
	}
	alike := true
	s.EachGroup(func(g *Group) bool {
		o := t.Group([]byte(g.name))
		alike = o != nil && o.last == g.last && o.read == g.read && o.n == g.n && o.members == g.members
		return alike
	})
	return alike
}
