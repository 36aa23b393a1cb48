package engine

import "math"

func cmdIncr(c *call) { c.add(1) }
func cmdDecr(c *call) { c.add(-1) }

func cmdIncrby(c *call) {
	if n, ok := c.argInt(c.args[2]); ok {
		c.add(n)
	}
}

func cmdDecrby(c *call) {
	n, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if n == math.MinInt64 {
		c.err("ERR decrement would overflow")
		return
	}
	c.add(-n)
}

// add adds n to the number in a string.
func (c *call) add(n int64) {
	key := c.args[1]
	it := c.write(key)
	if !c.isString(it) {
		return
	}
	var old int64
	if it != nil {
		var ok bool
		if old, ok = parseInt(it.val.bytes()); !ok {
			c.err(errNotInt)
			return
		}
	}
	if n < 0 && old < 0 && n < math.MinInt64-old || n > 0 && old > 0 && n > math.MaxInt64-old {
		c.err(errOverflow)
		return
	}
	old += n
	if it == nil {
		it = c.createString(key, 8) // digits, for most counters
	}
	it.val.setBytes(appendInt(it.val.bytes()[:0], old))
	it.val.form = formString
	c.changed(key)
	c.notify(eventString, "incrby", key)
	c.int(old)
}

func cmdIncrbyfloat(c *call) {
	key := c.args[1]
	it := c.write(key)
	if !c.isString(it) {
		return
	}
	sum := new(longDouble)
	if it != nil {
		var ok bool
		if sum, ok = parseLong(it.val.bytes()); !ok {
			c.err(errNotFloat)
			return
		}
	}
	text, ok := c.addFloat(sum, c.args[2])
	if !ok {
		return
	}
	if it == nil {
		it = c.createString(key, 0)
	}
	it.val.setString(text, formPlain)
	c.changed(key)
	c.notify(eventString, "incrbyfloat", key)
	if c.journaled() {
		c.instead([]byte("SET"), key, clone(text), []byte("KEEPTTL"))
	}
	c.bulk(text)
}

// addFloat adds the argument to a number and returns it as text.
func (c *call) addFloat(old *longDouble, arg []byte) ([]byte, bool) {
	more, ok := parseLong(arg)
	if !ok {
		c.err(errNotFloat)
		return nil, false
	}
	sum := new(longDouble).SetPrec(longPrecision)
	if old.IsInf() || more.IsInf() || !fitsLong(sum.Add(old, more)) {
		c.err("ERR increment would produce NaN or Infinity")
		return nil, false
	}
	return formatLong(sum), true
}
