package engine

import "math"

// A condition is an option of EXPIRE and HEXPIRE.
type condition uint8

const (
	condNX condition = 1 << iota
	condXX
	condGT
	condLT
)

func conditionOf(arg []byte) condition {
	switch {
	case is(arg, "nx"):
		return condNX
	case is(arg, "xx"):
		return condXX
	case is(arg, "gt"):
		return condGT
	case is(arg, "lt"):
		return condLT
	}
	return 0
}

// allows says whether a deadline may replace another, where 0 is none, which
// counts as later than any.
func (k condition) allows(old, at int64) bool {
	switch {
	case k&condNX != 0 && old != 0, k&condXX != 0 && old == 0:
		return false
	case k&condGT != 0 && (old == 0 || at <= old):
		return false
	case k&condLT != 0 && old != 0 && at >= old:
		return false
	}
	return true
}

func cmdExpire(c *call)    { c.expire(1000, true) }
func cmdPexpire(c *call)   { c.expire(1, true) }
func cmdExpireat(c *call)  { c.expire(1000, false) }
func cmdPexpireat(c *call) { c.expire(1, false) }

func (c *call) expire(unit int64, relative bool) {
	cond := condition(0)
	for _, a := range c.args[3:] {
		k := conditionOf(a)
		if k == 0 {
			c.err("ERR Unsupported option " + string(a))
			return
		}
		cond |= k
	}
	if cond&condNX != 0 && cond != condNX {
		c.err("ERR NX and XX, GT or LT options at the same time are not compatible")
		return
	}
	if cond&condGT != 0 && cond&condLT != 0 {
		c.err("ERR GT and LT options at the same time are not compatible")
		return
	}
	at, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if at > math.MaxInt64/unit || at < math.MinInt64/unit {
		c.invalidExpire()
		return
	}
	at *= unit
	if relative {
		if at > math.MaxInt64-c.time() {
			c.invalidExpire()
			return
		}
		at += c.time()
	}
	key := c.args[1]
	it := c.write(key)
	if it == nil || cond != 0 && !cond.allows(it.val.expire, at) {
		c.int(0)
		return
	}
	c.int(1)
	c.changed(key)
	if c.past(at) {
		c.remove(key)
		c.notify(eventGeneric, "del", key)
		c.instead([]byte("DEL"), key)
		return
	}
	c.setExpire(key, it, at)
	c.notify(eventGeneric, "expire", key)
	c.instead([]byte("PEXPIREAT"), key, appendInt(nil, at))
}

func cmdPersist(c *call) {
	key := c.args[1]
	it := c.write(key)
	if it == nil || it.val.expire == 0 {
		c.int(0)
		return
	}
	c.setExpire(key, it, 0)
	c.changed(key)
	c.notify(eventGeneric, "persist", key)
	c.int(1)
}

func cmdTTL(c *call)         { c.ttl(1000, true) }
func cmdPttl(c *call)        { c.ttl(1, true) }
func cmdExpiretime(c *call)  { c.ttl(1000, false) }
func cmdPexpiretime(c *call) { c.ttl(1, false) }

func (c *call) ttl(unit int64, relative bool) {
	it := c.peek(c.args[1])
	switch {
	case it == nil:
		c.int(-2)
	case it.val.expire == 0:
		c.int(-1)
	case relative:
		c.int(rounded(max(it.val.expire-c.time(), 0), unit))
	default:
		c.int(rounded(it.val.expire, unit))
	}
}

// rounded returns ms in units, to the nearest. A sum with half a unit would overflow for
// deadlines that are allowed.
func rounded(ms, unit int64) int64 {
	n := ms / unit
	if ms%unit >= (unit+1)/2 {
		n++
	}
	return n
}

// An expiryHeap holds the items of one database of one shard that have a time to live, the earliest
// first.
type expiryHeap struct{ deadlines[*item] }

// set gives it a deadline in Unix ms, or removes the deadline with 0.
func (h *expiryHeap) set(it *item, at int64) {
	it.val.expire = at
	h.deadlines.set(it, at)
}

func (h *expiryHeap) drop(it *item) { h.set(it, 0) }

// A volatileHash is the item of a hash whose fields have times to live. The keyspace orders it by
// the earliest of them.
type volatileHash struct{ it *item }

func (v volatileHash) place() *int32 { return &asHash(v.it).big().place }

// registerFields schedules the sweeper for the time at which the next field of a hash expires.
func (c *call) registerFields(it *item, h *hash) {
	at := h.earliest()
	ks := c.shard(view(it.key)).keyspace(c.db)
	if at != 0 || h.registered() {
		ks.fields.set(volatileHash{it}, at)
	}
	if at != 0 {
		c.e.sweeper.wake(c.e, at)
	}
}

// forgetFields is called before an item gets another value or is deleted.
func (ks *keyspace) forgetFields(it *item) {
	if it.val.form == formHash && asHash(it).registered() {
		ks.fields.set(volatileHash{it}, 0)
	}
}
