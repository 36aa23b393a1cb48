package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/keyslot"
)

func primary(id string, epoch uint64, owned string, leaving map[int]string) *node {
	n := &node{id: id, process: "p" + id, epoch: epoch, leaving: leaving}
	if err := n.owned.parse(owned); err != nil {
		panic(err)
	}
	return n
}

func snap(nodes ...*node) *snapshot {
	s := &snapshot{cluster: true, nodes: map[string]*node{}}
	for _, n := range nodes {
		s.nodes[n.id] = n
		for slot := range n.owned.all() {
			s.owner[slot] = n
		}
	}
	return s
}

// what writes the parts of a plan as "node:own/rest".
func (p *plan) what() string {
	var list []string
	for _, part := range p.parts {
		list = append(list, part.node+":"+part.own.String()+"/"+part.rest.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// Each step ends all parts, and then sees the cluster as given.
func TestPlan(t *testing.T) {
	const half, other = "0-8191", "8192-16383"
	rest := snap(primary("a", 1, half, nil), primary("b", 2, other, nil))
	leaves := snap(primary("a", 1, half, map[int]string{5: "b"}), primary("b", 2, other, nil))
	moved := snap(primary("a", 1, "0-4,6-8191", nil), primary("b", 3, "5,"+other, nil))
	onward := snap(primary("a", 1, "0-4,6-8191", nil), primary("b", 3, "5,"+other, map[int]string{5: "c"}), primary("c", 4, "", nil))
	unseen := snap(primary("a", 1, half, map[int]string{5: "c"}), primary("b", 2, other, nil))
	nobody := snap(primary("a", 1, "0-4,6-8191", nil), primary("b", 2, other, nil))
	type step struct {
		now   *snapshot
		want  string // parts
		stuck string
	}
	for name, steps := range map[string][]step{
		"at rest":                         {{rest, "a:0-8191/ b:8192-16383/", ""}, {rest, "", ""}},
		"a slot has moved":                {{rest, "a:0-8191/ b:8192-16383/", ""}, {moved, "b:5/", ""}, {moved, "", ""}},
		"a slot moves, first here":        {{rest, "a:0-8191/ b:8192-16383/", ""}, {leaves, "b:/5", ""}, {moved, "", ""}},
		"a slot is on its way throughout": {{leaves, "a:0-8191/ b:8192-16383/", ""}, {leaves, "b:/5", ""}, {leaves, "", ""}},
		"a move is given up":              {{leaves, "a:0-8191/ b:8192-16383/", ""}, {rest, "a:5/", ""}, {rest, "", ""}},
		"a move is given up later":        {{leaves, "a:0-8191/ b:8192-16383/", ""}, {leaves, "b:/5", ""}, {rest, "a:5/", ""}, {rest, "", ""}},
		"on to a third":                   {{leaves, "a:0-8191/ b:8192-16383/", ""}, {leaves, "b:/5", ""}, {onward, "c:/5", ""}, {onward, "", ""}},
		"to a node without slots":         {{unseen, "a:0-8191/ b:8192-16383/", ""}, {unseen, "", "5"}, {unseen, "", "5"}, {moved, "b:5/", ""}, {moved, "", ""}},
		"nobody has it for a while":       {{rest, "a:0-8191/ b:8192-16383/", ""}, {nobody, "", "5"}, {moved, "b:5/", ""}, {moved, "", ""}},
	} {
		var p plan
		for i, s := range steps {
			for _, part := range p.parts {
				part.ended = true
			}
			p.settle(s.now)
			stuck := p.extend(s.now)
			if got := p.what(); got != s.want || stuck.String() != s.stuck {
				t.Errorf("%s: step %d has parts %q, stuck %q; want %q, %q", name, i, got, stuck.String(), s.want, s.stuck)
			}
		}
		if n := p.covered.len(); n != keyslot.Count {
			t.Errorf("%s: %d slots are covered", name, n)
		}
	}
}

// A process that has ended is scanned again; an unfinished part goes on.
func TestPlanAfterARestart(t *testing.T) {
	var p plan
	before := snap(primary("a", 1, "0-8191", nil), primary("b", 2, "8192-16383", nil))
	p.extend(before)
	for _, part := range p.parts {
		part.cursor = "17"
	}
	after := snap(primary("a", 1, "0-8191", nil), primary("b", 2, "8192-16383", nil))
	after.nodes["b"].process = "another"
	p.settle(after)
	p.extend(after)
	for _, part := range p.parts {
		if want := map[string]string{"a": "17", "b": ""}[part.node]; part.cursor != want {
			t.Errorf("node %s is at %q; want %q", part.node, part.cursor, want)
		}
	}
}

// A slot leaves its node and comes back while the node is scanned: keys came back behind the position of the
// scan, so the part doesn't count for the slot. The same holds for a move that is given up, and for a slot
// that was handed on.
func TestPlanOfASlotThatComesBack(t *testing.T) {
	const half, other = "0-8191", "8192-16383"
	rest := snap(primary("a", 1, half, nil), primary("b", 2, other, nil))
	leaves := snap(primary("a", 1, half, map[int]string{5: "b"}), primary("b", 2, other, nil))
	moved := snap(primary("a", 1, "0-4,6-8191", nil), primary("b", 3, "5,"+other, nil))
	back := snap(primary("a", 1, "0-4,6-8191", nil), primary("b", 3, "5,"+other, map[int]string{5: "a"}))
	for name, c := range map[string]struct {
		begin, seen, end *snapshot
		want             string // parts that are left when all have ended
	}{
		"away and back":          {rest, moved, rest, "a:5/"},
		"given up":               {rest, leaves, rest, "a:5/"},
		"nothing moves":          {rest, rest, rest, ""},
		"handed on, comes back":  {leaves, back, moved, "b:5/"},
		"handed on, still moves": {leaves, leaves, moved, ""},
	} {
		var p plan
		p.extend(c.begin)
		if c.begin == leaves { // a is done, and b is scanned for the slot
			for _, part := range p.parts {
				part.ended = true
			}
			p.settle(leaves)
			p.extend(leaves)
		}
		for _, part := range p.parts {
			part.observe(c.seen)
			part.ended = true
		}
		p.settle(c.end)
		p.extend(c.end)
		if got := p.what(); got != c.want {
			t.Errorf("%s: parts %q are left; want %q", name, got, c.want)
		}
	}
}

func TestReadTable(t *testing.T) {
	n := &node{}
	err := n.readTable("f1 10.0.0.1:6379@16379 master - 0 1 7 connected 0-5\n" +
		"e2 10.0.0.2:6379@16379,host myself,master - 0 0 9 connected 6-8 11 [7->-f1] [3-<-f1]\n")
	if err != nil || n.id != "e2" || n.epoch != 9 || n.owned.String() != "6-8,11" || fmt.Sprint(n.leaving) != "map[7:f1]" {
		t.Errorf("%+v, %v", n, err)
	}
	for _, table := range []string{"", "f1 a master - 0 1 7 connected", "f1 a myself,master - 0 1 x connected", "f1 a myself,master - 0 1 7 connected 9-3", "f1 a myself,master - 0 1 7 connected [99999->-x]"} {
		if (&node{}).readTable(table) == nil {
			t.Errorf("%q is read", table)
		}
	}
}

// Further prefixes replace the lightest ones, and say by how much they may be overestimated.
//
// Promise: A Report has the biggest of the keys that it measured, in bounded memory, and says by how much it
// may overestimate a prefix.
func TestHeavy(t *testing.T) {
	h, sum := newHeavy(50), map[string]int64{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		name, weight := fmt.Sprint(rng.IntN(2000)), int64(1)
		if rng.IntN(3) == 0 {
			name, weight = fmt.Sprint("heavy", rng.IntN(5)), 20
		}
		h.add(name, weight)
		sum[name] += weight
	}
	for i, p := range h.first(5) {
		if !strings.HasPrefix(p.Name, "heavy") || p.Weight < sum[p.Name] || p.Weight-p.MaxError > sum[p.Name] {
			t.Errorf("place %d has %+v, whose weight is %d", i, p, sum[p.Name])
		}
	}
	if len(h.items) != 50 || len(h.order.list) != 50 {
		t.Errorf("%d are kept", len(h.items))
	}
}
