package engine

import (
	"math"
)

const maxString = 512 << 20

// Options of SET and GETEX.
const (
	optNX = 1 << iota
	optXX
	optGet
	optKeepTTL
	optPersist
	optEX
	optPX
	optEXAT
	optPXAT

	optTime = optEX | optPX | optEXAT | optPXAT
)

// parseSet reads the options of SET or, with get, of GETEX. until is the argument of the option
// that sets a time.
func (c *call) parseSet(args [][]byte, get bool) (opts int, until []byte, ok bool) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		timed := 0
		switch {
		case !get && is(a, "nx") && opts&optXX == 0:
			opts |= optNX
		case !get && is(a, "xx") && opts&optNX == 0:
			opts |= optXX
		case !get && is(a, "get"):
			opts |= optGet
		case !get && is(a, "keepttl") && opts&(optPersist|optTime) == 0:
			opts |= optKeepTTL
		case get && is(a, "persist") && opts&(optKeepTTL|optTime) == 0:
			opts |= optPersist
		case is(a, "ex"):
			timed = optEX
		case is(a, "px"):
			timed = optPX
		case is(a, "exat"):
			timed = optEXAT
		case is(a, "pxat"):
			timed = optPXAT
		default:
			c.syntax()
			return 0, nil, false
		}
		if timed != 0 {
			if opts&(optKeepTTL|optPersist|optTime&^timed) != 0 || i+1 == len(args) {
				c.syntax()
				return 0, nil, false
			}
			opts |= timed
			i++
			until = args[i]
		}
	}
	return opts, until, true
}

// deadline turns the argument of EX and its like into Unix ms.
func (c *call) deadline(arg []byte, opts int) (int64, bool) {
	n, ok := c.argInt(arg)
	if !ok {
		return 0, false
	}
	if n <= 0 || opts&(optEX|optEXAT) != 0 && n > math.MaxInt64/1000 {
		c.invalidExpire()
		return 0, false
	}
	if opts&(optEX|optEXAT) != 0 {
		n *= 1000
	}
	if opts&(optEX|optPX) != 0 {
		if n > math.MaxInt64-c.time() {
			c.invalidExpire()
			return 0, false
		}
		n += c.time()
	}
	return n, true
}

func (c *call) invalidExpire() { c.err("ERR invalid expire time in '" + c.cmd.Name + "' command") }

func cmdSet(c *call) {
	opts, until := 0, []byte(nil)
	if len(c.args) > 3 {
		var ok bool
		if opts, until, ok = c.parseSet(c.args[3:], false); !ok {
			return
		}
	}
	c.set(c.args[1], c.args[2], opts, until, "", "")
}

// set runs SET and its older relatives. yes and no are the replies; "" stands for OK and null.
func (c *call) set(key, val []byte, opts int, until []byte, yes, no string) {
	var at int64
	if opts&(optEX|optPX|optEXAT|optPXAT) != 0 {
		var ok bool
		if at, ok = c.deadline(until, opts); !ok {
			return
		}
	}
	if opts&optGet != 0 && !c.replyString(c.read(key)) {
		return
	}
	if opts&(optNX|optXX) != 0 {
		if found := c.write(key) != nil; found && opts&optNX != 0 || !found && opts&optXX != 0 {
			switch {
			case opts&optGet != 0:
			case no != "":
				c.w = append(c.w, no...)
			default:
				c.null()
			}
			return
		}
	}
	if opts&optKeepTTL != 0 {
		c.storeKeepingTTL(key, val)
	} else {
		c.storeString(key, val)
	}
	c.changed(key)
	c.notify(eventString, "set", key)
	if at != 0 {
		c.setExpire(key, c.lookupRaw(key), at)
		c.notify(eventGeneric, "expire", key)
		if c.journaled() {
			c.instead([]byte("SET"), key, val, []byte("PXAT"), appendInt(nil, at))
		}
	} else if c.journaled() && opts&optGet != 0 {
		if opts&optKeepTTL != 0 {
			c.instead([]byte("SET"), key, val, []byte("KEEPTTL"))
		} else {
			c.instead([]byte("SET"), key, val)
		}
	}
	switch {
	case opts&optGet != 0:
	case yes != "":
		c.w = append(c.w, yes...)
	default:
		c.ok()
	}
}

