package server

import (
	"bytes"
	"sync"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A join makes one reply of those to the parts of a command, each from one server. It
// is their proxy.ReplyHandler: they come from the goroutines that read the servers.
type join struct {
	out  *output
	tag  uint64
	how  func(dst []byte, j *join) []byte
	from []int32 // for each key, in the command's order, which part has it; if how wants that

	mu      sync.Mutex
	replies [][]byte // of the parts
	left    int      // replies still to come
	counted int      // bytes of replies that out counts
	failed  []byte   // the first that was an error
	joined  []byte
}

// joins are for commands to come: most are over within a millisecond.
var joins = sync.Pool{New: func() any { return new(join) }}

// newJoin returns a join of so many parts, whose reply has the next place.
func (c *pooled) newJoin(how func(dst []byte, j *join) []byte, parts int) *join {
	j, _ := joins.Get().(*join)
	j.out, j.how, j.tag, j.left = &c.out, how, c.prepare(slot{}), parts
	for range parts {
		if n := len(j.replies); n < cap(j.replies) {
			j.replies = j.replies[:n+1]
			j.replies[n] = j.replies[n][:0]
		} else {
			j.replies = append(j.replies, nil)
		}
	}
	return j
}

// free returns j to the pool. No references to it remain.
func (j *join) free() {
	size := cap(j.joined)
	for _, raw := range j.replies {
		size += cap(raw)
	}
	if size > maxIdleJoin {
		return
	}
	j.out, j.how, j.failed = nil, nil, nil
	j.replies, j.from, j.joined = j.replies[:0], j.from[:0], j.joined[:0]
	joins.Put(j)
}

const maxIdleJoin = 16 << 10

// Reply implements proxy.ReplyHandler. tag is the number of the part.
func (j *join) Reply(tag uint64, raw []byte) bool {
	j.mu.Lock()
	if raw[0] == '-' && j.failed == nil {
		j.failed = bytes.Clone(raw)
	}
	switch {
	case len(raw) <= smallReply:
		j.replies[tag] = append(j.replies[tag], raw...)
	case j.out.Count(len(raw)):
		j.counted += len(raw)
		j.replies[tag] = append(j.replies[tag], raw...)
	case j.failed == nil:
		j.failed = resp.AppendError(nil, "ERR redoubt: "+errNoRoom.Error()+": the command has run")
	}
	j.left--
	last := j.left == 0
	j.mu.Unlock()
	if !last {
		return false
	}
	if j.failed == nil {
		j.joined = j.how(j.joined, j)
	} else {
		j.joined = append(j.joined, j.failed...)
	}
	if j.counted > 0 {
		j.out.Count(-j.counted)
		j.counted = 0
	}
	flush := j.out.Reply(j.tag, j.joined)
	if !flush {
		j.free()
	}
	return flush
}

// Count implements proxy.Counted.
func (j *join) Count(n int) bool { return j.out.Count(n) }

// Client is that of [output].
func (j *join) Client() string { return j.out.Client() }

// Flush implements proxy.ReplyHandler. It follows the last reply.
func (j *join) Flush() {
	j.out.Flush()
	j.free()
}

// A fragmented command takes any number of keys, each with step-1 arguments behind
// it, and its reply can be joined.
type fragmented struct {
	step    int
	how     func(dst []byte, j *join) []byte
	ordered bool // the reply has something for each key
}

var fragments = map[string]*fragmented{
	"mget": {1, joinArrays, true}, "mset": {2, joinOK, false},
	"del": {1, joinSums, false}, "unlink": {1, joinSums, false}, "touch": {1, joinSums, false}, "exists": {1, joinSums, false},
}

func joinOK(dst []byte, _ *join) []byte { return append(dst, okRaw...) }

// joinSums adds integers.
func joinSums(dst []byte, j *join) []byte {
	return j.fold(dst, func(a, b int64) int64 { return a + b })
}

// fold combines the numbers of all replies into one, beginning with 0.
func (j *join) fold(dst []byte, of func(a, b int64) int64) []byte {
	var all int64
	for _, raw := range j.replies {
		n, ok := resp.ParseInt(bytes.TrimSuffix(raw[1:], []byte("\r\n")))
		if raw[0] != ':' || !ok {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than a number")
		}
		all = of(all, n)
	}
	return resp.AppendInt(dst, all)
}

// joinArrays puts the elements of arrays in the order of the keys.
func joinArrays(dst []byte, j *join) []byte {
	rest := make([][]byte, len(j.replies))
	for i, raw := range j.replies {
		nl := bytes.IndexByte(raw, '\n')
		if raw[0] != '*' || nl < 0 {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than an array")
		}
		rest[i] = raw[nl+1:]
	}
	dst = resp.AppendArray(dst, len(j.from))
	var scanner resp.ReplyScanner
	for _, f := range j.from {
		n, err := scanner.Next(rest[f])
		if err != nil || n == 0 {
			return resp.AppendError(dst[:0], "ERR redoubt: a server answered with fewer values than keys")
		}
		dst = append(dst, rest[f][:n]...)
		rest[f] = rest[f][n:]
	}
	return dst
}

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
