package engine

import (
	"math/rand/v2"
	"strings"
)

// A zset is a dict of members whose entries are also the nodes of a skip list
// ordered by score and then member. Links above the lowest level know how many
// nodes they pass, which gives ranks in O(log n). Three quarters of the nodes
// have the lowest level only, so that one is kept in the node itself.
type zset struct {
	limits  *limits
	members dict[znode]
	head    *zentry // has all levels, and is no member
	tail    *zentry
	bytes   int64 // of the members
	level   int   // levels in use
	large   bool  // what OBJECT ENCODING calls skiplist
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

const (
	topLevel = 24
)

func (c *call) newZset() *object {
	z := &zset{limits: c.e.config.limits.Load(), level: 1, head: &zentry{}}
	return &object{kindZset, z}
}

func (z *zset) len() int { return z.members.len() }

func (z *zset) link(e *zentry, level int) *zlink { return &(*e.val.up)[level-1] }

func before(score float64, member string, than *zentry) bool {
	if score != than.val.score {
		return score < than.val.score
	}
	return member < than.key
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
func (z *zset) ensure(level int) {
	if level <= z.level {
		return
	}
	if z.head.val.up == nil {
		z.head.val.up = new([]zlink)
	}
	for z.level < level {
		*z.head.val.up = append(*z.head.val.up, zlink{nil, z.inList()})
		z.level++
	}
}

// inList is the number of linked nodes. The node that is being linked is in
// the dict already.
func (z *zset) inList() int { return z.members.len() - 1 }

// path finds the last node before (score, member) on every level, and its
// rank.
func (z *zset) path(score float64, member string, prev *[topLevel]*zentry, rank *[topLevel]int) {
	x, r := z.head, 0
	for i := z.level - 1; i >= 1; i-- {
		for {
			l := z.link(x, i)
			if l.to == nil || !before(l.to.val.score, l.to.key, &zentry{key: member, val: znode{score: score}}) {
				break
			}
			r += l.span
			x = l.to
		}
		prev[i], rank[i] = x, r
	}
	for n := x.val.next; n != nil && (n.val.score < score || n.val.score == score && n.key < member); n = n.val.next {
		x = n
		r++
	}
	prev[0], rank[0] = x, r
}

// insert links an entry that is in the dict and has its score.
func (z *zset) insert(e *zentry) {
	level := randomLevel()
	z.ensure(level)
	var prev [topLevel]*zentry
	var rank [topLevel]int
	z.path(e.val.score, e.key, &prev, &rank)
	if level > 1 {
		up := make([]zlink, level-1)
		e.val.up = &up
	}
	for i := 1; i < z.level; i++ {
		l := z.link(prev[i], i)
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
	if prev[0] != z.head {
		e.val.prev = prev[0]
	}
	if e.val.next != nil {
		e.val.next.val.prev = e
	} else {
		z.tail = e
	}
}

// unlink takes an entry out of the list.
func (z *zset) unlink(e *zentry) {
	var prev [topLevel]*zentry
	var rank [topLevel]int
	z.path(e.val.score, e.key, &prev, &rank)
	for i := 1; i < z.level; i++ {
		l := z.link(prev[i], i)
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
		z.tail = e.val.prev
	}
	e.val.next, e.val.prev, e.val.up = nil, nil, nil
}

// set adds a member or gives it another score.
func (z *zset) set(member []byte, score float64) *zentry {
	e, added := z.members.add(member)
	if added {
		z.bytes += allocated(len(member))
	}
	if added && (z.len() > z.limits.zsetEntries || len(member) > z.limits.zsetValue) {
		z.large = true
	}
	if score == 0 && !z.large {
		score = 0 // the small form of Redis has no -0
	}
	if !added {
		if e.val.score == score {
			return e
		}
		// It can stay where it is when its neighbours still fit.
		if (e.val.prev == nil || before(e.val.prev.val.score, e.val.prev.key, &zentry{key: e.key, val: znode{score: score}})) &&
			(e.val.next == nil || before(score, e.key, e.val.next)) {
			e.val.score = score
			return e
		}
		z.unlink(e)
	}
	e.val.score = score
	z.insert(e)
	return e
}

func (z *zset) get(member []byte) *zentry { return z.members.get(member) }

func (z *zset) remove(e *zentry) {
	z.unlink(e)
	z.members.remove(view(e.key))
	z.bytes -= allocated(len(e.key))
}

// rank returns the position of an entry, the least being 0.
func (z *zset) rank(e *zentry) int {
	var prev [topLevel]*zentry
	var rank [topLevel]int
	z.path(e.val.score, e.key, &prev, &rank)
	return rank[0]
}

// at returns the entry of a rank, nil when there is none.
func (z *zset) at(rank int) *zentry {
	if rank < 0 || rank >= z.len() {
		return nil
	}
	x, left := z.head, rank+1
	for i := z.level - 1; i >= 1; i-- {
		for {
			l := z.link(x, i)
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

func (z *zset) first() *zentry { return z.head.val.next }

// seek returns the first entry that is not less, by a monotonous function that
// says whether an entry is less.
func (z *zset) seek(less func(*zentry) bool) *zentry {
	x := z.head
	for i := z.level - 1; i >= 1; i-- {
		for l := z.link(x, i); l.to != nil && less(l.to); l = z.link(x, i) {
			x = l.to
		}
	}
	n := x.val.next
	for n != nil && less(n) {
		n = n.val.next
	}
	return n
}

// A scoreRange is an interval of scores.
type scoreRange struct {
	min, max     float64
	minEx, maxEx bool
}

func (r *scoreRange) below(s float64) bool { return s < r.min || r.minEx && s == r.min }
func (r *scoreRange) above(s float64) bool { return s > r.max || r.maxEx && s == r.max }

// A lexRange is an interval of members, with -inf and +inf.
type lexRange struct {
	min, max       string
	minEx, maxEx   bool
	minInf, maxInf int // -1 or 1
}

func (r *lexRange) below(m string) bool {
	if r.minInf != 0 {
		return r.minInf > 0
	}
	n := strings.Compare(m, r.min)
	return n < 0 || n == 0 && r.minEx
}

func (r *lexRange) above(m string) bool {
	if r.maxInf != 0 {
		return r.maxInf < 0
	}
	n := strings.Compare(m, r.max)
	return n > 0 || n == 0 && r.maxEx
}

// A zinterval is a range by score, by member or by rank: entries are in it
// from the first that is not below to the last that is not above.
type zinterval interface {
	below(*zentry) bool
	above(*zentry) bool
	empty() bool // whatever the set
}

type byScore struct{ r *scoreRange }

func (b byScore) below(e *zentry) bool { return b.r.below(e.val.score) }
func (b byScore) above(e *zentry) bool { return b.r.above(e.val.score) }

func (b byScore) empty() bool {
	return b.r.min > b.r.max || b.r.min == b.r.max && (b.r.minEx || b.r.maxEx)
}

type byLex struct{ r *lexRange }

func (b byLex) empty() bool {
	if b.r.minInf != 0 || b.r.maxInf != 0 {
		return b.r.minInf > 0 && b.r.maxInf <= 0 || b.r.maxInf < 0 && b.r.minInf >= 0
	}
	n := strings.Compare(b.r.min, b.r.max)
	return n > 0 || n == 0 && (b.r.minEx || b.r.maxEx)
}

func (b byLex) below(e *zentry) bool { return b.r.below(e.key) }
func (b byLex) above(e *zentry) bool { return b.r.above(e.key) }

// outside says at once that nothing is in the interval.
func (z *zset) outside(in zinterval) bool {
	return z.tail == nil || in.empty() || in.below(z.tail) || in.above(z.first())
}

// begin returns the first entry in the interval, nil when it is empty. A small
// set is searched from end to end, which is what Redis does: then members with
// different scores, for which a range by member has no meaning, are found or
// not just as there.
func (z *zset) begin(in zinterval) *zentry {
	if z.outside(in) {
		return nil
	}
	var e *zentry
	if z.large {
		e = z.seek(in.below)
	} else {
		for e = z.first(); e != nil && in.below(e); {
			e = e.val.next
		}
	}
	if e == nil || in.above(e) {
		return nil
	}
	return e
}

// end returns the last entry in the interval, nil when it is empty.
func (z *zset) end(in zinterval) *zentry {
	if z.outside(in) {
		return nil
	}
	var e *zentry
	if !z.large {
		for e = z.tail; e != nil && in.above(e); {
			e = e.val.prev
		}
	} else if e = z.seek(func(e *zentry) bool { return !in.above(e) }); e == nil {
		e = z.tail
	} else {
		e = e.val.prev
	}
	if e == nil || in.below(e) {
		return nil
	}
	return e
}

// count returns how many entries are in the interval.
func (z *zset) count(in zinterval) (n int) {
	from := z.begin(in)
	if from == nil {
		return 0
	}
	if to := z.end(in); z.large && to != nil {
		return max(z.rank(to)-z.rank(from)+1, 0)
	}
	for e := from; e != nil && !in.above(e); e = e.val.next {
		n++
	}
	return n
}