// lookupRaw returns the item of key, which must exist, without looking at its
// time.
func (c *call) lookupRaw(key []byte) *item { return c.shard(key).dbs[c.db].keys.get(key) }

func (c *call) storeKeepingTTL(key, val []byte) {
	var at int64
	if it := c.lookup(key); it != nil {
		at = it.val.expire
	}
	it := c.storeString(key, val)
	if at != 0 {
		c.setExpire(key, it, at)
	}
}

// replyString writes the string of it, null for nil.
func (c *call) replyString(it *item) bool {
	switch {
	case it == nil:
		c.null()
	case it.val.kind() != kindString:
		c.wrongType()
		return false
	default:
		c.longBulk(it.val.bytes())
	}
	return true
}

func cmdSetnx(c *call)  { c.set(c.args[1], c.args[2], optNX, nil, ":1\r\n", ":0\r\n") }
func cmdSetex(c *call)  { c.set(c.args[1], c.args[3], optEX, c.args[2], "", "") }
func cmdPsetex(c *call) { c.set(c.args[1], c.args[3], optPX, c.args[2], "", "") }
func cmdGet(c *call)    { c.replyString(c.read(c.args[1])) }

func cmdGetex(c *call) {
	key := c.args[1]
	opts, until, ok := c.parseSet(c.args[2:], true)
	if !ok {
		return
	}
	it := c.read(key)
	if it == nil {
		c.null()
		return
	}
	if !c.isString(it) {
		return
	}
	var at int64
	if opts&(optEX|optPX|optEXAT|optPXAT) != 0 {
		if at, ok = c.deadline(until, opts); !ok {
			return
		}
	}
	c.bulk(it.val.bytes())
	switch {
	case at != 0 && c.past(at):
		c.remove(key)
		c.changed(key)
		c.notify(eventGeneric, "del", key)
		c.instead([]byte("DEL"), key)
	case at != 0:
		c.setExpire(key, it, at)
		c.changed(key)
		c.notify(eventGeneric, "expire", key)
		c.instead([]byte("PEXPIREAT"), key, appendInt(nil, at))
	case opts&optPersist != 0 && it.val.expire != 0:
		c.setExpire(key, it, 0)
		c.changed(key)
		c.notify(eventGeneric, "persist", key)
		c.instead([]byte("PERSIST"), key)
	}
}

func cmdGetdel(c *call) {
	key := c.args[1]
	it := c.read(key)
	if !c.replyString(it) || it == nil {
		return
	}
	c.remove(key)
	c.changed(key)
	c.notify(eventGeneric, "del", key)
	c.instead([]byte("DEL"), key)
}

func cmdGetset(c *call) {
	if !c.replyString(c.read(c.args[1])) {
		return
	}
	c.storeString(c.args[1], c.args[2])
	c.changed(c.args[1])
	c.notify(eventString, "set", c.args[1])
	c.instead([]byte("SET"), c.args[1], c.args[2])
}

func cmdMget(c *call) {
	c.array(len(c.args) - 1)
	for _, key := range c.args[1:] {
		if it := c.read(key); it == nil || it.val.kind() != kindString {
			c.null()
		} else {
			c.bulk(it.val.bytes())
		}
	}
}

func cmdMset(c *call) {
	if len(c.args)%2 == 0 {
		c.err("ERR wrong number of arguments for '" + c.cmd.Name + "' command")
		return
	}
	c.mset()
	c.ok()
}

