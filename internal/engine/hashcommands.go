package engine

import (
	"math"
	"math/rand/v2"
)

// getHash returns the hash of it, nil when there is none; ok is false when an
// error was written.
func (c *call) getHash(it *item) (h *hash, ok bool) {
	if it == nil {
		return nil, true
	}
	if it.val.kind() != kindHash {
		c.wrongType()
		return nil, false
	}
	return asHash(it), true
}

func cmdHset(c *call) {
	if len(c.args)%2 == 1 {
		c.err("ERR wrong number of arguments for '" + c.cmd.Name + "' command")
		return
	}
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	if h == nil {
		h = asHash(c.create(key, newHash()))
	}
	added := 0
	h.reserve(c.limits(), c.args[2:])
	for i := 2; i < len(c.args); i += 2 {
		if h.set(c.limits(), c.args[i], c.args[i+1]) {
			added++
		}
	}
	if c.cmd.Name == "hmset" {
		c.ok()
	} else {
		c.int(int64(added))
	}
	c.changed(key)
	c.notify(eventHash, "hset", key)
}

func cmdHmset(c *call) { cmdHset(c) }

func cmdHsetnx(c *call) {
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	if h != nil && h.has(c.args[2]) {
		c.int(0)
		return
	}
	if h == nil {
		h = asHash(c.create(key, newHash()))
	}
	h.set(c.limits(), c.args[2], c.args[3])
	c.int(1)
	c.changed(key)
	c.notify(eventHash, "hset", key)
}

// replyField writes a field, null when h or the field is not there.
func (c *call) replyField(h *hash, name []byte) {
	if f, ok := c.field(h, name); ok {
		c.str(f.value)
		return
	}
	c.null()
}

// roomForFields is room for a reply that has all of the fields.
func (c *call) roomForFields(h *hash, fields [][]byte) {
	n := 0
	for _, name := range fields {
		f, _ := c.field(h, name)
		n += len(f.value)
	}
	c.room(n + headerBytes*(len(fields)+1))
}

func cmdHget(c *call) {
	if h, ok := c.getHash(c.read(c.args[1])); ok {
		c.replyField(h, c.args[2])
	}
}

func cmdHmget(c *call) {
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, name := range c.args[2:] {
		c.replyField(h, name)
	}
}

func cmdHexists(c *call) {
	if h, ok := c.getHash(c.read(c.args[1])); ok {
		_, there := c.field(h, c.args[2])
		c.boolInt(there)
	}
}

func cmdHstrlen(c *call) {
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	f, _ := c.field(h, c.args[2])
	c.int(int64(len(f.value)))
}

func cmdHlen(c *call) {
	h, ok := c.getHash(c.read(c.args[1]))
	switch {
	case !ok:
	case h == nil:
		c.int(0)
	default:
		c.int(int64(c.visible(h)))
	}
}

func cmdHdel(c *call) {
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	removed := 0
	if h != nil {
		for _, name := range c.args[2:] {
			if h.remove(name) {
				removed++
			}
		}
	}
	if removed > 0 {
		c.changed(key)
		c.notify(eventHash, "hdel", key)
		if h.len() == 0 {
			c.removeEmpty(key)
		}
	}
	c.int(int64(removed))
}

func cmdHgetall(c *call) {
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	if h == nil {
		c.mapHead(0)
		return
	}
	c.mapHead(c.visible(h))
	c.eachField(h, func(name string, f field) bool {
		c.str(name)
		c.str(f.value)
		return true
	})
}

func cmdHkeys(c *call) { c.hashPart(func(name string, _ field) { c.str(name) }) }
func cmdHvals(c *call) { c.hashPart(func(_ string, f field) { c.str(f.value) }) }

func (c *call) hashPart(f func(string, field)) {
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	if h == nil {
		c.array(0)
		return
	}
	c.array(c.visible(h))
	c.eachField(h, func(name string, v field) bool {
		f(name, v)
		return true
	})
}

func cmdHincrby(c *call) {
	n, ok := c.argInt(c.args[3])
	if !ok {
		return
	}
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	var old int64
	if h != nil {
		if f, there := h.get(c.args[2]); there {
			if old, ok = parseInt(view(f.value)); !ok {
				c.err("ERR hash value is not an integer")
				return
			}
		}
	}
	if n < 0 && old < 0 && n < math.MinInt64-old || n > 0 && old > 0 && n > math.MaxInt64-old {
		c.err(errOverflow)
		return
	}
	if h == nil {
		h = asHash(c.create(key, newHash()))
	}
	old += n
	h.update(c.limits(), c.args[2], appendInt(nil, old))
	c.int(old)
	c.changed(key)
	c.notify(eventHash, "hincrby", key)
}

