package engine

import "math"

// mostSearched is how many elements LREM of a script goes over without a look.
const mostSearched = 1 << 16

func cmdLrem(c *call) {
	count, ok := c.argInt(c.args[2])
	if !ok {
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
	removed := 0
	if c.running != nil && l.len() > mostSearched {
		switch p := l.find(text(c.args[3]), count >= 0, c.work); {
		case !p.ok():
		case count == 1 || count == -1:
			l.remove(p)
			removed = 1
		default:
			var rest *list
			rest, removed = l.withoutEqual(text(c.args[3]), count, c.work)
			l.become(rest)
		}
	} else {
		removed = l.removeEqual(text(c.args[3]), count)
	}
	if removed > 0 {
		c.changed(key)
		c.notify(eventList, "lrem", key)
	}
	if l.len() == 0 {
		c.removeEmpty(key)
	}
	c.int(int64(removed))
}

// become makes l the list that other is. other is not used any more.
func (l *list) become(other *list) {
	*l = *other
	l.own = chunk{} // the first chunk is still other's own
}

// find returns the place of the first element equal to s, or of the last.
func (l *list) find(s string, first bool, work func(int)) place {
	p := l.end(first)
	for p.ok() && p.value() != s {
		work(2)
		if first {
			p = p.next()
		} else {
			p = p.prev()
		}
	}
	return p
}

// removals returns how many elements LREM with a count removes at most.
func removals(count int64) int64 {
	switch {
	case count == 0 || count == math.MinInt64:
		return math.MaxInt64
	case count < 0:
		return -count
	}
	return count
}

// withoutEqual returns a copy without the elements that removeEqual would remove.
func (l *list) withoutEqual(s string, count int64, work func(int)) (rest *list, removed int) {
	rest = new(list)
	limit := removals(count)
	keep := func(v string) bool {
		work(stepsPerElement + len(v)/bytesPerStep)
		if v == s && int64(removed) < limit {
			removed++
			return false
		}
		return true
	}
	if count >= 0 {
		l.all(func(v string) bool {
			if keep(v) {
				rest.pushBack(v)
			}
			return true
		})
		return rest, removed
	}
	for p := l.end(false); p.ok(); p = p.prev() {
		if v := p.value(); keep(v) {
			rest.pushFront(v)
		}
	}
	return rest, removed
}

// removeEqual removes the first count elements equal to s, the last when count
// is negative, all when it is 0.
func (l *list) removeEqual(s string, count int64) (removed int) {
	limit := removals(count)
	full := func() bool { return int64(removed) == limit }
	if count >= 0 {
		for k := l.first; k != nil && !full(); {
			next := k.next
			for i := int(k.from); i < int(k.to) && !full(); {
				if v, behind := k.value(i); v == s {
					l.remove(place{k, i})
					removed++
				} else {
					i = behind
				}
			}
			k = next
		}
		return removed
	}
	for k := l.last; k != nil && !full(); {
		prev := k.prev
		for i := int(k.to); i > int(k.from) && !full(); {
			i = k.before(i)
			if v, _ := k.value(i); v == s {
				l.remove(place{k, i})
				removed++
			}
		}
		k = prev
	}
	return removed
}
