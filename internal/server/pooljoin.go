package server

import (
	"bytes"
	"sync"

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

// Owner is the handler of the client's other commands.
func (j *join) Owner() proxy.ReplyHandler { return j.out }

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
