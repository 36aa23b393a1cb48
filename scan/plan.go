package scan

import (
	"maps"

	"github.com/redoubt-go/redoubt/internal/keyslot"
)

// A part is a scan of one node for some slots: from cursor 0 to the end on one server
// process it gives all keys of these slots that were there the whole time.
type part struct {
	node    string // id
	process string
	cursor  string // empty: the beginning
	mark    *mark  // in the page at cursor; nil: nothing of it was given
	ended   bool

	own   slots // that the node owned when the part began
	shaky slots // those of own that were on their way to another node then
	rest  slots // what of them a node before has handed on to this one
}

// A plan keeps what a scan has given and what is left to be done. It is what makes a
// scan of a cluster whose slots move complete.
//
// A slot is covered when it was at one node from the beginning to the end of a part.
// One that is on its way from node A to node B needs two: first A from the beginning
// to the end, then B. A key is on A while A is gone over, or it is on B when B is
// begun, since keys go one way. Both at the same time would not do: a key that A is
// yet to give can go to where B has been already. So:
//
//   - at the end of A's part the slot is on its way to B: it is handed on to B, and a
//     part on B that begins from then on covers it;
//   - it belongs to somebody else by then: that one is gone over from the beginning.
type plan struct {
	covered slots
	handed  map[string]*slots // node id → slots whose keys are there, or were given
	parts   []*part
}

// settle judges the parts that have ended, by what the nodes say now that they have,
// and forgets those whose server process is no more. Their slots, unless covered or
// handed on, are to be gone over.
func (p *plan) settle(now *snapshot) {
	unfinished := p.parts[:0]
	for _, part := range p.parts {
		switch n := now.nodes[part.node]; {
		case part.ended:
			p.judge(part, now)
		case n != nil && n.process == part.process:
			unfinished = append(unfinished, part)
		}
	}
	p.parts = unfinished
}

func (p *plan) judge(part *part, now *snapshot) {
	for slot := range part.own.all() {
		n := now.owner[slot]
		if n == nil || n.id != part.node {
			continue // whoever owns it now is to be gone over
		}
		if to, leaves := n.leaving[slot]; leaves {
			p.hand(slot, to)
		} else if !part.shaky.has(slot) {
			p.covered.add(slot)
		} // else its keys may have come back
	}
	for slot := range part.rest.all() {
		switch n := now.owner[slot]; {
		case n == nil:
		case n.id == part.node:
			if to, leaves := n.leaving[slot]; leaves {
				p.hand(slot, to)
			} else {
				p.covered.add(slot)
			}
		case n.leaving[slot] == part.node: // still on its way here
			p.covered.add(slot)
		}
	}
}

func (p *plan) hand(slot int, to string) {
	if p.handed == nil {
		p.handed = map[string]*slots{}
	}
	if p.handed[to] == nil {
		p.handed[to] = new(slots)
	}
	p.handed[to].add(slot)
}

// extend makes parts for what no part is about, and returns the slots that can't be
// gone over now: nobody owns them, or they are on their way to a node that is not
// among the primaries, since it owns no slot yet.
func (p *plan) extend(now *snapshot) (stuck slots) {
	busy := p.covered
	for _, part := range p.parts {
		busy.addAll(&part.own)
		busy.addAll(&part.rest)
	}
	fresh := map[string]*part{}
	on := func(n *node) *part {
		if fresh[n.id] == nil {
			fresh[n.id] = &part{node: n.id, process: n.process}
			p.parts = append(p.parts, fresh[n.id])
		}
		return fresh[n.id]
	}
	for to, handed := range maps.Clone(p.handed) {
		for slot := range handed.all() {
			owner := now.owner[slot]
			switch n := now.nodes[to]; {
			case n != nil:
				on(n).rest.add(slot)
				busy.add(slot)
				handed.remove(slot)
			case owner != nil && owner.leaving[slot] != to: // it came to nothing
				handed.remove(slot)
			default:
				stuck.add(slot)
				busy.add(slot)
			}
		}
		if now.nodes[to] != nil {
			delete(p.handed, to)
		}
	}
	for slot := range keyslot.Count {
		if busy.has(slot) {
			continue
		}
		n := now.owner[slot]
		if n == nil {
			stuck.add(slot)
			continue
		}
		part := on(n)
		part.own.add(slot)
		if _, leaves := n.leaving[slot]; leaves {
			part.shaky.add(slot)
		}
	}
	return stuck
}
