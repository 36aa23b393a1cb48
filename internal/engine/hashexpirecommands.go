package engine

import (
	"math"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// The commands on the time to live of single fields, as in Redis 7.4 and 8.0.

const (
	errFieldsMissing  = "ERR Mandatory argument FIELDS is missing or not at the right position"
	errFieldsMismatch = "ERR The `numfields` parameter must match the number of arguments"
	errFieldsCount    = "ERR Parameter `numFields` should be greater than 0"
)

// fieldArgs reads FIELDS numfields and the fields, each of width arguments.
func (c *call) fieldArgs(at, width int) ([][]byte, bool) {
	if at >= len(c.args) || !is(c.args[at], "fields") {
		c.err(errFieldsMissing)
		return nil, false
	}
	if at+1 >= len(c.args) {
		c.err(errFieldsCount)
		return nil, false
	}
	n, ok := parseInt(c.args[at+1])
	if !ok || n < 1 {
		c.err(errFieldsCount)
		return nil, false
	}
	rest := c.args[at+2:]
	if n > math.MaxInt32 || int64(len(rest)) != n*int64(width) {
		c.err(errFieldsMismatch)
		return nil, false
	}
	return rest, true
}

func cmdHexpire(c *call)    { c.hexpire(1000, true) }
func cmdHpexpire(c *call)   { c.hexpire(1, true) }
func cmdHexpireat(c *call)  { c.hexpire(1000, false) }
func cmdHpexpireat(c *call) { c.hexpire(1, false) }

// mostFieldExpire is the latest deadline of a field in Unix ms.
const mostFieldExpire = rdb.LatestExpire

func (c *call) hexpire(unit int64, relative bool) {
	at, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if at < 0 {
		c.err("ERR invalid expire time, must be >= 0")
		return
	}
	if at > mostFieldExpire/unit {
		c.invalidExpire()
		return
	}
	at *= unit
	if relative {
		if at += c.time(); at > mostFieldExpire {
			c.invalidExpire()
			return
		}
	}
	next, cond := 3, condition(0)
	if w := conditionOf(c.args[3]); w != 0 {
		next, cond = 4, w
	}
	fields, ok := c.fieldArgs(next, 1)
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	h, ok := c.getHash(it)
	if !ok {
		return
	}
	c.array(len(fields))
	if h == nil {
		for range fields {
			c.int(-2)
		}
		return
	}
	set := 0
	var deleted [][]byte
	for _, name := range fields {
		f, there := h.get(name)
		switch {
		case !there:
			c.int(-2)
		case !cond.allows(f.expire, at):
			c.int(0)
		case c.past(at):
			h.remove(name)
			deleted = append(deleted, name)
			c.int(2)
		default:
			h.setExpire(name, at)
			set++
			c.int(1)
		}
	}
	c.registerFields(it, h)
	if set+len(deleted) == 0 {
		return
	}
	c.changed(key)
	switch {
	case !c.journaled():
	case len(deleted) > 0:
		c.instead(append([][]byte{[]byte("HDEL"), key}, deleted...)...)
	default:
		c.instead(append([][]byte{[]byte("HPEXPIREAT"), key, appendInt(nil, at)}, c.args[3:]...)...)
	}
	if len(deleted) > 0 {
		c.notify(eventHash, "hdel", key)
	}
	if set > 0 {
		c.notify(eventHash, "hexpire", key)
	}
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}

func cmdHttl(c *call)        { c.httl(1000, true) }
func cmdHpttl(c *call)       { c.httl(1, true) }
func cmdHexpiretime(c *call) { c.httl(1000, false) }

func cmdHpexpiretime(c *call) { c.httl(1, false) }

func (c *call) httl(unit int64, relative bool) {
	fields, ok := c.fieldArgs(2, 1)
	if !ok {
		return
	}
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(fields))
	for _, name := range fields {
		f, there := c.field(h, name)
		switch {
		case !there:
			c.int(-2)
		case f.expire == 0:
			c.int(-1)
		case relative:
			c.int((f.expire - c.time() + unit - 1) / unit)
		default:
			c.int((f.expire + unit - 1) / unit)
		}
	}
}

func cmdHpersist(c *call) {
	fields, ok := c.fieldArgs(2, 1)
	if !ok {
		return
	}
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	c.array(len(fields))
	changed := false
	for _, name := range fields {
		var f field
		there := false
		if h != nil {
			f, there = h.get(name)
		}
		switch {
		case !there:
			c.int(-2)
		case f.expire == 0:
			c.int(-1)
		default:
			h.setExpire(name, 0)
			changed = true
			c.int(1)
		}
	}
	if changed {
		c.changed(key)
		c.notify(eventHash, "hpersist", key)
	}
}

func cmdHgetdel(c *call) {
	fields, ok := c.fieldArgs(2, 1)
	if !ok {
		return
	}
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	c.array(len(fields))
	deleted := false
	for _, name := range fields {
		c.replyField(h, name)
		deleted = h != nil && h.remove(name) || deleted
	}
	if !deleted {
		return
	}
	c.changed(key)
	c.notify(eventHash, "hdel", key)
	c.instead(append([][]byte{[]byte("HDEL"), key}, fields...)...)
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}

// hashExpiry is the options of HGETEX and HSETEX in front of FIELDS.
type hashExpiry struct {
	next    int   // position of FIELDS
	at      int64 // Unix ms
	timed   bool
	persist bool
	keep    bool
	fnx     bool
	fxx     bool
}