func (c *call) mset() {
	var long map[int][]byte // copied before anything is changed: it may be stopped
	for i := 2; i < len(c.args) && c.running != nil; i += 2 {
		if own := c.copiedIfLong(c.args[i]); own != nil {
			if long == nil {
				long = map[int][]byte{}
			}
			long[i] = own
		}
	}
	for i := 1; i < len(c.args); i += 2 {
		c.cacheShard(c.args[i])
		c.store(c.args[i], c.args[i+1], long[i+1])
		c.changed(c.args[i])
		c.notify(eventString, "set", c.args[i])
	}
}

func cmdMsetnx(c *call) {
	if len(c.args)%2 == 0 {
		c.err("ERR wrong number of arguments for '" + c.cmd.Name + "' command")
		return
	}
	for i := 1; i < len(c.args); i += 2 {
		if c.write(c.args[i]) != nil {
			c.int(0)
			return
		}
	}
	c.mset()
	c.int(1)
}

func cmdStrlen(c *call) {
	it := c.read(c.args[1])
	if !c.isString(it) {
		return
	}
	if it == nil {
		c.int(0)
		return
	}
	c.int(int64(len(it.val.bytes())))
}

// tooLong checks the size that a string would grow to.
func (c *call) tooLong(size, more int64) bool {
	if size+more > maxString || size+more < size {
		c.err(errTooLong)
		return true
	}
	return false
}

func cmdAppend(c *call) {
	key, more := c.args[1], c.args[2]
	it := c.write(key)
	if !c.isString(it) {
		return
	}
	if it == nil {
		it = c.storeString(key, more)
	} else {
		if c.tooLong(int64(len(it.val.bytes())), int64(len(more))) {
			return
		}
		old := len(it.val.bytes())
		it.val.setBytes(c.grown(it.val.bytes(), old+len(more)))
		copy(it.val.bytes()[old:], more)
		it.val.form = formRaw
	}
	c.changed(key)
	c.notify(eventString, "append", key)
	c.int(int64(len(it.val.bytes())))
}

func cmdSetrange(c *call) {
	key, piece := c.args[1], c.args[3]
	offset, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if offset < 0 {
		c.err("ERR offset is out of range")
		return
	}
	it := c.write(key)
	if !c.isString(it) {
		return
	}
	if len(piece) == 0 {
		if it == nil {
			c.int(0)
		} else {
			c.int(int64(len(it.val.bytes())))
		}
		return
	}
	if c.tooLong(offset, int64(len(piece))) {
		return
	}
	var old []byte
	if it != nil {
		old = it.val.bytes()
	}
	str := c.grown(old, int(offset)+len(piece))
	if it == nil {
		it = c.storeString(key, nil)
	}
	it.val.setString(str, formRaw)
	copy(str[offset:], piece)
	c.changed(key)
	c.notify(eventString, "setrange", key)
	c.int(int64(len(it.val.bytes())))
}

// grown returns b with at least n bytes, the new ones zero.
func (c *call) grown(b []byte, n int) []byte {
	if n <= len(b) {
		return b
	}
	if n <= cap(b) {
		tail := b[len(b):n]
		clear(tail)
		return b[:n]
	}
	if c.running == nil || len(b) < longValue {
		return append(b, make([]byte, n-len(b))...)
	}
	out := make([]byte, n, max(n, len(b)+len(b)/4))
	c.inParts(len(b), 1, func(from, to int) { copy(out[from:to], b[from:to]) })
	return out
}

func cmdGetrange(c *call) {
	from, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	to, ok := c.argInt(c.args[3])
	if !ok {
		return
	}
	it := c.read(c.args[1])
	if !c.isString(it) {
		return
	}
	if it == nil {
		c.str("")
		return
	}
	n := int64(len(it.val.bytes()))
	if from < 0 && to < 0 && from > to {
		c.str("")
		return
	}
	from, to = fromEnd(from, n), fromEnd(to, n)
	to = min(to, n-1)
	if from > to || n == 0 {
		c.str("")
		return
	}
	c.bulk(it.val.bytes()[from : to+1])
}

// fromEnd makes an index that may count from the end absolute, at least 0.
func fromEnd(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return max(i, 0)
}

func cmdSubstr(c *call) { cmdGetrange(c) }
