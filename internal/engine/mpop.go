package engine

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A multiPop has the differences between LMPOP and ZMPOP.
type multiPop struct {
	kind kind
	ends [2]string // the words for the two ends
	// pop replies with count elements from an end, the first of ends or the second, and removes them.
	pop func(c *call, key []byte, it *item, second bool, count int64)
}

var (
	listMultiPop = &multiPop{kindList, [2]string{"left", "right"}, func(c *call, key []byte, it *item, second bool, count int64) {
		c.popMany(key, asList(it), !second, count)
		c.instead([]byte(popName(!second)), key, appendInt(nil, count))
	}}
	zsetMultiPop = &multiPop{kindZset, [2]string{"min", "max"}, func(c *call, key []byte, it *item, second bool, count int64) {
		c.zpopMany(key, asZset(it), second, count, true)
	}}
)

func cmdLmpop(c *call)  { c.mpop(listMultiPop, 1, 0, false) }
func cmdZmpop(c *call)  { c.mpop(zsetMultiPop, 1, 0, false) }
func cmdBlmpop(c *call) { c.blockingMpop(listMultiPop) }
func cmdBzmpop(c *call) { c.blockingMpop(zsetMultiPop) }

func (c *call) blockingMpop(m *multiPop) {
	if timeout, ok := c.argTimeout(c.args[1]); ok {
		c.mpop(m, 2, timeout, true)
	}
}

// mpop runs a command whose numkeys is args[at].
func (c *call) mpop(m *multiPop, at int, timeout time.Duration, blocking bool) {
	keys, second, count, ok := c.mpopArgs(m, at)
	if !ok {
		return
	}
	key, it, ok := c.firstOf(keys, m.kind)
	switch {
	case !ok:
	case it != nil:
		count = min(count, int64(it.val.len()))
		c.array(2)
		c.bulk(key)
		c.array(int(count))
		m.pop(c, key, it, second, count)
	case blocking:
		c.mustWait(keys, timeout, resp.AppendNullArray(nil, c.proto))
	default:
		c.nullArray()
	}
}

// mpopArgs reads numkeys key [key ...] end [COUNT count]. It has answered with an error when ok is
// false.
func (c *call) mpopArgs(m *multiPop, at int) (keys [][]byte, second bool, count int64, ok bool) {
	n, ok := parseInt(c.args[at])
	if !ok || n < 1 {
		c.err("ERR numkeys should be greater than 0")
		return nil, false, 0, false
	}
	rest := c.args[at+1:]
	if n >= int64(len(rest)) {
		c.syntax()
		return nil, false, 0, false
	}
	keys, rest = rest[:n], rest[n:]
	second = is(rest[0], m.ends[1])
	if !second && !is(rest[0], m.ends[0]) {
		c.syntax()
		return nil, false, 0, false
	}
	count = -1
	for rest = rest[1:]; len(rest) > 0; rest = rest[2:] {
		if count != -1 || !is(rest[0], "count") || len(rest) == 1 {
			c.syntax()
			return nil, false, 0, false
		}
		if count, ok = parseInt(rest[1]); !ok || count < 1 {
			c.err("ERR count should be greater than 0")
			return nil, false, 0, false
		}
	}
	if count == -1 {
		count = 1
	}
	return keys, second, count, true
}
