package server

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// fanOut are the commands that concern all keys: they go to every server of the
// pool, and the replies are joined.
var fanOut = map[string]func(dst []byte, j *join) []byte{
	"dbsize": joinSums, "keys": joinAll, "flushall": joinOK, "flushdb": joinOK,
	"script load": joinFirst, "script exists": joinEvery, "script flush": joinOK,
	"pubsub channels": joinDistinct, "pubsub shardchannels": joinAll, "pubsub numsub": joinNumsub, "pubsub shardnumsub": joinNumsub, "pubsub numpat": joinMost,
}

// joinFirst takes the first reply: all are the same.
func joinFirst(dst []byte, j *join) []byte { return append(dst, j.replies[0]...) }

// joinAll puts arrays one behind the other.
func joinAll(dst []byte, j *join) []byte {
	var body []byte
	total := 0
	for _, raw := range j.replies {
		nl := bytes.IndexByte(raw, '\n')
		if raw[0] != '*' && raw[0] != '~' || nl < 2 {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than an array")
		}
		n, _ := resp.ParseInt(raw[1 : nl-1])
		total += int(n)
		body = append(body, raw[nl+1:]...)
	}
	return append(resp.AppendArray(dst, total), body...)
}

// joinDistinct is joinAll without what has come already: channels of keyspace
// notifications are listened to on all servers.
func joinDistinct(dst []byte, j *join) []byte {
	all := joinAll(nil, j)
	rest := all[bytes.IndexByte(all, '\n')+1:]
	var body []byte
	var scanner resp.ReplyScanner
	seen := make(map[string]bool)
	for n, err := scanner.Next(rest); n > 0 && err == nil; n, err = scanner.Next(rest) {
		if element := string(rest[:n]); !seen[element] {
			seen[element] = true
			body = append(body, element...)
		}
		rest = rest[n:]
	}
	if all[0] != '*' {
		return append(dst, all...)
	}
	return append(resp.AppendArray(dst, len(seen)), body...)
}

// joinEvery is for arrays of 0 and 1: an element is 1 if it is so everywhere.
func joinEvery(dst []byte, j *join) []byte {
	all := bytes.Clone(j.replies[0])
	for _, raw := range j.replies[1:] {
		if len(raw) != len(all) {
			return resp.AppendError(dst, "ERR redoubt: servers answered with arrays of different lengths")
		}
		for i := range raw {
			if bytes.HasPrefix(raw[i:], []byte(":0\r\n")) {
				all[i+1] = '0'
			}
		}
	}
	return append(dst, all...)
}

// fanOutName is the name of a command in fanOut.
func fanOutName(k *keySpec, args [][]byte) string {
	if (k.name == "script" || k.name == "pubsub") && len(args) > 1 {
		return k.name + " " + strings.ToLower(string(args[1]))
	}
	return k.name
}

// toAll sends a command to every server of the ring.
func (c *pooled) toAll(raw []byte, how func(dst []byte, j *join) []byte) {
	nodes := c.pool.Live()
	if c.slots != nil {
		if !c.slots.Known() {
			c.fail(unknownNodes)
			return
		}
		nodes = c.slots.Nodes()
	}
	j := c.newJoin(how, len(nodes))
	c.as(Passed)
	for i, n := range nodes {
		c.toPart(j, i, nil, n, raw)
	}
}

// toPart sends part i of what j joins. k may be nil, as for upstreamOf.
func (c *pooled) toPart(j *join, i int, k *keySpec, n *proxy.Node, raw []byte) {
	u, err := c.upstreamOf(k, n)
	if err == nil {
		c.touch(u)
		err = c.send(j.tag, c.isolates(raw), &batch{to: j, tag: uint64(i), n: 1, commands: raw}) //nolint:gosec // positive
	}
	if err != nil {
		c.srv.stats.backendErrors.Add(1)
		j.Reply(uint64(i), proxy.Unreachable(n.Backend().Name(), err).Reply()) //nolint:gosec // as above
	}
}

// scan goes over the keys of one server after the other. A client's cursor is that of
// the server times the number of servers, and which one it is.
func (c *pooled) scan(args [][]byte) {
	nodes := c.pool.Nodes()
	n := uint64(len(nodes))
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		c.fail("ERR invalid cursor")
		return
	}
	at := cursor % n
	next := at + 1
	if next == n {
		next = 0
	}
	c.scanOn(args, nodes[at], cursor/n, func(dst, raw []byte) []byte { return nextCursor(dst, raw, at, n, next) })
}

// scanOn sends SCAN to a server, with the cursor there.
func (c *pooled) scanOn(args [][]byte, node *proxy.Node, cursor uint64, change translate) {
	if !c.chooseNode(nil, node) {
		return
	}
	rest := make([]string, 0, len(args))
	for i, a := range args {
		if i == 1 {
			a = strconv.AppendUint(nil, cursor, 10)
		}
		rest = append(rest, string(a))
	}
	c.as(Passed)
	c.forward(resp.AppendCommand(nil, rest...), change)
}

// nextCursor gives a reply to SCAN of server at, of n, the cursor to go on with. next is the
// back end; 0: none.
func nextCursor(dst, raw []byte, at, n, next uint64) []byte {
	head := resp.AppendArray(nil, 2)
	if !bytes.HasPrefix(raw, head) {
		return append(dst, raw...)
	}
	element := first(raw)
	v, _, err := resp.Parse(element)
	text, _ := v.(string)
	cursor, perr := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || perr != nil:
		return append(dst, raw...)
	case cursor != 0 && cursor > (1<<63)/n:
		return resp.AppendError(dst, "ERR redoubt: a cursor of the server is too large to go through a pool")
	case cursor != 0:
		cursor = cursor*n + at
	default:
		cursor = next
	}
	dst = resp.AppendBulk(append(dst, head...), strconv.FormatUint(cursor, 10))
	return append(dst, raw[len(head)+len(element):]...)
}

// joinNumsub adds up the subscribers of each channel, but for channels that a client listens
// to on all servers.
func joinNumsub(dst []byte, j *join) []byte { return joinCounts(dst, j, aboutKeys) }

// joinNumsubMost is joinNumsub where each client listens on all servers.
func joinNumsubMost(dst []byte, j *join) []byte {
	return joinCounts(dst, j, func(string) bool { return true })
}

// joinCounts joins the numbers of subscribers: the most of a server for a channel that is
// listened to everywhere, else the sum.
func joinCounts(dst []byte, j *join, everywhere func(channel string) bool) []byte {
	var sum []any
	for _, raw := range j.replies {
		v, _, err := resp.Parse(raw)
		one, ok := v.([]any)
		if err != nil || !ok || sum != nil && len(one) != len(sum) {
			return resp.AppendError(dst, errNumsub.Error())
		}
		if sum == nil {
			sum = one
			continue
		}
		for i := 1; i < len(one); i += 2 {
			a, _ := sum[i].(int64)
			b, _ := one[i].(int64)
			if name, _ := one[i-1].(string); everywhere(name) {
				sum[i] = max(a, b)
			} else {
				sum[i] = a + b
			}
		}
	}
	return appendValue(dst, resp.RESP2, sum)
}

var errNumsub = errors.New("ERR redoubt: servers answered with different channels")

// joinMost takes the largest number: patterns are on all servers.
func joinMost(dst []byte, j *join) []byte {
	return j.fold(dst, func(a, b int64) int64 { return max(a, b) })
}