func cmdHincrbyfloat(c *call) {
	more, ok := parseLong(c.args[3])
	if !ok {
		c.err(errNotFloat)
		return
	}
	if more.IsInf() {
		c.err("ERR value is NaN or Infinity")
		return
	}
	key := c.args[1]
	h, ok := c.getHash(c.write(key))
	if !ok {
		return
	}
	old := new(longDouble)
	if h != nil {
		if f, there := h.get(c.args[2]); there {
			if old, ok = parseLong(view(f.value)); !ok {
				c.err("ERR hash value is not a float")
				return
			}
		}
	}
	sum, ok := c.addFloat(old, c.args[3])
	if !ok {
		return
	}
	if h == nil {
		h = asHash(c.create(key, newHash()))
	}
	h.update(c.limits(), c.args[2], sum)
	c.bulk(sum)
	c.changed(key)
	c.notify(eventHash, "hincrbyfloat", key)
	if c.journaled() {
		c.instead([]byte("HINCRBYFLOAT"), key, c.args[2], c.args[3])
	}
}

// mostRandom bounds how many elements may be drawn with repetition: they are drawn while
// the key's shard is locked, and so many take a tenth of a second.
const mostRandom = 1 << 20

func cmdHrandfield(c *call) {
	if len(c.args) == 2 {
		h, ok := c.getHash(c.read(c.args[1]))
		switch {
		case !ok:
		case h == nil:
			c.null()
		default:
			name, _ := c.randomField(h)
			c.str(name)
		}
		return
	}
	n, withValues, ok := c.randomArgs("withvalues")
	if !ok {
		return
	}
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	if h == nil || n == 0 {
		c.array(0)
		return
	}
	if n < -mostRandom {
		c.err("ERR value is out of range")
		return
	}
	emit := func(name string, f field) {
		if withValues && c.isRESP3() {
			c.array(2)
		}
		c.str(name)
		if withValues {
			c.str(f.value)
		}
	}
	count := int(min(n, int64(c.visible(h))))
	if n < 0 {
		count = int(-n)
	}
	if withValues && !c.isRESP3() {
		c.array(2 * count)
	} else {
		c.array(count)
	}
	if n < 0 {
		draw := h.random
		if h.many() == nil || c.visible(h) < h.len() { // read a small one once, not once for each draw
			names, fields := make([]string, 0, h.len()), make([]field, 0, h.len())
			c.eachField(h, func(name string, f field) bool {
				names, fields = append(names, name), append(fields, f)
				return true
			})
			draw = func() (string, field) {
				i := rand.IntN(len(names))
				return names[i], fields[i]
			}
		}
		for range count {
			emit(draw())
		}
		return
	}
	// Selection sampling: each of the fields left is taken with the
	// probability that makes every subset as likely.
	left, need := c.visible(h), count
	c.eachField(h, func(name string, f field) bool {
		if rand.IntN(left) < need {
			emit(name, f)
			need--
		}
		left--
		return need > 0
	})
}

// randomField returns a field that the call may see, each with the same probability.
func (c *call) randomField(h *hash) (name string, f field) {
	n := c.visible(h)
	if n == h.len() {
		return h.random()
	}
	left := rand.IntN(n)
	c.eachField(h, func(each string, v field) bool {
		name, f = each, v
		left--
		return left >= 0
	})
	return name, f
}

// randomArgs reads the count and the option of HRANDFIELD and ZRANDMEMBER.
func (c *call) randomArgs(option string) (n int64, with, ok bool) {
	n, ok = parseInt(c.args[2])
	if !ok {
		c.err(errNotInt)
		return 0, false, false
	}
	if n < -math.MaxInt64 {
		c.err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
		return 0, false, false
	}
	if len(c.args) > 4 || len(c.args) == 4 && !is(c.args[3], option) {
		c.syntax()
		return 0, false, false
	}
	with = len(c.args) == 4
	if with && (n < -math.MaxInt64/2 || n > math.MaxInt64/2) {
		c.err("ERR value is out of range")
		return 0, false, false
	}
	return n, with, true
}

func cmdHscan(c *call) {
	cursor, ok := c.scanCursor(2)
	if !ok {
		return
	}
	h, ok := c.getHash(c.read(c.args[1]))
	if !ok {
		return
	}
	if h == nil {
		c.endScan(c.begin(), 0, 0) // whatever the options are, as in Redis
		return
	}
	opts, ok := c.scanOptions(3)
	if !ok {
		return
	}
	var names []string
	next := uint64(0)
	switch {
	case h.many() == nil:
		h.each(func(name string, _ field) bool {
			names = append(names, name)
			return true
		})
	default:
		next = scanDict(h.many(), cursor, opts.count, func(e *entry[string]) { names = append(names, e.key) })
	}
	c.array(2)
	c.cursor(next)
	start, n := c.begin(), 0
	for _, name := range names {
		c.workMatch(opts.pattern, name)
		if !opts.matches(name) {
			continue
		}
		if f, ok := c.field(h, view(name)); ok {
			c.str(name)
			c.str(f.value)
			n += 2
		}
	}
	c.end(start, n)
}
