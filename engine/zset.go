package engine

// A zset is a sorted set: members in the order of their scores, and of
// themselves where these are equal.
type zset struct {
	limits *limits
	list   *skiplist
	large  bool // what OBJECT ENCODING calls skiplist
}

func (c *call) newZset() *object {
	return &object{kindZset, &zset{limits: c.e.config.limits.Load(), list: newSkiplist()}}
}

// A zcursor is a place in a sorted set, or none. It is valid until the set is
// changed, and so are the strings that it gives.
type zcursor struct {
	e *zentry
}

func (at zcursor) ok() bool       { return at.e != nil }
func (at zcursor) member() string { return at.e.key }
func (at zcursor) score() float64 { return at.e.val.score }

// next returns the place of the next greater member.
func (at zcursor) next() zcursor { return zcursor{at.e.val.next} }

// prev returns the place of the next lesser member.
func (at zcursor) prev() zcursor { return zcursor{at.e.val.prev} }

func (at zcursor) below(in zinterval) bool { return in.below(at.score(), at.member()) }
func (at zcursor) above(in zinterval) bool { return in.above(at.score(), at.member()) }

func (z *zset) len() int { return z.list.len() }

// get returns the place of a member.
func (z *zset) get(member []byte) zcursor { return zcursor{z.list.members.get(member)} }

func (z *zset) first() zcursor { return zcursor{z.list.first()} }
func (z *zset) last() zcursor  { return zcursor{z.list.tail} }

// at returns the place of a rank, none when there is none.
func (z *zset) at(rank int) zcursor {
	if rank < 0 || rank >= z.len() {
		return zcursor{}
	}
	return zcursor{z.list.at(rank)}
}

// rank returns the position of a place, the least being 0.
func (z *zset) rank(at zcursor) int { return z.list.rank(at.e) }

// random returns the place of a member, each with the same probability.
func (z *zset) random() zcursor { return zcursor{z.list.members.random()} }

// enlarge gives up the small form.
func (z *zset) enlarge() { z.large = true }

// add puts a member in that is not there.
func (z *zset) add(member []byte, score float64) {
	if z.len() >= z.limits.zsetEntries || len(member) > z.limits.zsetValue {
		z.enlarge()
	}
	z.list.add(member, z.unsigned(score))
}

// move gives the member at a place another score.
func (z *zset) move(at zcursor, score float64) {
	if score = z.unsigned(score); score != at.score() {
		z.list.move(at.e, score)
	}
}

// unsigned takes the sign from a zero where the set is small: the small form of
// Redis has no -0.
func (z *zset) unsigned(score float64) float64 {
	if score == 0 && !z.large {
		return 0
	}
	return score
}

// set adds a member or gives it another score.
func (z *zset) set(member []byte, score float64) {
	if at := z.get(member); at.ok() {
		z.move(at, score)
	} else {
		z.add(member, score)
	}
}

// remove takes n members out, from a place on.
func (z *zset) remove(at zcursor, n int) {
	for ; n > 0; n-- {
		e := at.e
		at = at.next()
		z.list.remove(e)
	}
}
