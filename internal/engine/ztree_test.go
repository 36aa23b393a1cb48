package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestZtreeNodes does random changes to a tree that grows and shrinks, and
// wants every node to know what is below it, to be full enough, and the leaves
// to be in order.
func TestZtreeNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6)) //nolint:gosec // to be repeated
	for _, scores := range []int{1, 1000, 1 << 40} {
		tree := newZtree()
		heights := map[int]bool{}
		for i := range 60_000 {
			// Few members, then many, then few.
			all := 1 + min(i, 60_000-i)/2
			member := fmt.Appendf(nil, "m%d", r.IntN(all))
			score := float64(r.IntN(scores)) / 4
			if i/4000%3 == 1 { // or in order
				member, score = fmt.Appendf(nil, "n%d", i), float64(i+scores)*float64(1-2*(i/4000%2))
			}
			switch e := tree.members.get(member); {
			case e == nil:
				tree.add(member, score)
			case r.IntN(3) == 0:
				tree.remove(e, 1)
			case r.IntN(3) == 0:
				tree.move(e, e.val+0.001) // may stay where it is
			case r.IntN(5) == 0: // from near an end to it
				n := tree.first()
				tree.move(n.entries[r.IntN(n.len())], n.scores[0]-1)
				n = tree.last()
				tree.move(n.entries[r.IntN(n.len())], n.scores[n.len()-1]+1)
			default:
				tree.move(e, score)
			}
			for tree.len() > all { // from the ends and elsewhere
				rank := []int{0, tree.len() - 1, r.IntN(tree.len())}[r.IntN(3)]
				n, i := tree.at(rank)
				tree.remove(n.entries[i], 1+r.IntN(100))
			}
			if i%500 == 0 || tree.len() < 10 {
				heights[checkTree(t, tree)] = true
			}
		}
		if !heights[0] || !heights[2] {
			t.Errorf("heights were %v", heights)
		}
	}
}

// checkTree returns the height of a tree.
func checkTree(t *testing.T, tree *ztree) (height int) {
	t.Helper()
	var before *zentry
	var leaf *znode
	rank := 0
	var check func(n *znode, depth int, first, last bool)
	check = func(n *znode, depth int, first, last bool) {
		if n.len() < zleast && !first && !last || n.len() == 0 && depth > 0 || depth == 0 && n.kids != nil && n.len() < 2 {
			t.Fatalf("a node %d deep has %d places", depth, n.len())
		}
		if len(n.entries) != n.len() || n.kids != nil && len(n.kids) != n.len() || cap(n.scores) > zwidth {
			t.Fatalf("a node of %d has %d entries, %d kids, and room for %d", n.len(), len(n.entries), len(n.kids), cap(n.scores))
		}
		for i, e := range n.entries[:cap(n.entries)] {
			if i >= n.len() && e != nil {
				t.Fatalf("a node of %d has an entry at %d", n.len(), i)
			}
		}
		if n.kids == nil {
			if rank > 0 && depth != height {
				t.Fatalf("leaves are %d and %d deep", height, depth)
			}
			if height = depth; n.prev != leaf || leaf != nil && leaf.next != n || n.next == nil != last {
				t.Fatal("the leaves are not linked in order")
			}
			leaf = n
		}
		for i, e := range n.entries {
			if n.scores[i] != e.val {
				t.Fatalf("%q has the score %v, want %v", e.key, n.scores[i], e.val)
			}
			if n.kids != nil {
				kid := n.kids[i]
				if kid.entries[0] != e || kid.count != kid.total() {
					t.Fatalf("below place %d, %d deep, are %d from %q, want %d from %q", i, depth, kid.total(), kid.entries[0].key, kid.count, e.key)
				}
				check(kid.znode, depth+1, first && i == 0, last && i == n.len()-1)
				continue
			}
			if before != nil && !less(before, e.val, e.key) {
				t.Fatalf("%q is behind %q", e.key, before.key)
			}
			if at, place := tree.at(rank); tree.rank(e) != rank || at != n || place != i {
				t.Fatalf("%q has the rank %d, want %d", e.key, tree.rank(e), rank)
			}
			if tree.members.get(view(e.key)) != e {
				t.Fatalf("%q is not in the dict", e.key)
			}
			before = e
			rank++
		}
	}
	check(tree.root, 0, true, true)
	if rank != tree.len() {
		t.Fatalf("%d members, want %d", rank, tree.len())
	}
	return height
}
