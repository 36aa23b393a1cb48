package engine

import "slices"

// A znode is a node of a ztree. It has places in order, each with the score of its entry, so that a
// search reads few cache lines, and reads an entry only where scores are equal. In a leaf the
// entries are members. In an inner node a place is a child, and its entry is the first entry below
// that.
type znode struct {
	scores  []float64 // grow to zwidth
	entries []*zentry
	kids    []zkid // of an inner node
	next    *znode // of leaves
	prev    *znode
}

// A zkid is a node below another, with how many members are in it and below.
type zkid struct {
	*znode
	count int
}

const (
	zwidth = 64
	zleast = zwidth / 4 // with fewer places a node is joined with a neighbour, or gets some of it
)

// less says whether e comes before a member with a score.
func less(e *zentry, score float64, member string) bool {
	return e.val < score || e.val == score && e.key < member
}

// below returns how many scores are less.
func (n *znode) below(score float64) int {
	scores := n.scores
	lo, hi := 0, len(scores)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); scores[mid] < score {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// find returns how many entries are less than a member with a score.
func (n *znode) find(score float64, member string) int {
	lo := n.below(score)
	if lo == n.len() || n.scores[lo] != score {
		return lo
	}
	hi := n.len()
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); n.scores[mid] == score && n.entries[mid].key < member {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// way returns the place of an inner node below which e is, or belongs.
func (n *znode) way(e *zentry) int {
	i := n.find(e.val, e.key)
	if i == 0 || i < n.len() && n.entries[i] == e {
		return i
	}
	return i - 1
}

func (n *znode) len() int { return len(n.scores) }

// total returns how many members are in n and below it.
func (n *znode) total() (sum int) {
	if n.kids == nil {
		return n.len()
	}
	for _, kid := range n.kids {
		sum += kid.count
	}
	return sum
}

// put makes e the entry i of a leaf.
func (n *znode) put(i int, e *zentry) {
	n.scores = slices.Insert(n.scores, i, e.val)
	n.entries = slices.Insert(n.entries, i, e)
}

// begin makes e the first entry below an inner node.
func (n *znode) begin(e *zentry) { n.scores[0], n.entries[0] = e.val, e }

// know updates the first entry below place i of an inner node.
func (n *znode) know(i int) {
	kid := n.kids[i]
	n.scores[i], n.entries[i] = kid.scores[0], kid.entries[0]
}

// cut takes out places from i up to j.
func (n *znode) cut(i, j int) {
	n.scores = slices.Delete(n.scores, i, j)
	n.entries = slices.Delete(n.entries, i, j)
	if n.kids != nil {
		n.kids = slices.Delete(n.kids, i, j)
	}
}

// take moves places from i up to j of its neighbour to place at.
func (n *znode) take(at int, from *znode, i, j int) {
	n.scores = slices.Insert(n.scores, at, from.scores[i:j]...)
	n.entries = slices.Insert(n.entries, at, from.entries[i:j]...)
	if n.kids != nil {
		n.kids = slices.Insert(n.kids, at, from.kids[i:j]...)
	}
	from.cut(i, j)
}

// split moves the places of node i below n, from at on, to a new node behind it.
func (n *znode) split(i, at int) {
	kid := n.kids[i].znode
	behind := &znode{scores: make([]float64, 0, zwidth), entries: make([]*zentry, 0, zwidth)}
	if kid.kids != nil {
		behind.kids = make([]zkid, 0, zwidth)
	} else {
		behind.prev, behind.next = kid, kid.next
		if kid.next != nil {
			kid.next.prev = behind
		}
		kid.next = behind
	}
	behind.take(0, kid, at, kid.len())
	moved := behind.total()
	n.kids[i].count -= moved
	n.scores = slices.Insert(n.scores, i+1, behind.scores[0])
	n.entries = slices.Insert(n.entries, i+1, behind.entries[0])
	n.kids = slices.Insert(n.kids, i+1, zkid{behind, moved})
}

// mend sees to it that node i below n, which has lost places, has enough, and
// that its first entry is known here.
func (n *znode) mend(i int) {
	kid := n.kids[i]
	switch {
	case kid.len() >= zleast:
	case n.len() > 1:
		if i > 0 {
			i--
		}
		n.join(i)
	case kid.len() == 0: // at the edges of the tree a node may be alone below n, which is mended next
		kid.leave()
		n.cut(0, 1)
		return
	}
	n.know(i)
}

// join makes one node of i and the next below n, or two that have as much.
func (n *znode) join(i int) {
	kid, behind := n.kids[i], n.kids[i+1]
	have, all := kid.len(), kid.count+behind.count
	switch k := (behind.len() - have) / 2; {
	case have+behind.len() <= zwidth*3/4:
		kid.take(have, behind.znode, 0, behind.len())
		behind.leave()
		n.cut(i+1, i+2)
		n.kids[i].count = all
		return
	case k > 0:
		kid.take(have, behind.znode, 0, k)
	case k < 0:
		behind.take(0, kid.znode, have+k, have)
	}
	n.know(i + 1)
	n.kids[i].count = kid.total()
	n.kids[i+1].count = all - n.kids[i].count
}

// leave takes a leaf out of the list of leaves.
func (n *znode) leave() {
	if n.prev != nil {
		n.prev.next = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
}
