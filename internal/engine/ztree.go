package engine

import (
	"sort"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A ztree is a dict of members, and a B+tree of its entries in the order of score and then member.
// The tree knows how many entries are below each node, so ranks take O(log n). Leaves are linked.
//
// The cost of a search is its cache misses. A million members are four nodes deep, and all nodes
// but the last are usually in the cache. A skip list, as in Redis, was rejected because each of its
// twenty steps is a miss. An entry does not know its leaf: splitting a node would have to write to
// each entry, and an entry would no longer fit in a cache line with a member of usual length.
type ztree struct {
	members dict[float64]
	root    *znode
	bytes   int64 // of the members
}

// A zentry is a member with its score.
type zentry = entry[float64]

// Nodes are at least a quarter full, except at the edges, so a tree is never higher than this.
const zheight = 16

// A zpath is the way to a member: nodes from the root to a leaf, with the place
// that it takes in each.
type zpath struct {
	steps [zheight]zstep
	leaf  int // which of them is the last
}

type zstep struct {
	n *znode
	i int
}

func newZtree() *ztree { return &ztree{root: &znode{}} }

func (t *ztree) len() int { return t.members.len() }

// find fills p with the way to an entry.
func (t *ztree) find(e *zentry, p *zpath) {
	n, depth := t.root, 0
	for ; n.kids != nil; depth++ {
		i := n.way(e)
		p.steps[depth] = zstep{n, i}
		n = n.kids[i].znode
	}
	p.steps[depth] = zstep{n, n.find(e.val, e.key)}
	p.leaf = depth
}

// insert adds an entry that is in the dict and has its score. It splits full nodes on the way down;
// at the edges so that members which come in order fill the nodes.
func (t *ztree) insert(e *zentry) {
	n := t.root
	if n.len() == zwidth {
		n = &znode{scores: []float64{0}, entries: []*zentry{nil}, kids: []zkid{{t.root, t.root.total()}}}
		n.know(0)
		t.root = n
	}
	first, last := true, true // whether n is at an edge
	for n.kids != nil {
		i := n.find(e.val, e.key)
		if i == 0 {
			n.begin(e)
		} else {
			i--
		}
		first, last = first && i == 0, last && i == n.len()-1
		if kid := n.kids[i]; kid.len() == zwidth {
			switch {
			case last && less(kid.entries[zwidth-1], e.val, e.key):
				n.split(i, zwidth-1)
			case first && !less(kid.entries[0], e.val, e.key):
				n.split(i, 1)
			default:
				n.split(i, zwidth/2)
			}
			if less(n.entries[i+1], e.val, e.key) {
				i++
				first = false
			} else {
				last = false
			}
		}
		n.kids[i].count++
		n = n.kids[i].znode
	}
	n.put(n.find(e.val, e.key), e)
}

// unlink takes out k entries that lie in one leaf, from where p leads.
func (t *ztree) unlink(p *zpath, k int) {
	at := &p.steps[p.leaf]
	at.n.cut(at.i, at.i+k)
	for depth := p.leaf - 1; depth >= 0; depth-- {
		at = &p.steps[depth]
		at.n.kids[at.i].count -= k
		at.n.mend(at.i)
	}
	for t.root.kids != nil && t.root.len() == 1 {
		t.root = t.root.kids[0].znode
	}
}

// add puts a member in that is not there.
func (t *ztree) add(member []byte, score float64) {
	e, _ := t.members.add(member)
	t.bytes += sizeclass.Of(len(member))
	e.val = score
	t.insert(e)
}

// move gives an entry another score.
func (t *ztree) move(e *zentry, score float64) {
	var p zpath
	t.find(e, &p)
	if !t.shift(e, score, &p) {
		t.unlink(&p, 1)
		e.val = score
		t.insert(e)
	}
}

// shift moves an entry within its leaf, which p leads to, if its place stays in that leaf.
func (t *ztree) shift(e *zentry, score float64, p *zpath) bool {
	n, from := p.steps[p.leaf].n, p.steps[p.leaf].i
	end := n.len() - 1
	if n.prev != nil && !less(n.entries[0], score, e.key) || n.next != nil && less(n.entries[end], score, e.key) {
		return false
	}
	to := n.find(score, e.key)
	if to > from {
		to-- // e has been counted
		copy(n.scores[from:to], n.scores[from+1:])
		copy(n.entries[from:to], n.entries[from+1:])
	} else {
		copy(n.scores[to+1:from+1], n.scores[to:])
		copy(n.entries[to+1:from+1], n.entries[to:])
	}
	e.val = score
	n.scores[to], n.entries[to] = score, e
	for depth := p.leaf - 1; depth >= 0 && (from == 0 || to == 0); depth-- {
		at := p.steps[depth]
		at.n.know(at.i)
		if at.i > 0 {
			break
		}
	}
	return true
}

// remove removes at most k entries of a leaf, from e on. It returns how many, and the entry behind
// them.
func (t *ztree) remove(e *zentry, k int) (int, *zentry) {
	var p zpath
	t.find(e, &p)
	n, i := p.steps[p.leaf].n, p.steps[p.leaf].i
	k = min(k, n.len()-i)
	for _, e := range n.entries[i : i+k] {
		t.members.remove(view(e.key))
		t.bytes -= sizeclass.Of(len(e.key))
	}
	var behind *zentry
	if n, i = stepOver(n, i+k); n != nil {
		behind = n.entries[i]
	}
	t.unlink(&p, k)
	return k, behind
}

// stepOver returns the place i of a leaf, which is the first of the next one
// when i is behind the last.
func stepOver(n *znode, i int) (*znode, int) {
	if i == n.len() {
		return n.next, 0
	}
	return n, i
}

// stepBack returns the place before place i of a leaf.
func stepBack(n *znode, i int) (*znode, int) {
	switch {
	case i > 0:
		return n, i - 1
	case n.prev == nil:
		return nil, 0
	}
	return n.prev, n.prev.len() - 1
}

// rank returns the position of an entry, the least being 0.
func (t *ztree) rank(e *zentry) (rank int) {
	n := t.root
	for n.kids != nil {
		i := n.way(e)
		for j := range n.kids[:i] {
			rank += n.kids[j].count
		}
		n = n.kids[i].znode
	}
	return rank + n.find(e.val, e.key)
}

// at returns the leaf and the place there of a rank, 0 ≤ rank < len.
func (t *ztree) at(rank int) (*znode, int) {
	n := t.root
	for n.kids != nil {
		i := 0
		for ; rank >= n.kids[i].count; i++ {
			rank -= n.kids[i].count
		}
		n = n.kids[i].znode
	}
	return n, rank
}

func (t *ztree) first() *znode {
	n := t.root
	for n.kids != nil {
		n = n.kids[0].znode
	}
	return n
}

func (t *ztree) last() *znode {
	n := t.root
	for n.kids != nil {
		n = n.kids[n.len()-1].znode
	}
	return n
}

// place returns the leaf of an entry and the place there.
func (t *ztree) place(e *zentry) (*znode, int) {
	n := t.root
	for n.kids != nil {
		n = n.kids[n.way(e)].znode
	}
	return n, n.find(e.val, e.key)
}

// seek returns the leaf and the place there of the first entry that is not
// less, by a monotonous function that says whether a place is. The leaf is nil
// when there is none.
func (t *ztree) seek(less func(n *znode, i int) bool) (*znode, int) {
	lesser := func(n *znode) int {
		return sort.Search(n.len(), func(i int) bool { return !less(n, i) })
	}
	n := t.root
	for n.kids != nil {
		n = n.kids[max(lesser(n)-1, 0)].znode
	}
	return stepOver(n, lesser(n))
}