func (c *call) hashExpiryArgs(set bool) (o hashExpiry, ok bool) {
	chosen := 0
	for o.next = 2; o.next < len(c.args); o.next++ {
		a := c.args[o.next]
		unit, relative := int64(1), false
		switch {
		case is(a, "fields"):
			if chosen > 1 {
				if set {
					c.err("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")
				} else {
					c.err("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified")
				}
				return o, false
			}
			return o, true
		case set && is(a, "keepttl"):
			o.keep = true
			chosen++
			continue
		case !set && is(a, "persist"):
			o.persist = true
			chosen++
			continue
		case set && (is(a, "fnx") || is(a, "fxx")):
			if o.fnx || o.fxx {
				c.err("ERR Only one of FXX or FNX arguments can be specified")
				return o, false
			}
			o.fnx, o.fxx = is(a, "fnx"), is(a, "fxx")
			continue
		case is(a, "ex"):
			unit, relative = 1000, true
		case is(a, "px"):
			relative = true
		case is(a, "exat"):
			unit = 1000
		case is(a, "pxat"):
		default:
			c.err("ERR unknown argument: " + clip(a, 128))
			return o, false
		}
		chosen++
		o.next++
		if o.next >= len(c.args) {
			c.err("ERR missing expire time")
			return o, false
		}
		if o.at, ok = c.fieldDeadline(c.args[o.next], unit, relative); !ok {
			return o, false
		}
		o.timed = true
	}
	c.err(errFieldsMissing)
	return o, false
}

func (c *call) fieldDeadline(arg []byte, unit int64, relative bool) (int64, bool) {
	n, ok := c.argInt(arg)
	if !ok {
		return 0, false
	}
	if n < 0 {
		c.err("ERR invalid expire time, must be >= 0")
		return 0, false
	}
	if n > mostFieldExpire/unit {
		c.invalidExpire()
		return 0, false
	}
	n *= unit
	if relative {
		n += c.time()
	}
	if n > mostFieldExpire {
		c.invalidExpire()
		return 0, false
	}
	return n, true
}

func cmdHgetex(c *call) {
	o, ok := c.hashExpiryArgs(false)
	if !ok {
		return
	}
	fields, ok := c.fieldArgs(o.next, 1)
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	h, ok := c.getHash(it)
	if !ok {
		return
	}
	c.roomForFields(h, fields) // or else it ends here, before it changes anything
	c.array(len(fields))
	event := ""
	for _, name := range fields {
		c.replyField(h, name)
		if h == nil {
			continue
		}
		f, there := h.get(name)
		switch {
		case !there:
		case o.timed && c.past(o.at):
			h.remove(name)
			event = "hdel"
		case o.timed:
			h.setExpire(name, o.at)
			event = "hexpire"
		case o.persist && f.expire != 0:
			h.setExpire(name, 0)
			event = "hpersist"
		}
	}
	if event == "" {
		return
	}
	c.registerFields(it, h)
	c.changed(key)
	c.notify(eventHash, event, key)
	if c.journaled() {
		if event == "hdel" {
			c.instead(append([][]byte{[]byte("HDEL"), key}, fields...)...)
		} else if o.timed {
			c.instead(append([][]byte{[]byte("HPEXPIREAT"), key, appendInt(nil, o.at)}, c.args[o.next:]...)...)
		} else {
			c.instead(append([][]byte{[]byte("HPERSIST"), key}, c.args[o.next:]...)...)
		}
	}
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}

func cmdHsetex(c *call) {
	o, ok := c.hashExpiryArgs(true)
	if !ok {
		return
	}
	pairs, ok := c.fieldArgs(o.next, 2)
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	h, ok := c.getHash(it)
	if !ok {
		return
	}
	for i := 0; i < len(pairs); i += 2 {
		there := h != nil && h.has(pairs[i])
		if o.fnx && there || o.fxx && !there {
			c.int(0)
			return
		}
	}
	if h == nil {
		it = c.create(key, newHash())
		h = asHash(it)
	}
	past := o.timed && c.past(o.at)
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i]
		switch {
		case past:
			h.remove(name)
		case o.keep:
			h.update(c.limits(), name, pairs[i+1])
		default:
			h.set(c.limits(), name, pairs[i+1])
			if o.timed {
				h.setExpire(name, o.at)
			}
		}
	}
	c.registerFields(it, h)
	c.changed(key)
	c.notify(eventHash, "hset", key)
	if past {
		c.notify(eventHash, "hdel", key)
	} else if o.timed {
		c.notify(eventHash, "hexpire", key)
	}
	switch {
	case !c.journaled():
	case past:
		del := [][]byte{[]byte("HDEL"), key}
		for i := 0; i < len(pairs); i += 2 {
			del = append(del, pairs[i])
		}
		c.instead(del...)
	default: // in commands of Redis 7.4, which has no HSETEX
		c.instead(append([][]byte{[]byte("HSET"), key}, pairs...)...)
		for i := 0; i < len(pairs); i += 2 {
			if f, _ := h.get(pairs[i]); f.expire != 0 {
				c.instead([]byte("HPEXPIREAT"), key, appendInt(nil, f.expire), []byte("FIELDS"), []byte("1"), pairs[i])
			}
		}
	}
	c.int(1)
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}
