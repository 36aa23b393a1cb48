package engine

import (
	"math"
	"math/rand/v2"
	"slices"
)

// getSet returns the set of it, nil when there is none; ok is false when an
// error was written.
func (c *call) getSet(it *item) (s *set, ok bool) {
	if it == nil {
		return nil, true
	}
	if it.val.kind() != kindSet {
		c.wrongType()
		return nil, false
	}
	return asSet(it), true
}

func cmdSadd(c *call) {
	key := c.args[1]
	s, ok := c.getSet(c.write(key))
	if !ok {
		return
	}
	if s == nil {
		s = asSet(c.create(key, newSet()))
		s.reserve(c.args[2:])
	}
	added := 0
	for _, m := range c.args[2:] {
		if s.add(c.limits(), m) {
			added++
		}
	}
	if added > 0 {
		c.changed(key)
		c.notify(eventSet, "sadd", key)
	}
	c.int(int64(added))
}

func cmdSrem(c *call) {
	key := c.args[1]
	s, ok := c.getSet(c.write(key))
	if !ok {
		return
	}
	removed := 0
	if s != nil {
		for _, m := range c.args[2:] {
			if s.remove(m) {
				removed++
			}
		}
	}
	if removed > 0 {
		c.changed(key)
		c.notify(eventSet, "srem", key)
		if s.len() == 0 {
			c.removeEmpty(key)
		}
	}
	c.int(int64(removed))
}

func cmdSmove(c *call) {
	src, dst, m := c.args[1], c.args[2], c.args[3]
	it := c.write(src)
	if it == nil {
		c.int(0)
		return
	}
	from, ok := c.getSet(it)
	if !ok {
		return
	}
	to, ok := c.getSet(c.write(dst))
	if !ok {
		return
	}
	if from == to {
		c.boolInt(from.has(m))
		return
	}
	if !from.remove(m) {
		c.int(0)
		return
	}
	c.notify(eventSet, "srem", src)
	c.changed(src)
	if from.len() == 0 {
		c.removeEmpty(src)
	}
	if to == nil {
		to = asSet(c.create(dst, newSet()))
	}
	if to.add(c.limits(), m) {
		c.changed(dst)
		c.notify(eventSet, "sadd", dst)
	}
	c.int(1)
}

func cmdSismember(c *call) {
	if s, ok := c.getSet(c.read(c.args[1])); ok {
		c.boolInt(s != nil && s.has(c.args[2]))
	}
}

func cmdSmismember(c *call) {
	s, ok := c.getSet(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		c.boolInt(s != nil && s.has(m))
	}
}

func cmdScard(c *call) {
	s, ok := c.getSet(c.read(c.args[1]))
	switch {
	case !ok:
	case s == nil:
		c.int(0)
	default:
		c.int(int64(s.len()))
	}
}

func (c *call) replySet(s *set) {
	if s == nil {
		c.setHead(0)
		return
	}
	c.setHead(s.len())
	s.each(func(m []byte) bool { c.bulk(m); return true })
}

func cmdSmembers(c *call) {
	if s, ok := c.getSet(c.read(c.args[1])); ok {
		c.replySet(s)
	}
}

func cmdSpop(c *call) {
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
	s, ok := c.getSet(c.write(key))
	if !ok {
		return
	}
	if s == nil {
		if len(c.args) == 3 {
			c.setHead(0)
		} else {
			c.null()
		}
		return
	}
	if count == 0 {
		c.setHead(0)
		return
	}
	if len(c.args) == 2 {
		c.popMember(key, s)
		return
	}
	count = min(count, int64(s.len()))
	c.setHead(int(count))
	gone := [][]byte{[]byte("SREM"), key}
	pop := func(m []byte) {
		m = clone(m)
		c.bulk(m)
		gone = append(gone, m)
	}
	switch n := int64(s.len()); {
	case count == n:
		s.each(func(m []byte) bool {
			c.work(stepsPerMember)
			c.bulk(m)
			return true
		})
		empty := newSet()
		s.become(&empty)
		gone = [][]byte{[]byte("DEL"), key}
	case c.running != nil && count > mostRemoved:
		s.become(&s.without(c.limits(), int(count), c.work, pop).value)
	case count < n/8:
		for range count {
			pop(view(s.random()))
			s.remove(gone[len(gone)-1])
		}
	default:
		s.sample(int(count), pop)
		for _, m := range gone[2:] {
			s.remove(m)
		}
	}
	c.popped(key, s)
	c.instead(gone...)
}

