package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSkiplistLinks does random changes to a skip list, and wants every link to
// lead where it says, to know the score there, and the steps to it.
func TestSkiplistLinks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6)) //nolint:gosec // to be repeated
	s := newSkiplist()
	for i := range 30_000 {
		member := fmt.Appendf(nil, "m%d", r.IntN(3000))
		score := float64(r.IntN(1000)) / 4
		switch e := s.members.get(member); {
		case e == nil:
			s.add(member, score)
		case r.IntN(3) == 0 || i > 25_000:
			s.remove(e)
		case r.IntN(2) == 0:
			s.move(e, e.val.score+0.001) // may stay where it is
		default:
			s.move(e, score)
		}
		if i%1000 == 0 || s.len() < 10 {
			checkLinks(t, s)
		}
	}
}

func checkLinks(t *testing.T, s *skiplist) {
	t.Helper()
	ranks := map[*zentry]int{s.head: 0, nil: s.len()}
	var nodes []*zentry
	for x := s.first(); x != nil; x = x.val.next {
		nodes = append(nodes, x)
		ranks[x] = len(nodes)
		if p := x.val.prev; p != nil && !before(p, x.val.score, x.key) || p == nil && len(nodes) > 1 {
			t.Fatalf("no. %d is not behind the one before", len(nodes))
		}
	}
	if len(nodes) != s.len() || len(nodes) > 0 && s.tail != nodes[len(nodes)-1] {
		t.Fatalf("%d nodes, want %d and a tail", len(nodes), s.len())
	}
	for i, e := range nodes {
		if s.rank(e) != i || s.at(i) != e {
			t.Fatalf("no. %d has the rank %d", i, s.rank(e))
		}
	}
	for level := 1; level < s.level; level++ {
		for x, up := s.head, s.head.val.up; x != nil; {
			l := up.at(level)
			if ranks[l.to]-ranks[x] != l.span {
				t.Fatalf("level %d, no. %d: span %d, want %d", level, ranks[x], l.span, ranks[l.to]-ranks[x])
			}
			if l.to != nil && (l.up != l.to.val.up || l.score != l.to.val.score) {
				t.Fatalf("level %d, no. %d: score %v, want %v", level, ranks[x], l.score, l.to.val.score)
			}
			x, up = l.to, l.up
		}
	}
}
