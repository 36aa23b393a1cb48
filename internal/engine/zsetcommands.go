package engine

import (
	"math"
	"math/rand/v2"
)

// getZset returns the sorted set of it, nil when there is none; ok is false
// when an error was written.
func (c *call) getZset(it *item) (z *zset, ok bool) {
	if it == nil {
		return nil, true
	}
	if it.val.kind() != kindZset {
		c.wrongType()
		return nil, false
	}
	return asZset(it), true
}

func (c *call) argFloat(b []byte) (float64, bool) {
	f, ok := parseFloat(b)
	if !ok {
		c.err(errNotFloat)
	}
	return f, ok
}

type zaddOptions struct{ nx, xx, gt, lt, ch, incr bool }

func cmdZadd(c *call)    { c.zadd(zaddOptions{}) }
func cmdZincrby(c *call) { c.zadd(zaddOptions{incr: true}) }

func (c *call) zaddArgs(o zaddOptions) (zaddOptions, int, bool) {
	at := 2
scan:
	for ; at < len(c.args); at++ {
		switch a := c.args[at]; {
		case is(a, "nx"):
			o.nx = true
		case is(a, "xx"):
			o.xx = true
		case is(a, "ch"):
			o.ch = true
		case is(a, "incr"):
			o.incr = true
		case is(a, "gt"):
			o.gt = true
		case is(a, "lt"):
			o.lt = true
		default:
			break scan
		}
	}
	n := len(c.args) - at
	switch {
	case n == 0 || n%2 != 0:
		c.syntax()
	case o.nx && o.xx:
		c.err("ERR XX and NX options at the same time are not compatible")
	case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
		c.err("ERR GT, LT, and/or NX options at the same time are not compatible")
	case o.incr && n > 2:
		c.err("ERR INCR option supports a single increment-element pair")
	default:
		return o, at, true
	}
	return o, 0, false
}

func (c *call) zadd(o zaddOptions) {
	o, at, ok := c.zaddArgs(o)
	if !ok {
		return
	}
	pairs := c.args[at:]
	scores := make([]float64, 0, 8)
	for i := 0; i < len(pairs); i += 2 {
		f, ok := c.argFloat(pairs[i])
		if !ok {
			return
		}
		scores = append(scores, f)
	}
	key := c.args[1]
	z, ok := c.getZset(c.write(key))
	if !ok {
		return
	}
	added, updated, processed := 0, 0, 0
	var score float64
	if z == nil && !o.xx {
		z = asZset(c.create(key, newZset()))
		z.reserve(c.limits(), scores, pairs)
	}
	failed := false
	for i := 0; z != nil && i < len(scores); i++ {
		member := pairs[2*i+1]
		score = scores[i]
		at := z.get(member)
		if !at.ok() {
			if !o.xx {
				z.add(c.limits(), member, score)
				added++
				processed++
			}
			continue
		}
		if o.nx {
			continue
		}
		old := at.score()
		if o.incr {
			score += old
			if math.IsNaN(score) {
				failed = true
				break
			}
		}
		if o.lt && score >= old || o.gt && score <= old {
			continue
		}
		processed++
		if score != old {
			z.move(at, score)
			updated++
		}
	}
	if added+updated > 0 {
		c.changed(key)
	}
	switch {
	case failed:
		c.err("ERR resulting score is not a number (NaN)")
	case o.incr && processed > 0:
		c.double(score)
	case o.incr:
		c.null()
	case o.ch:
		c.int(int64(added + updated))
	default:
		c.int(int64(added))
	}
	if added+updated > 0 {
		event := "zadd"
		if o.incr {
			event = "zincr"
		}
		c.notify(eventZset, event, key)
		if o.incr && c.journaled() {
			c.instead([]byte("ZADD"), key, appendDouble(nil, score), pairs[1])
		}
	}
}

func cmdZrem(c *call) {
	key := c.args[1]
	z, ok := c.getZset(c.write(key))
	if !ok {
		return
	}
	removed := 0
	for _, m := range c.args[2:] {
		if z == nil {
			break
		}
		if at := z.get(m); at.ok() {
			z.remove(at, 1)
			removed++
		}
	}
	if removed > 0 {
		c.changed(key)
		c.notify(eventZset, "zrem", key)
		if z.len() == 0 {
			c.removeEmpty(key)
		}
	}
	c.int(int64(removed))
}

