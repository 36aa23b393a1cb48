package engine

import (
	"strings"
)

// getList returns the list of key, nil when there is none; ok is false when an
// error was written.
func (c *call) getList(it *item) (l *list, ok bool) {
	if it == nil {
		return nil, true
	}
	if it.val.kind() != kindList {
		c.wrongType()
		return nil, false
	}
	return asList(it), true
}

func cmdLpush(c *call)  { c.push(true, true) }
func cmdRpush(c *call)  { c.push(false, true) }
func cmdLpushx(c *call) { c.push(true, false) }
func cmdRpushx(c *call) { c.push(false, false) }

func (c *call) push(front, create bool) {
	key := c.args[1]
	it := c.write(key)
	l, ok := c.getList(it)
	if !ok {
		return
	}
	if l == nil {
		if !create {
			c.int(0)
			return
		}
		l = asList(c.create(key, newList()))
	}
	event, size := "rpush", 0
	for _, v := range c.args[2:] {
		size += entryBytes(len(v))
	}
	l.reserve(size, front)
	if front {
		event = "lpush"
		for _, v := range c.args[2:] {
			l.pushFront(text(v))
		}
	} else {
		for _, v := range c.args[2:] {
			l.pushBack(text(v))
		}
	}
	c.changed(key)
	c.notify(eventList, event, key)
	c.int(int64(l.len()))
}

func cmdLpop(c *call) { c.pop(true) }
func cmdRpop(c *call) { c.pop(false) }

func (c *call) pop(front bool) {
	if len(c.args) > 3 {
		c.err("ERR wrong number of arguments for '" + c.cmd.Name + "' command")
		return
	}
	count, many := int64(1), len(c.args) == 3
	if many {
		var ok bool
		if count, ok = parseInt(c.args[2]); !ok || count < 0 {
			c.err(errPositive)
			return
		}
	}
	key := c.args[1]
	it := c.write(key)
	if it == nil {
		if many {
			c.nullArray()
		} else {
			c.null()
		}
		return
	}
	l, ok := c.getList(it)
	if !ok {
		return
	}
	if many {
		c.array(int(min(count, int64(l.len()))))
	}
	c.popMany(key, l, front, count)
}

// popMany writes and removes at most count elements.
func (c *call) popMany(key []byte, l *list, front bool, count int64) {
	if count == 0 {
		return
	}
	event := "rpop"
	if front {
		event = "lpop"
	}
	n := int(min(count, int64(l.len())))
	p := l.end(front)
	for range n {
		c.work(stepsPerElement)
		c.str(p.value())
		if front {
			p = p.next()
		} else {
			p = p.prev()
		}
	}
	l.drop(n, front)
	c.changed(key)
	c.notify(eventList, event, key)
	if l.len() == 0 {
		c.removeEmpty(key)
	}
}

func cmdLlen(c *call) {
	l, ok := c.getList(c.read(c.args[1]))
	switch {
	case !ok:
	case l == nil:
		c.int(0)
	default:
		c.int(int64(l.len()))
	}
}

// index makes an index that may count from the end absolute.
func (l *list) index(i int64) (int, bool) {
	if i < 0 {
		i += int64(l.len())
	}
	return int(i), i >= 0 && i < int64(l.len())
}

func cmdLindex(c *call) {
	l, ok := c.getList(c.read(c.args[1]))
	if !ok {
		return
	}
	if l == nil {
		c.null()
		return
	}
	n, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if i, ok := l.index(n); ok {
		c.str(l.at(i).value())
	} else {
		c.null()
	}
}

func cmdLset(c *call) {
	key := c.args[1]
	it := c.write(key)
	if it == nil {
		c.err(errNoKey)
		return
	}
	l, ok := c.getList(it)
	if !ok {
		return
	}
	n, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	i, ok := l.index(n)
	if !ok {
		c.err(errOutOfRange)
		return
	}
	l.set(l.at(i), text(c.args[3]))
	c.ok()
	c.changed(key)
	c.notify(eventList, "lset", key)
}

// span clips a range that may count from the end.
func span(from, to int64, n int) (int, int) {
	from, to = fromEndSigned(from, n), fromEndSigned(to, n)
	from = max(from, 0)
	to = min(to, int64(n)-1)
	return int(from), int(to)
}

