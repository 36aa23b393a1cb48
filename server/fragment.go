package server

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A join makes one reply of those to the fragments of a command, each for the keys
// of one server. It is their proxy.Caller: they come from the goroutines that read
// the servers.
type join struct {
	out  *output
	tag  uint64
	how  func(dst []byte, j *join) []byte
	from []int // for each key, in the command's order, which fragment has it

	mu      sync.Mutex
	left    int      // replies still to come
	replies [][]byte // of the fragments
	failed  []byte   // the first that was an error
}

// Reply implements proxy.Caller. tag is the number of the fragment.
func (j *join) Reply(tag uint64, raw []byte) bool {
	j.mu.Lock()
	if raw[0] == '-' && j.failed == nil {
		j.failed = bytes.Clone(raw)
	}
	j.replies[tag] = append([]byte(nil), raw...)
	j.left--
	last := j.left == 0
	j.mu.Unlock()
	if !last {
		return false
	}
	if j.failed != nil {
		return j.out.Reply(j.tag, j.failed)
	}
	return j.out.Reply(j.tag, j.how(nil, j))
}

// Flush implements proxy.Caller.
func (j *join) Flush() { j.out.Flush() }

// A fragmented command takes any number of keys, each with step-1 arguments behind
// it, and its reply can be joined.
type fragmented struct {
	step int
	how  func(dst []byte, j *join) []byte
}

var fragments = map[string]fragmented{
	"mget": {1, joinArrays}, "mset": {2, joinOK},
	"del": {1, joinSums}, "unlink": {1, joinSums}, "touch": {1, joinSums}, "exists": {1, joinSums},
}

func joinOK(dst []byte, _ *join) []byte { return append(dst, okRaw...) }

// joinSums adds integers.
func joinSums(dst []byte, j *join) []byte {
	var sum int64
	for _, raw := range j.replies {
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

// A fragment is the part of a command for one server.
type fragment struct {
	node *proxy.Node
	keys int
	body []byte // the arguments, as on the wire
}

// fragment sends a command in parts, each to the server that has its keys.
func (c *session) fragment(k *keySpec, f fragmented, args [][]byte) {
	pool := c.srv.pool.Load()
	var parts []fragment
	j := &join{out: &c.out, how: f.how, from: make([]int, 0, (len(args)-1)/f.step)}
	for i := 1; i < len(args); i += f.step {
		node, at := pool.Pick(args[i]), 0
		for at < len(parts) && parts[at].node != node {
			at++
		}
		if at == len(parts) {
			parts = append(parts, fragment{node: node})
		}
		part := &parts[at]
		part.keys++
		for _, a := range args[i : i+f.step] {
			part.body = resp.AppendBulk(part.body, a)
		}
		j.from = append(j.from, at)
	}
	j.left, j.replies = len(parts), make([][]byte, len(parts))
	j.tag = c.tag()
	if c.muted {
		c.out.prepare(j.tag, slot{mute: true})
	}
	var raw []byte
	for i, part := range parts {
		raw = append(raw[:0], '*')
		raw = strconv.AppendInt(raw, int64(1+part.keys*f.step), 10)
		raw = append(raw, '\r', '\n')
		raw = resp.AppendBulk(raw, k.name)
		raw = append(raw, part.body...)
		c.toPart(j, i, k, part.node, raw)
	}
}
