package engine

import "math/rand/v2"

// A skiplist is a dict of members whose entries are also the nodes of a skip
// list ordered by score and then member. Links above the lowest level know how
// many nodes they pass, which gives ranks in O(log n). Three quarters of the
// nodes have the lowest level only, so that one is kept in the node itself.
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
	up    *[]zlink // levels 1 and above
}

type zlink struct {
	to   *zentry
	span int // lowest-level steps to it, or to the end
}

const topLevel = 24

func newSkiplist() *skiplist { return &skiplist{level: 1, head: &zentry{}} }

func (s *skiplist) len() int { return s.members.len() }

func (s *skiplist) link(e *zentry, level int) *zlink { return &(*e.val.up)[level-1] }

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
	if s.head.val.up == nil {
		s.head.val.up = new([]zlink)
	}
	for s.level < level {
		*s.head.val.up = append(*s.head.val.up, zlink{nil, s.inList()})
		s.level++
	}
}

// inList is the number of linked nodes. The node that is being linked is in
// the dict already.
func (s *skiplist) inList() int { return s.members.len() - 1 }

// path finds the last node before (score, member) on every level, and its
// rank.
func (s *skiplist) path(score float64, member string, prev *[topLevel]*zentry, rank *[topLevel]int) {
	x, r := s.head, 0
	for i := s.level - 1; i >= 1; i-- {
		for {
			l := s.link(x, i)
			if l.to == nil || !before(l.to, score, member) {
				break
			}
			r += l.span
			x = l.to
		}
		prev[i], rank[i] = x, r
	}
	for n := x.val.next; n != nil && before(n, score, member); n = n.val.next {
		x = n
		r++
	}
	prev[0], rank[0] = x, r
}

// insert links an entry that is in the dict and has its score.
func (s *skiplist) insert(e *zentry) {
	level := randomLevel()
	s.ensure(level)
	var prev [topLevel]*zentry
	var rank [topLevel]int
	s.path(e.val.score, e.key, &prev, &rank)
	if level > 1 {
		up := make([]zlink, level-1)
		e.val.up = &up
	}
	for i := 1; i < s.level; i++ {
		l := s.link(prev[i], i)
		if i >= level {
			l.span++
			continue
		}
		passed := rank[0] - rank[i]
		(*e.val.up)[i-1] = zlink{l.to, l.span - passed}
		*l = zlink{e, passed + 1}
	}
	e.val.next, prev[0].val.next = prev[0].val.next, e
	e.val.prev = nil
	if prev[0] != s.head {
		e.val.prev = prev[0]
	}
	if e.val.next != nil {
		e.val.next.val.prev = e
	} else {
		s.tail = e
	}
}

// unlink takes an entry out of the list.
func (s *skiplist) unlink(e *zentry) {
	var prev [topLevel]*zentry
	var rank [topLevel]int
	s.path(e.val.score, e.key, &prev, &rank)
	for i := 1; i < s.level; i++ {
		l := s.link(prev[i], i)
		if l.to == e {
			own := (*e.val.up)[i-1]
			*l = zlink{own.to, l.span + own.span - 1}
		} else {
			l.span--
		}
	}
	prev[0].val.next = e.val.next
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
	// It can stay where it is when its neighbours still fit.
	if (e.val.prev == nil || before(e.val.prev, score, e.key)) && (e.val.next == nil || !before(e.val.next, score, e.key)) {
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
	var prev [topLevel]*zentry
	var rank [topLevel]int
	s.path(e.val.score, e.key, &prev, &rank)
	return rank[0]
}

// at returns the entry of a rank, 0 ≤ rank < len.
func (s *skiplist) at(rank int) *zentry {
	x, left := s.head, rank+1
	for i := s.level - 1; i >= 1; i-- {
		for {
			l := s.link(x, i)
			if l.to == nil || l.span > left {
				break
			}
			left -= l.span
			x = l.to
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
	x := s.head
	for i := s.level - 1; i >= 1; i-- {
		for l := s.link(x, i); l.to != nil && less(l.to.val.score, l.to.key); l = s.link(x, i) {
			x = l.to
		}
	}
	n := x.val.next
	for n != nil && less(n.val.score, n.key) {
		n = n.val.next
	}
	return n
}