// popMember is SPOP without a count.
func (c *call) popMember(key []byte, s *set) {
	m := view(s.random())
	c.bulk(m)
	if c.journaled() {
		m = clone(m)
		c.instead([]byte("SREM"), key, m)
	} else {
		c.instead()
	}
	s.remove(m)
	c.popped(key, s)
}

func (c *call) popped(key []byte, s *set) {
	c.changed(key)
	c.notify(eventSet, "spop", key)
	if s.len() == 0 {
		c.removeEmpty(key)
	}
}

func cmdSrandmember(c *call) {
	if len(c.args) > 3 {
		c.syntax()
		return
	}
	if len(c.args) == 2 {
		s, ok := c.getSet(c.read(c.args[1]))
		switch {
		case !ok:
		case s == nil:
			c.null()
		default:
			c.str(s.random())
		}
		return
	}
	n, ok := parseInt(c.args[2])
	if !ok {
		c.err(errNotInt)
		return
	}
	if n < -math.MaxInt64 {
		c.err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
		return
	}
	s, ok := c.getSet(c.read(c.args[1]))
	if !ok {
		return
	}
	switch {
	case s == nil || n == 0:
		c.array(0)
	case n < -mostRandom:
		c.err("ERR value is out of range")
	case n < 0:
		c.array(int(-n))
		draw := s.random
		if s.isWords() { // read a small one once, not once for each draw
			all := make([]string, 0, s.len())
			s.each(func(m []byte) bool { all = append(all, text(m)); return true })
			draw = func() string { return all[rand.IntN(len(all))] }
		}
		for range -n {
			c.str(draw())
		}
	case n < int64(s.len())/8: // n*8 may overflow
		c.array(int(n))
		seen := make(map[string]bool, n)
		for int64(len(seen)) < n {
			if m := s.random(); !seen[m] {
				seen[m] = true
				c.str(m)
			}
		}
	default:
		n = min(n, int64(s.len()))
		if n == int64(s.len()) {
			c.setHead(int(n))
		} else {
			c.array(int(n))
		}
		s.sample(int(n), func(m []byte) { c.bulk(m) })
	}
}

// sets reads the sets of keys; a missing one is nil.
func (c *call) sets(keys [][]byte) ([]*set, bool) {
	out := make([]*set, len(keys))
	for i, key := range keys {
		s, ok := c.getSet(c.read(key))
		if !ok {
			return nil, false
		}
		out[i] = s
	}
	return out, true
}

// intersect calls f for the members that all sets have, until it returns
// false.
func (c *call) intersect(sets []*set, f func(m []byte) bool) {
	if slices.Contains(sets, nil) {
		return
	}
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *set) int { return a.len() - b.len() })
	sets[0].each(func(m []byte) bool {
		for _, s := range sets[1:] {
			c.work(stepsPerMember)
			if s != sets[0] && !s.has(m) {
				return true
			}
		}
		return f(m)
	})
}

func (c *call) combineSets(op byte, sets []*set) *set {
	out, l := &set{newSet()}, c.limits()
	add := func(m []byte) bool {
		c.work(stepsPerMember)
		out.add(l, m)
		return true
	}
	switch op {
	case 'i':
		c.intersect(sets, add)
	case 'u':
		for _, s := range sets {
			if s != nil {
				s.each(add)
			}
		}
	case 'd':
		if sets[0] == nil || slices.Contains(sets[1:], sets[0]) {
			break
		}
		sets[0].each(func(m []byte) bool {
			for _, s := range sets[1:] {
				c.work(stepsPerMember)
				if s != nil && s.has(m) {
					return true
				}
			}
			return add(m)
		})
	}
	return out
}

