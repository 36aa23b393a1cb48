package scan

import (
	"maps"

	"github.com/redoubt-go/redoubt/internal/keyslot"
)

// A part is a scan of one node for some slots. From cursor 0 to the end on one server process it yields
// all keys of these slots that existed the whole time.
type part struct {
	node    string // id
	process string
	cursor  string // empty: the beginning
	mark    *mark  // in the page at cursor; nil: nothing of it was yielded
	ended   bool

	own   slots // that the node owned when the part began
	shaky slots // the slots of own that were moving to another node then
	rest  slots // slots that an earlier node has handed on to this one
	gone  slots // the slots of own and rest that were seen to leave the node since; they must be scanned again
}

// A plan keeps which slots a scan has covered and which are left. It makes a scan complete although slots
// move.
//
// A slot is covered when it was at one node from the beginning to the end of a part. A slot that moves
// from node A to node B needs two parts: first A from the beginning to the end, then B. A key is on A
// while A is scanned, or it is on B when the scan of B begins, since keys move one way. Scanning both at
// the same time would not do: a key that A has not yielded yet can move behind the position of the scan of
// B. So:
//
//   - When A's part ends and the slot is still moving to B, the slot is handed on to B. A part on B that
//     begins after that covers it.
//   - When another node owns the slot by then, that node is scanned from the beginning.
//   - When a slot leaves while its part is running, the part no longer counts for it: the slot may come back
//     with keys that the position of the part has passed.
type plan struct {
	covered slots
	handed  map[string]*slots // node id → slots whose keys are there, or were given
	parts   []*part
}

// settle judges the parts that have ended, by the state of the nodes after that, and drops the parts whose
// server process is gone. Their slots are scanned again unless they are covered or handed on.
func (p *plan) settle(now *snapshot) {
	unfinished := p.parts[:0]
	for _, part := range p.parts {
		switch n := now.nodes[part.node]; {
		case part.ended:
			p.judge(part, now)
		case n != nil && n.process == part.process:
			part.observe(now)
			unfinished = append(unfinished, part)
		}
	}
	p.parts = unfinished
}

// observe notes which slots of an unfinished part are leaving its node, or have left it. They are planned anew
// only when the part has ended: a part for each slot that moves would scan the node once for each.
func (p *part) observe(now *snapshot) {
	for slot := range p.own.all() {
		if n := now.owner[slot]; n == nil {
			continue
		} else if n.id != p.node {
			p.gone.add(slot)
		} else if _, leaves := n.leaving[slot]; leaves {
			p.shaky.add(slot)
		}
	}
	for slot := range p.rest.all() {
		if n := now.owner[slot]; n == nil {
			continue
		} else if _, leaves := n.leaving[slot]; n.id == p.node && leaves || n.id != p.node && n.leaving[slot] != p.node {
			p.gone.add(slot)
		}
	}
}

func (p *plan) judge(part *part, now *snapshot) {
	part.own.removeAll(&part.gone)
	part.rest.removeAll(&part.gone)
	for slot := range part.own.all() {
		n := now.owner[slot]
		if n == nil || n.id != part.node {
			continue // the node that owns it now must be scanned
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
		case n.leaving[slot] == part.node: // still moving to this node
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

// extend makes parts for the slots that are in no part, and returns the slots that can't be scanned now:
// no node owns them, or they are moving to a node that is not among the primaries, since it owns no slot
// yet.
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
			case owner != nil && owner.leaving[slot] != to: // the move was cancelled
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
