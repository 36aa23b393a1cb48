package server

import (
	"sync"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A split is a command in parts, while it is sent.
type split struct {
	parts []part
	from  []int32 // for each key which part has it
	raw   []byte  // of the part that is being sent

	bySlot *[keyslot.Count]uint16 // in a cluster, the part with a slot, and 1; 0: there is none
}

// A part is what one server has to do with a command.
type part struct {
	node *proxy.Node
	slot uint16 // of its keys, in a cluster
	keys int
	body []byte // the arguments, as on the wire
}

var splits = sync.Pool{New: func() any { return new(split) }}

// of returns which part is for a server.
func (s *split) of(n *proxy.Node) (at int) {
	for at < len(s.parts) && s.parts[at].node != n {
		at++
	}
	if at == len(s.parts) {
		s.add(n)
	}
	return at
}

// add adds a part for a server.
func (s *split) add(n *proxy.Node) *part {
	at := len(s.parts)
	if at < cap(s.parts) {
		s.parts = s.parts[:at+1]
	} else {
		s.parts = append(s.parts, part{})
	}
	p := &s.parts[at]
	p.node, p.keys, p.body = n, 0, p.body[:0]
	return p
}

func (s *split) free() {
	size := cap(s.raw)
	for i := range s.parts {
		s.parts[i].node = nil
		if s.bySlot != nil {
			s.bySlot[s.parts[i].slot] = 0
		}
		size += cap(s.parts[i].body)
	}
	if size <= maxIdleSplit {
		s.parts, s.from = s.parts[:0], s.from[:0]
		splits.Put(s)
	}
}

const maxIdleSplit = 256 << 10

// fragment sends a command to the servers that have its keys: as it came if that is
// one, or in parts; in a cluster with a part for each slot, which may be many for one node.
func (c *pooled) fragment(k *keySpec, args [][]byte, raw []byte) {
	step := k.fragments.step
	if (len(args)-1)%step != 0 {
		c.fail("ERR wrong number of arguments for '" + k.name + "' command")
		return
	}
	s, _ := splits.Get().(*split)
	defer s.free()
	inline, scatters := c.scanner.Inline(), c.pool.Scatters()
	for i := 1; i < len(args); i += step {
		c.asked.add(args[i])
		at := 0
		if c.slots != nil {
			at = s.ofSlot(c.slots, args[i])
		} else if node := c.pool.Pick(args[i]); i == 1 || !scatters { // else one server is as good as any
			at = s.of(node)
		}
		p := &s.parts[at]
		p.keys++
		if inline {
			for _, a := range args[i : i+step] {
				p.body = resp.AppendBulk(p.body, a)
			}
		} else {
			p.body = append(p.body, c.scanner.Wire(raw, i, step)...)
		}
		s.from = append(s.from, int32(at)) //nolint:gosec // a number of servers
	}
	if len(s.parts) == 1 {
		c.toServer(k.name, k, s.parts[0].node, raw)
		return
	}
	c.as(Passed)
	c.traffic.fragments.Add(uint64(len(s.parts)))
	j := c.newJoin(k.fragments.how, len(s.parts))
	if k.fragments.ordered {
		j.from = append(j.from, s.from...)
	}
	for i := range s.parts { // j is another's after the last
		p := &s.parts[i]
		s.raw = resp.AppendArray(s.raw[:0], 1+p.keys*step)
		s.raw = resp.AppendBulk(s.raw, k.name)
		s.raw = append(s.raw, p.body...)
		c.toPart(j, i, k, p.node, s.raw)
	}
}
