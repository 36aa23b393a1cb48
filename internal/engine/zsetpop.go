package engine

import "github.com/redoubt-go/redoubt/internal/resp"

func cmdZpopmin(c *call) { c.zpop(false) }
func cmdZpopmax(c *call) { c.zpop(true) }

func (c *call) zpop(greatest bool) {
	if len(c.args) > 3 {
		c.syntax()
		return
	}
	count := int64(1)
	if len(c.args) == 3 {
		var ok bool
		if count, ok = parseInt(c.args[2]); !ok || count < 0 {
			c.err(errPositive)
			return
		}
	}
	key := c.args[1]
	z, ok := c.getZset(c.write(key))
	if !ok {
		return
	}
	if z == nil || count == 0 {
		c.array(0)
		return
	}
	count = min(count, int64(z.len()))
	if len(c.args) == 3 && c.isRESP3() {
		c.array(int(count))
	} else {
		c.array(int(count) * 2)
	}
	c.zpopMany(key, z, greatest, count, len(c.args) == 3 && c.isRESP3())
}

// zpopMany removes count members and writes them with their scores.
func (c *call) zpopMany(key []byte, z *zset, greatest bool, count int64, nested bool) {
	at, from := z.first(), z.first()
	if greatest {
		at, from = z.last(), z.at(z.len()-int(count))
	}
	for range count {
		c.work(stepsPerMember)
		if nested {
			c.array(2)
		}
		c.str(at.member())
		c.double(at.score())
		if greatest {
			at = at.prev()
		} else {
			at = at.next()
		}
	}
	c.cut(z, from, int(count))
	c.changed(key)
	event, name := "zpopmin", "ZPOPMIN"
	if greatest {
		event, name = "zpopmax", "ZPOPMAX"
	}
	c.notify(eventZset, event, key)
	if z.len() == 0 {
		c.removeEmpty(key)
	}
	c.instead([]byte(name), key, appendInt(nil, count))
}

func cmdBzpopmin(c *call) { c.bzpop(false) }
func cmdBzpopmax(c *call) { c.bzpop(true) }

func (c *call) bzpop(greatest bool) {
	keys := c.args[1 : len(c.args)-1]
	timeout, ok := c.argTimeout(c.args[len(c.args)-1])
	if !ok {
		return
	}
	key, it, ok := c.firstOf(keys, kindZset)
	if !ok {
		return
	}
	if it == nil {
		c.mustWait(keys, timeout, resp.AppendNullArray(nil, c.proto))
		return
	}
	c.array(3)
	c.bulk(key)
	c.zpopMany(key, asZset(it), greatest, 1, false)
}
