package server

import (
	"bytes"
	"sync"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A join makes one reply of those to the parts of a command, each from one server. It
// is their proxy.Caller: they come from the goroutines that read the servers.
type join struct {
	out   *output
	tag   uint64
	how   func(dst []byte, j *join) []byte
	parts []part
	from  []int // for each key, in the command's order, which part has it

	mu     sync.Mutex
	left   int    // replies still to come
	failed []byte // the first that was an error
	joined []byte // and before, what is being sent
}

// A part is what one server has to do with a command.
type part struct {
	node  *proxy.Node
	keys  int
	body  []byte // the arguments, as on the wire
	reply []byte
}

// joins are for commands to come: most are over within a millisecond.
var joins = sync.Pool{New: func() any { return new(join) }}

func (c *session) newJoin(how func(dst []byte, j *join) []byte) *join {
	j, _ := joins.Get().(*join)
	j.out, j.how = &c.out, how
	return j
}

// add gives j a part more, for a server.
func (j *join) add(n *proxy.Node) {
	if len(j.parts) < cap(j.parts) {
		j.parts = j.parts[:len(j.parts)+1]
	} else {
		j.parts = append(j.parts, part{})
	}
	p := &j.parts[len(j.parts)-1]
	p.node, p.keys, p.body, p.reply = n, 0, p.body[:0], p.reply[:0]
}

// begin says that no part is added any more: what comes are replies.
func (j *join) begin(tag uint64) { j.tag, j.left = tag, len(j.parts) }

// free gives j back, of which nobody knows any more.
func (j *join) free() {
	size := cap(j.joined)
	for i := range j.parts {
		p := &j.parts[i]
		p.node = nil
		size += cap(p.body) + cap(p.reply)
	}
	if size > maxIdleJoin {
		return
	}
	j.out, j.how, j.failed = nil, nil, nil
	j.parts, j.from, j.joined = j.parts[:0], j.from[:0], j.joined[:0]
	joins.Put(j)
}

const maxIdleJoin = 64 << 10

// Reply implements proxy.Caller. tag is the number of the part.
func (j *join) Reply(tag uint64, raw []byte) bool {
	j.mu.Lock()
	if raw[0] == '-' && j.failed == nil {
		j.failed = bytes.Clone(raw)
	}
	p := &j.parts[tag]
	p.reply = append(p.reply, raw...)
	j.left--
	last := j.left == 0
	j.mu.Unlock()
	if !last {
		return false
	}
	if j.failed == nil {
		j.joined = j.how(j.joined[:0], j)
	} else {
		j.joined = append(j.joined[:0], j.failed...)
	}
	flush := j.out.Reply(j.tag, j.joined)
	if !flush {
		j.free()
	}
	return flush
}

// Client is that of [output].
func (j *join) Client() string { return j.out.Client() }

// Flush implements proxy.Caller. It follows the last reply.
func (j *join) Flush() {
	j.out.Flush()
	j.free()
}

// A fragmented command takes any number of keys, each with step-1 arguments behind
// it, and its reply can be joined.
type fragmented struct {
	step int
	how  func(dst []byte, j *join) []byte
}

var fragments = map[string]*fragmented{
	"mget": {1, joinArrays}, "mset": {2, joinOK},
	"del": {1, joinSums}, "unlink": {1, joinSums}, "touch": {1, joinSums}, "exists": {1, joinSums},
}

func joinOK(dst []byte, _ *join) []byte { return append(dst, okRaw...) }

// joinSums adds integers.
func joinSums(dst []byte, j *join) []byte {
	var sum int64
	for i := range j.parts {
		raw := j.parts[i].reply
		n, ok := resp.ParseInt(bytes.TrimSuffix(raw[1:], []byte("\r\n")))
		if raw[0] != ':' || !ok {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than a number")
		}
		sum += n
	}
	return resp.AppendInt(dst, sum)
}

// joinArrays puts the elements of arrays in the order of the keys.
func joinArrays(dst []byte, j *join) []byte {
	rest := make([][]byte, len(j.parts))
	for i := range j.parts {
		raw := j.parts[i].reply
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

// fragment sends a command to the servers that have its keys: as it came if that is
// one, or in parts.
func (c *session) fragment(k *keySpec, args [][]byte, raw []byte) {
	step := k.fragments.step
	if (len(args)-1)%step != 0 {
		c.fail("ERR wrong number of arguments for '" + k.name + "' command")
		return
	}
	pool := c.pool
	j := c.newJoin(k.fragments.how)
	inline, scatters := c.scanner.Inline(), pool.Scatters()
	for i := 1; i < len(args); i += step {
		c.asks(args[i])
		at := 0
		if node := pool.Pick(args[i]); i == 1 || !scatters { // else one server is as good as any
			for at < len(j.parts) && j.parts[at].node != node {
				at++
			}
			if at == len(j.parts) {
				j.add(node)
			}
		}
		p := &j.parts[at]
		p.keys++
		if inline {
			for _, a := range args[i : i+step] {
				p.body = resp.AppendBulk(p.body, a)
			}
		} else {
			p.body = append(p.body, c.scanner.Wire(raw, i, step)...)
		}
		j.from = append(j.from, at)
	}
	n := len(j.parts)
	if n == 1 {
		node := j.parts[0].node
		j.free()
		c.toServer(k.name, k, node, raw)
		return
	}
	c.commands[Local]--
	c.commands[Passed]++
	c.traffic.fragments.Add(uint64(n))
	j.begin(c.tag())
	if c.muted {
		c.out.prepare(j.tag, slot{mute: true})
	}
	for i := range n { // of j, which is another's after its last part
		p := &j.parts[i]
		whole := resp.AppendArray(j.joined[:0], 1+p.keys*step)
		whole = resp.AppendBulk(whole, k.name)
		whole = append(whole, p.body...)
		j.joined = whole
		c.toPart(j, i, k, p.node, whole)
	}
}