func cmdZcard(c *call) {
	z, ok := c.getZset(c.read(c.args[1]))
	switch {
	case !ok:
	case z == nil:
		c.int(0)
	default:
		c.int(int64(z.len()))
	}
}

func (c *call) replyScore(z *zset, member []byte) {
	if z != nil {
		if at := z.get(member); at.ok() {
			c.double(at.score())
			return
		}
	}
	c.null()
}

func cmdZscore(c *call) {
	if z, ok := c.getZset(c.read(c.args[1])); ok {
		c.replyScore(z, c.args[2])
	}
}

func cmdZmscore(c *call) {
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		c.replyScore(z, m)
	}
}

func cmdZrank(c *call)    { c.zrank(false) }
func cmdZrevrank(c *call) { c.zrank(true) }

func (c *call) zrank(rev bool) {
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	var at zcursor
	if z != nil {
		at = z.get(c.args[2])
	}
	switch {
	case !at.ok():
		c.null()
	case rev:
		c.int(int64(z.len() - 1 - z.rank(at)))
	default:
		c.int(int64(z.rank(at)))
	}
}

func cmdZrandmember(c *call) {
	if len(c.args) == 2 {
		z, ok := c.getZset(c.read(c.args[1]))
		switch {
		case !ok:
		case z == nil:
			c.null()
		default:
			c.str(z.random().member())
		}
		return
	}
	n, withScores, ok := c.randomArgs("withscores")
	if !ok {
		return
	}
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	if z == nil || n == 0 {
		c.array(0)
		return
	}
	if n < -mostRandom {
		c.err("ERR value is out of range")
		return
	}
	count := int(min(n, int64(z.len())))
	if n < 0 {
		count = int(-n)
	}
	c.zpairsHead(count, withScores)
	if n < 0 {
		draw := z.random
		if !z.large() { // read a small one once, not once for each draw
			all := make([]zcursor, 0, z.len())
			for at := z.first(); at.ok(); at = at.next() {
				all = append(all, at)
			}
			draw = func() zcursor { return all[rand.IntN(len(all))] }
		}
		for range count {
			c.zpair(draw(), withScores)
		}
		return
	}
	left, need := z.len(), count
	for at := z.first(); need > 0; at = at.next() {
		if rand.IntN(left) < need {
			c.zpair(at, withScores)
			need--
		}
		left--
	}
}

// zpairsHead begins n members, each with its score: in RESP2 one after the
// other, in RESP3 in arrays of two.
func (c *call) zpairsHead(n int, withScores bool) {
	if withScores && !c.isRESP3() {
		n *= 2
	}
	c.array(n)
}

func (c *call) zpair(at zcursor, withScore bool) {
	if withScore && c.isRESP3() {
		c.array(2)
	}
	c.str(at.member())
	if withScore {
		c.double(at.score())
	}
}

func cmdZscan(c *call) {
	cursor, ok := c.scanCursor(2)
	if !ok {
		return
	}
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	if z == nil {
		c.endScan(c.begin(), 0, 0) // whatever the options are, as in Redis
		return
	}
	opts, ok := c.scanOptions(3)
	if !ok {
		return
	}
	start := c.begin()
	next, n := uint64(0), 0
	emit := func(at zcursor) {
		c.workMatch(opts.pattern, at.member())
		if opts.matches(at.member()) {
			c.str(at.member())
			var buf [32]byte
			if score := at.score(); !z.large() && score == math.Trunc(score) && math.Abs(score) <= 1<<62 {
				c.bulk(appendInt(buf[:0], int64(score))) // Redis has them as integers, and shows them so here only
			} else {
				c.bulk(appendDouble(buf[:0], score))
			}
			n += 2
		}
	}
	switch {
	case !z.large():
		for at := z.first(); at.ok(); at = at.next() {
			emit(at)
		}
	default:
		next = scanDict(&z.tree().members, cursor, opts.count, func(e *zentry) { emit(z.inDict(e)) })
	}
	c.endScan(start, next, n)
}