func cmdSinter(c *call) { c.setOperation('i') }
func cmdSunion(c *call) { c.setOperation('u') }
func cmdSdiff(c *call)  { c.setOperation('d') }

func (c *call) setOperation(op byte) {
	if sets, ok := c.sets(c.args[1:]); ok {
		c.replySet(c.combineSets(op, sets))
	}
}

func cmdSinterstore(c *call) { c.setStore('i', "sinterstore") }
func cmdSunionstore(c *call) { c.setStore('u', "sunionstore") }
func cmdSdiffstore(c *call)  { c.setStore('d', "sdiffstore") }

func (c *call) setStore(op byte, event string) {
	sets, ok := c.sets(c.args[2:])
	if !ok {
		return
	}
	out := c.combineSets(op, sets)
	c.storeResult(c.args[1], &out.value, eventSet, event)
}

// storeResult makes key hold the result of an operation, and replies with its number of elements.
// Nothing is stored when it has none.
func (c *call) storeResult(key []byte, v *value, class uint32, event string) {
	n := v.len()
	there := c.write(key) != nil
	if there {
		c.remove(key)
	}
	if n > 0 {
		c.create(key, *v)
		c.changed(key)
		c.notify(class, event, key)
	} else if there {
		c.changed(key)
		c.notify(eventGeneric, "del", key)
	}
	c.int(int64(n))
}

func cmdSintercard(c *call) {
	keys, ok := c.cardKeys("ERR numkeys should be greater than 0", "ERR Number of keys can't be greater than number of args")
	if !ok {
		return
	}
	limit, ok := c.cardLimit(len(keys))
	if !ok {
		return
	}
	sets, ok := c.sets(keys)
	if !ok {
		return
	}
	n := int64(0)
	c.intersect(sets, func([]byte) bool {
		n++
		c.work(1)
		return limit == 0 || n < limit
	})
	c.int(n)
}

// cardKeys reads the keys of SINTERCARD and ZINTERCARD. few and many are the
// errors for a wrong number of them.
func (c *call) cardKeys(few, many string) ([][]byte, bool) {
	n, ok := parseInt(c.args[1])
	if !ok || n < 1 {
		c.err(few)
		return nil, false
	}
	if n > int64(len(c.args)-2) {
		c.err(many)
		return nil, false
	}
	return c.args[2 : 2+n], true
}

// cardLimit reads the arguments behind n keys.
func (c *call) cardLimit(n int) (limit int64, ok bool) {
	rest := c.args[2+n:]
	for i := 0; i < len(rest); i += 2 {
		if !is(rest[i], "limit") || i+1 == len(rest) {
			c.syntax()
			return 0, false
		}
		if limit, ok = parseInt(rest[i+1]); !ok || limit < 0 {
			c.err("ERR LIMIT can't be negative")
			return 0, false
		}
	}
	return limit, true
}

func cmdSscan(c *call) {
	cursor, ok := c.scanCursor(2)
	if !ok {
		return
	}
	s, ok := c.getSet(c.read(c.args[1]))
	if !ok {
		return
	}
	if s == nil {
		c.endScan(c.begin(), 0, 0) // whatever the options are, as in Redis
		return
	}
	opts, ok := c.scanOptions(3)
	if !ok {
		return
	}
	start := c.begin()
	next, n := uint64(0), 0
	emit := func(m []byte) bool {
		c.workMatch(opts.pattern, text(m))
		if opts.matches(text(m)) {
			c.bulk(m)
			n++
		}
		return true
	}
	switch {
	case s.form != formSet:
		s.each(emit)
	default:
		next = scanDict(&s.big().dict, cursor, opts.count, func(e *entry[struct{}]) { emit(view(e.key)) })
	}
	c.endScan(start, next, n)
}