func fromEndSigned(i int64, n int) int64 {
	if i < 0 {
		return i + int64(n)
	}
	return i
}

func (c *call) argRange(from, to []byte) (a, b int64, ok bool) {
	if a, ok = c.argInt(from); !ok {
		return 0, 0, false
	}
	b, ok = c.argInt(to)
	return a, b, ok
}

func cmdLrange(c *call) {
	a, b, ok := c.argRange(c.args[2], c.args[3])
	if !ok {
		return
	}
	l, ok := c.getList(c.read(c.args[1]))
	if !ok {
		return
	}
	if l == nil {
		c.array(0)
		return
	}
	from, to := span(a, b, l.len())
	if from > to || from >= l.len() {
		c.array(0)
		return
	}
	c.array(to - from + 1)
	for p := l.at(from); from <= to; from++ {
		c.str(p.value())
		p = p.next()
	}
}

func cmdLtrim(c *call) {
	a, b, ok := c.argRange(c.args[2], c.args[3])
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	l, ok := c.getList(it)
	if !ok {
		return
	}
	if l == nil {
		c.ok()
		return
	}
	n := l.len()
	from, to := span(a, b, n)
	if from > to || from >= n {
		from, to = n, n-1
	}
	l.drop(from, true)
	l.drop(n-1-to, false)
	c.changed(key)
	c.notify(eventList, "ltrim", key)
	if l.len() == 0 {
		c.removeEmpty(key)
	}
	c.ok()
}

func cmdLinsert(c *call) {
	before := false
	switch {
	case is(c.args[2], "before"):
		before = true
	case is(c.args[2], "after"):
	default:
		c.syntax()
		return
	}
	key := c.args[1]
	l, ok := c.getList(c.write(key))
	if !ok {
		return
	}
	if l == nil {
		c.int(0)
		return
	}
	p := l.at(0)
	for p.ok() && p.value() != string(c.args[3]) {
		c.work(2)
		p = p.next()
	}
	if !p.ok() {
		c.int(-1)
		return
	}
	l.insert(p, text(c.args[4]), before)
	c.changed(key)
	c.notify(eventList, "linsert", key)
	c.int(int64(l.len()))
}

func cmdLpos(c *call) {
	rank, count, limit := int64(1), int64(-1), int64(0)
	for i := 3; i < len(c.args); i += 2 {
		a := c.args[i]
		if i+1 == len(c.args) {
			c.syntax()
			return
		}
		n, ok := parseInt(c.args[i+1])
		switch {
		case is(a, "rank"):
			if !ok {
				c.err(errNotInt)
				return
			}
			if n == 0 {
				c.err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
				return
			}
			rank = n
		case is(a, "count"), is(a, "maxlen"):
			if !ok || n < 0 {
				c.err("ERR " + strings.ToUpper(string(a)) + " can't be negative")
				return
			}
			if is(a, "count") {
				count = n
			} else {
				limit = n
			}
		default:
			c.syntax()
			return
		}
	}
	l, ok := c.getList(c.read(c.args[1]))
	if !ok {
		return
	}
	if l == nil {
		if count >= 0 {
			c.array(0)
		} else {
			c.null()
		}
		return
	}
	c.lpos(l, text(c.args[2]), rank, count, limit)
}

func (c *call) lpos(l *list, s string, rank, count, limit int64) {
	forward := rank > 0
	if !forward {
		rank = -rank
	}
	p := l.at(0)
	if !forward {
		p = l.at(l.len() - 1)
	}
	start := c.begin()
	found, matches := 0, int64(0)
	for i := 0; p.ok() && (limit == 0 || int64(i) < limit); i++ {
		c.work(2)
		if p.value() == s {
			matches++
			if matches >= rank {
				found++
				if forward {
					c.int(int64(i))
				} else {
					c.int(int64(l.len() - 1 - i))
				}
				if count < 0 || count > 0 && int64(found) >= count {
					break
				}
			}
		}
		if forward {
			p = p.next()
		} else {
			p = p.prev()
		}
	}
	switch {
	case count >= 0:
		c.end(start, found)
	case found == 0:
		c.null()
	}
}
