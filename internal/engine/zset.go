package engine

import (
	"math/rand/v2"
	"unsafe"
)

// A zset is a sorted set: members in the order of their scores, and of their names where scores are
// equal. A small one is packed and searched from end to end. A large one never becomes packed
// again.
type zset struct{ value }

func (z *zset) packed() zpacked { return z.bytes() }

// tree returns the members of a large set.
func (z *zset) tree() *ztree { return (*ztree)(z.p) }

// A zcursor is a place in a sorted set, or none. It is valid until the set is
// changed, and so are the strings that it gives.
type zcursor struct {
	z *zset
	e *zentry // in a large set
	n *znode  // its leaf, nil before it was looked up
	i int     // its place there, or in the bytes of a small set
}

func (at zcursor) ok() bool { return at.z != nil }

func (at zcursor) member() string {
	if at.e != nil {
		return at.e.key
	}
	return at.z.packed().name(at.i)
}

func (at zcursor) score() float64 {
	switch {
	case at.n != nil:
		return at.n.scores[at.i]
	case at.e != nil:
		return at.e.val
	}
	return at.z.packed().scoreAt(at.i)
}

// next returns the place of the next greater member.
func (at zcursor) next() zcursor {
	if at.e != nil {
		at = at.inLeaf()
		return at.z.inTree(stepOver(at.n, at.i+1))
	}
	if at.i = at.z.packed().place(at.i).next; at.i == len(at.z.packed()) {
		return zcursor{}
	}
	return at
}

// prev returns the place of the next lesser member.
func (at zcursor) prev() zcursor {
	if at.e != nil {
		at = at.inLeaf()
		return at.z.inTree(stepBack(at.n, at.i))
	}
	if at.i == 0 {
		return zcursor{}
	}
	at.i = at.z.packed().before(at.i)
	return at
}

// inLeaf returns a place in a large set that knows its leaf.
func (at zcursor) inLeaf() zcursor {
	if at.n == nil {
		at.n, at.i = at.z.tree().place(at.e)
	}
	return at
}

func (at zcursor) below(in zinterval) bool { return in.below(at) }
func (at zcursor) above(in zinterval) bool { return in.above(at) }

// inTree returns the place of a large set that is in a leaf, none when that is
// nil.
func (z *zset) inTree(n *znode, i int) zcursor {
	if n == nil {
		return zcursor{}
	}
	return zcursor{z, n.entries[i], n, i}
}

// inDict returns the place of an entry, none when it is nil.
func (z *zset) inDict(e *zentry) zcursor {
	if e == nil {
		return zcursor{}
	}
	return zcursor{z: z, e: e}
}

func (z *zset) large() bool { return z.form == formZset }

// get returns the place of a member.
func (z *zset) get(member []byte) zcursor {
	if z.large() {
		return z.inDict(z.tree().members.get(member))
	}
	if i := z.packed().find(member); i >= 0 {
		return zcursor{z: z, i: i}
	}
	return zcursor{}
}

func (z *zset) first() zcursor {
	switch {
	case z.len() == 0:
		return zcursor{}
	case z.large():
		return z.inTree(z.tree().first(), 0)
	}
	return zcursor{z: z}
}

func (z *zset) last() zcursor {
	switch {
	case z.len() == 0:
		return zcursor{}
	case z.large():
		n := z.tree().last()
		return z.inTree(n, n.len()-1)
	}
	return zcursor{z: z, i: z.packed().before(len(z.packed()))}
}

// at returns the place of a rank, none when there is none.
func (z *zset) at(rank int) zcursor {
	n := z.len()
	switch {
	case rank < 0 || rank >= n:
		return zcursor{}
	case z.large():
		return z.inTree(z.tree().at(rank))
	}
	at := z.first()
	if rank < n/2 {
		for ; rank > 0; rank-- {
			at = at.next()
		}
		return at
	}
	for at = z.last(); rank < n-1; rank++ {
		at = at.prev()
	}
	return at
}

// rank returns the position of a place, the least being 0.
func (z *zset) rank(at zcursor) (n int) {
	if z.large() {
		return z.tree().rank(at.e)
	}
	for i := 0; i < at.i; n++ {
		i = z.packed().place(i).next
	}
	return n
}

// random returns the place of a member, each with the same probability.
func (z *zset) random() zcursor {
	if z.large() {
		return z.inDict(z.tree().members.random())
	}
	return z.at(rand.IntN(z.len()))
}

// enlarge gives up the small form.
func (z *zset) enlarge() {
	if z.large() {
		return
	}
	tree := newZtree()
	for at := z.first(); at.ok(); at = at.next() {
		tree.add(view(at.member()), at.score())
	}
	z.become(&value{form: formZset, p: unsafe.Pointer(tree)})
}

// add puts a member in that is not there.
func (z *zset) add(l *limits, member []byte, score float64) {
	if !z.large() && (z.len() >= min(l.zsetEntries, mostPacked) || len(member) > l.zsetValue) {
		z.enlarge()
	}
	if z.large() {
		z.tree().add(member, score)
		return
	}
	z.setBytes(z.packed().add(member, score))
	z.few++
}

// move gives the member at a place another score.
func (z *zset) move(at zcursor, score float64) {
	switch {
	case score == at.score():
	case z.large():
		z.tree().move(at.e, score)
	default:
		z.setBytes(z.packed().move(at.i, score))
	}
}

// set adds a member or gives it another score.
func (z *zset) set(l *limits, member []byte, score float64) {
	if at := z.get(member); at.ok() {
		z.move(at, score)
	} else {
		z.add(l, member, score)
	}
}

// remove takes n members out, from a place on.
func (z *zset) remove(at zcursor, n int) {
	if !z.large() {
		end := at.i
		for range n {
			end = z.packed().place(end).next
		}
		z.setBytes(packed(z.bytes()).splice(at.i, end, 0))
		z.few -= uint16(n) //nolint:gosec // not more than count
		return
	}
	for e := at.e; n > 0; {
		var gone int
		gone, e = z.tree().remove(e, n)
		n -= gone
	}
}

// reserve makes an empty set ready for scores and members, if they fit.
func (z *zset) reserve(l *limits, scores []float64, pairs [][]byte) {
	if z.large() || z.len() > 0 || len(scores) < 2 || len(scores) > l.zsetEntries {
		return
	}
	size := 0
	for i, score := range scores {
		size += scoredBytes(len(pairs[2*i+1]), score)
	}
	if size <= 1<<12 { // more is seldom a small one
		z.setBytes(packed(z.bytes()).reserve(size))
	}
}

// without returns a copy of a large set that lacks n members from a place on.
func (z *zset) without(from zcursor, n int, work func(int)) *zset {
	out := &zset{newZset()}
	out.enlarge()
	gone := z.rank(from)
	rank := 0
	for at := z.first(); at.ok(); at = at.next() {
		if rank < gone || rank >= gone+n {
			work(2 * stepsPerMember)
			out.tree().add(view(at.member()), at.score())
		}
		rank++
	}
	return out
}

// clone returns a copy in the same form.
func (z *zset) clone(work func(int)) *value {
	out := &zset{newZset()}
	if !z.large() {
		out.setBytes(append(packed(nil).reserve(int(z.n)), z.bytes()...))
		out.few = z.few
		return &out.value
	}
	out.enlarge()
	for at := z.first(); at.ok(); at = at.next() {
		work(2 * stepsPerMember)
		out.tree().add(view(at.member()), at.score())
	}
	return &out.value
}
