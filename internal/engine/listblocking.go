package engine

import (
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// argTimeout reads how long to block, in seconds. 0 is for ever.
func (c *call) argTimeout(arg []byte) (time.Duration, bool) {
	f, ok := parseLong(arg)
	if !ok {
		c.err(errTimeout)
		return 0, false
	}
	ms := new(longDouble).SetPrec(longPrecision)
	if !f.IsInf() {
		ms.Mul(f, big.NewFloat(1000))
	}
	n, accuracy := ms.Int64()
	if accuracy == big.Below && n < math.MaxInt64 {
		n++
	}
	if f.Sign() < 0 && n <= 0 && f.Sign() != 0 && n < 0 || f.IsInf() || n == math.MaxInt64 {
		c.err("ERR timeout is negative")
		return 0, false
	}
	return longest(n), true
}

// longest makes a time.Duration of ms. For more than 292 years, the longest one, it returns
// that.
func longest(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// side reads LEFT or RIGHT.
func (c *call) side(arg []byte) (left, ok bool) {
	switch {
	case is(arg, "left"):
		return true, true
	case is(arg, "right"):
		return false, true
	}
	c.syntax()
	return false, false
}

func cmdBlpop(c *call) { c.blockingPop(true) }
func cmdBrpop(c *call) { c.blockingPop(false) }

// firstOf returns the first of keys that holds a value of kind k. ok is false
// when a reply was written: a key of another type. When a waiting command is
// redone, only the key that became ready counts.
func (c *call) firstOf(keys [][]byte, k kind) (key []byte, it *item, ok bool) {
	for _, key := range keys {
		if c.only != nil && string(c.only) != string(key) {
			continue
		}
		it := c.write(key)
		switch {
		case it == nil:
		case it.val.kind() == k:
			return key, it, true
		case c.only == nil:
			c.wrongType()
			return nil, nil, false
		}
	}
	return nil, nil, true
}

// mustWait is called when a blocking command found nothing.
func (c *call) mustWait(keys [][]byte, timeout time.Duration, expired []byte) {
	if c.only == nil {
		c.block(keys, timeout, expired)
	}
}

func (c *call) blockingPop(left bool) {
	keys := c.args[1 : len(c.args)-1]
	timeout, ok := c.argTimeout(c.args[len(c.args)-1])
	if !ok {
		return
	}
	key, it, ok := c.firstOf(keys, kindList)
	if !ok {
		return
	}
	if it == nil {
		c.mustWait(keys, timeout, resp.AppendNullArray(nil, c.proto))
		return
	}
	c.array(2)
	c.bulk(key)
	c.popMany(key, asList(it), left, 1)
	c.instead([]byte(popName(left)), key)
}

func popName(left bool) string {
	if left {
		return "LPOP"
	}
	return "RPOP"
}

func cmdRpoplpush(c *call) { c.move(false, true, 0, false) }

func cmdLmove(c *call) {
	from, ok := c.side(c.args[3])
	if !ok {
		return
	}
	if to, ok := c.side(c.args[4]); ok {
		c.move(from, to, 0, false)
	}
}

func cmdBrpoplpush(c *call) {
	if timeout, ok := c.argTimeout(c.args[3]); ok {
		c.move(false, true, timeout, true)
	}
}

func cmdBlmove(c *call) {
	from, ok := c.side(c.args[3])
	if !ok {
		return
	}
	to, ok := c.side(c.args[4])
	if !ok {
		return
	}
	if timeout, ok := c.argTimeout(c.args[5]); ok {
		c.move(from, to, timeout, true)
	}
}

// move takes an element from one end of args[1] to one end of args[2].
func (c *call) move(fromLeft, toLeft bool, timeout time.Duration, blocking bool) {
	src, dst := c.args[1], c.args[2]
	it := c.write(src)
	if it == nil || c.only != nil && it.val.kind() != kindList {
		switch {
		case c.only != nil:
		case blocking:
			if c.noBlock {
				c.null()
				return
			}
			c.block([][]byte{src}, timeout, resp.AppendNullArray(nil, c.proto))
		default:
			c.null()
		}
		return
	}
	from, ok := c.getList(it)
	if !ok {
		return
	}
	c.room(len(from.end(fromLeft).value()) + headerBytes) // or else it ends here, before it changes anything
	to := from
	if string(src) != string(dst) {
		other := c.write(dst)
		if to, ok = c.getList(other); !ok {
			return
		}
		if to == nil {
			to = asList(c.create(dst, newList()))
		}
	}
	var s string
	event := "rpop"
	if fromLeft {
		s, event = from.popFront(), "lpop"
	} else {
		s = from.popBack()
	}
	s = strings.Clone(s) // it lies in the list that it may be pushed to
	c.changed(dst)
	if toLeft {
		to.pushFront(s)
		c.notify(eventList, "lpush", dst)
	} else {
		to.pushBack(s)
		c.notify(eventList, "rpush", dst)
	}
	c.str(s)
	c.changed(src)
	c.notify(eventList, event, src)
	if from.len() == 0 {
		c.removeEmpty(src)
	}
	if blocking && c.journaled() {
		side := map[bool]string{true: "LEFT", false: "RIGHT"}
		c.instead([]byte("LMOVE"), src, dst, []byte(side[fromLeft]), []byte(side[toLeft]))
	}
}
