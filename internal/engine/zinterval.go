package engine

import "strings"

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

// A zinterval is a range by score, by member or by rank: members are in it
// from the first that is not below to the last that is not above.
type zinterval interface {
	below(at zcursor) bool
	above(at zcursor) bool
	empty() bool // whatever the set
}

type byScore struct{ r *scoreRange }

func (b byScore) below(at zcursor) bool { return b.r.below(at.score()) }
func (b byScore) above(at zcursor) bool { return b.r.above(at.score()) }

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

func (b byLex) below(at zcursor) bool { return b.r.below(at.member()) }
func (b byLex) above(at zcursor) bool { return b.r.above(at.member()) }

// outside says at once that nothing is in the interval.
func (z *zset) outside(in zinterval) bool {
	return z.len() == 0 || in.empty() || z.last().below(in) || z.first().above(in)
}

// begin returns the first place in the interval, none when the interval is empty. As in Redis, a
// small set is searched from end to end. A range by member has no meaning for members with
// different scores; it then finds the same members as Redis.
func (z *zset) begin(in zinterval) zcursor {
	if z.outside(in) {
		return zcursor{}
	}
	var at zcursor
	if z.large() {
		at = z.seek(in.below)
	} else {
		for at = z.first(); at.ok() && at.below(in); {
			at = at.next()
		}
	}
	if !at.ok() || at.above(in) {
		return zcursor{}
	}
	return at
}

// end returns the last place in the interval, none when it is empty.
func (z *zset) end(in zinterval) zcursor {
	if z.outside(in) {
		return zcursor{}
	}
	at := z.last()
	if !z.large() {
		for at.ok() && at.above(in) {
			at = at.prev()
		}
	} else if behind := z.seek(func(at zcursor) bool { return !in.above(at) }); behind.ok() {
		at = behind.prev()
	}
	if !at.ok() || at.below(in) {
		return zcursor{}
	}
	return at
}

// seek returns the first place of a large set that is not less, by a monotonous
// function that says whether a place is.
func (z *zset) seek(less func(zcursor) bool) zcursor {
	return z.inTree(z.tree().seek(func(n *znode, i int) bool { return less(z.inTree(n, i)) }))
}

// count returns how many members are in the interval.
func (z *zset) count(in zinterval) (n int) {
	from := z.begin(in)
	if !from.ok() {
		return 0
	}
	if to := z.end(in); z.large() && to.ok() {
		return max(z.rank(to)-z.rank(from)+1, 0)
	}
	for at := from; at.ok() && !at.above(in); at = at.next() {
		n++
	}
	return n
}
