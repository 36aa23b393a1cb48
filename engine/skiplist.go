package engine

import (
	"math/rand/v2"
	"unsafe"
)

// A skiplist is a dict of members whose entries are also the nodes of a skip
// list ordered by score and then member. Links above the lowest level know how
// many nodes they pass, which gives ranks in O(log n). Three quarters of the
// nodes have the lowest level only, so that one is kept in the node itself.
//
// A search is a chain of cache misses. Links therefore have beside the node its
// score and its links, so that a node is not looked at before the lowest level,
// but where scores are equal.
type skiplist struct {
	members dict[znode]
	head    *zentry // has all levels, and is no member
	tail    *zentry
	bytes   int64 // of the members
	level   int   // levels in use
}

type zentry = entry[znode]

type znode struct {
	score float64
	next  *zentry
	prev  *zentry
	up    *zlink // the first of its links, of level 1 and above, or nil
}

// A zlink leads to a node, or to the end.
type zlink struct {
	to    *zentry
	up    *zlink  // that of the node
	score float64 // likewise
	span  int     // lowest-level steps to it
}

const topLevel = 24

func newSkiplist() *skiplist { return &skiplist{level: 1, head: &zentry{}} }

func (s *skiplist) len() int { return s.members.len() }

// at returns the link of a level, up being that of level 1.
func (up *zlink) at(level int) *zlink {
	return (*zlink)(unsafe.Add(unsafe.Pointer(up), uintptr(level-1)*unsafe.Sizeof(zlink{}))) //nolint:gosec // a node has its links in one array
}

// before says whether a link leads to what is less than a member with a score.
func (up *zlink) before(score float64, member string) bool {
	return up.to != nil && (up.score < score || up.score == score && up.to.key < member)
}

// before says whether e is less than a member with a score.
func before(e *zentry, score float64, member string) bool {
	return e.val.score < score || e.val.score == score && e.key < member
}

func randomLevel() int {
	level, bits := 1, rand.Uint64()
	for bits&3 == 0 && level < topLevel {
		level++
		bits >>= 2
	}
	return level
}

// ensure gives the head enough levels.
func (s *skiplist) ensure(level int) {
	if level <= s.level {
		return
	}
	up := make([]zlink, level-1)
	if s.level > 1 {
		copy(up, unsafe.Slice(s.head.val.up, s.level-1))
	}
	for i := s.level - 1; i < len(up); i++ {
		up[i].span = s.inList()
	}
	s.head.val.up, s.level = &up[0], level
}

// inList is the number of linked nodes. The node that is being linked is in
// the dict already.
func (s *skiplist) inList() int { return s.members.len() - 1 }

// A zpath is how a search came to its place: the last node before it, and for
// every level above the lowest the link that leads to the place or past it, and
// the rank of the node that has the link.
type zpath struct {
	last  *zentry
	rank  int
	links [topLevel]*zlink
	ranks [topLevel]int
}

// find fills p with the way to (score, member).
func (s *skiplist) find(score float64, member string, p *zpath) {
	x, up, r := s.head, s.head.val.up, 0
	for i := s.level - 1; i >= 1; i-- {
		l := up.at(i)
		for l.before(score, member) {
			r += l.span
			x, up = l.to, l.up
			l = up.at(i)
		}
		p.links[i], p.ranks[i] = l, r
	}
	for n := x.val.next; n != nil && before(n, score, member); n = n.val.next {
		x = n
		r++
	}
	p.last, p.rank = x, r
}

// insert links an entry that is in the dict and has its score.
func (s *skiplist) insert(e *zentry) {
	level := randomLevel()
	s.ensure(level)
	var p zpath
	s.find(e.val.score, e.key, &p)
	if level > 1 {
		up := make([]zlink, level-1)
		e.val.up = &up[0]
		for i := range up {
			l, passed := p.links[i+1], p.rank-p.ranks[i+1]
			up[i] = *l
			up[i].span -= passed
			*l = zlink{e, e.val.up, e.val.score, passed + 1}
		}
	}
	for i := level; i < s.level; i++ {
		p.links[i].span++
	}
	e.val.next, p.last.val.next = p.last.val.next, e
	e.val.prev = nil
	if p.last != s.head {
		e.val.prev = p.last
	}
	if e.val.next != nil {
		e.val.next.val.prev = e
	} else {
		s.tail = e
	}
}

// unlink takes an entry out of the list.
func (s *skiplist) unlink(e *zentry) {
	var p zpath
	s.find(e.val.score, e.key, &p)
	for i := 1; i < s.level; i++ {
		l := p.links[i]
		if l.to == e {
			passed := l.span
			*l = *e.val.up.at(i)
			l.span += passed
		}
		l.span--
	}
	p.last.val.next = e.val.next
	if e.val.next != nil {
		e.val.next.val.prev = e.val.prev
	} else {
		s.tail = e.val.prev
	}
	e.val.next, e.val.prev, e.val.up = nil, nil, nil
}

// add puts a member in that is not there.
func (s *skiplist) add(member []byte, score float64) {
	e, _ := s.members.add(member)
	s.bytes += allocated(len(member))
	e.val.score = score
	s.insert(e)
}

// move gives an entry another score.
func (s *skiplist) move(e *zentry, score float64) {
	// It can stay where it is when its neighbours still fit, and no link has its
	// score.
	if e.val.up == nil && (e.val.prev == nil || before(e.val.prev, score, e.key)) && (e.val.next == nil || !before(e.val.next, score, e.key)) {
		e.val.score = score
		return
	}
	s.unlink(e)
	e.val.score = score
	s.insert(e)
}

func (s *skiplist) remove(e *zentry) {
	s.unlink(e)
	s.members.remove(view(e.key))
	s.bytes -= allocated(len(e.key))
}

// rank returns the position of an entry, the least being 0.
func (s *skiplist) rank(e *zentry) int {
	var p zpath
	s.find(e.val.score, e.key, &p)
	return p.rank
}

// at returns the entry of a rank, 0 ≤ rank < len.
func (s *skiplist) at(rank int) *zentry {
	x, up, left := s.head, s.head.val.up, rank+1
	for i := s.level - 1; i >= 1; i-- {
		for l := up.at(i); l.to != nil && l.span <= left; l = up.at(i) {
			left -= l.span
			x, up = l.to, l.up
		}
	}
	for ; left > 0; left-- {
		x = x.val.next
	}
	return x
}

func (s *skiplist) first() *zentry { return s.head.val.next }

// seek returns the first entry that is not less, by a monotonous function that
// says whether an entry is less.
func (s *skiplist) seek(less func(score float64, member string) bool) *zentry {
	x, up := s.head, s.head.val.up
	for i := s.level - 1; i >= 1; i-- {
		for l := up.at(i); l.to != nil && less(l.score, l.to.key); l = up.at(i) {
			x, up = l.to, l.up
		}
	}
	n := x.val.next
	for n != nil && less(n.val.score, n.key) {
		n = n.val.next
	}
	return n
}
