package engine

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// parseBound reads a score as C's strtod does, with ( for an open end.
func parseBound(b []byte) (f float64, open, ok bool) {
	if len(b) > 0 && b[0] == '(' {
		open, b = true, b[1:]
	}
	s := strings.TrimLeft(string(b), " \t\n\v\f\r")
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	if s == "" {
		return 0, open, len(b) == 0 || b[0] == 0
	}
	f, err := strconv.ParseFloat(cFloat(s), 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return f, open, err == nil && !math.IsNaN(f) && strings.IndexByte(s, '_') < 0
}

func (c *call) scoreRange(min, max []byte) (*scoreRange, bool) {
	r := &scoreRange{}
	ok, ok2 := false, false
	r.min, r.minEx, ok = parseBound(min)
	r.max, r.maxEx, ok2 = parseBound(max)
	if !ok || !ok2 {
		c.err("ERR min or max is not a float")
		return nil, false
	}
	return r, true
}

func parseLexBound(b []byte) (s string, open bool, inf int, ok bool) {
	if len(b) == 0 {
		return "", false, 0, false
	}
	switch b[0] {
	case '+':
		return "", false, 1, len(b) == 1
	case '-':
		return "", false, -1, len(b) == 1
	case '(':
		return string(b[1:]), true, 0, true
	case '[':
		return string(b[1:]), false, 0, true
	}
	return "", false, 0, false
}

func (c *call) lexRange(min, max []byte) (*lexRange, bool) {
	r := &lexRange{}
	ok, ok2 := false, false
	r.min, r.minEx, r.minInf, ok = parseLexBound(min)
	r.max, r.maxEx, r.maxInf, ok2 = parseLexBound(max)
	if !ok || !ok2 {
		c.err("ERR min or max not valid string range item")
		return nil, false
	}
	return r, true
}

type zorder uint8

const (
	zorderAny zorder = iota
	zorderRank
	zorderScore
	zorderLex
)

// A zquery is the query of a ZRANGE command.
type zquery struct {
	by            zorder
	rev, any      bool // any: direction is given by an option
	withScores    bool
	offset, limit int64
	store         bool
}

func cmdZrange(c *call)           { c.zrange(1, zquery{any: true}) }
func cmdZrangestore(c *call)      { c.zrange(2, zquery{any: true, store: true}) }
func cmdZrevrange(c *call)        { c.zrange(1, zquery{by: zorderRank, rev: true}) }
func cmdZrangebyscore(c *call)    { c.zrange(1, zquery{by: zorderScore}) }
func cmdZrevrangebyscore(c *call) { c.zrange(1, zquery{by: zorderScore, rev: true}) }
func cmdZrangebylex(c *call)      { c.zrange(1, zquery{by: zorderLex}) }
func cmdZrevrangebylex(c *call)   { c.zrange(1, zquery{by: zorderLex, rev: true}) }

// zrange answers a query on the sorted set at args[at], with the bounds behind
// it.
func (c *call) zrange(at int, q zquery) {
	q.limit = -1
	limited := false
	rest := c.args[at+3:]
	for i := 0; i < len(rest); i++ {
		switch a := rest[i]; {
		case !q.store && is(a, "withscores"):
			q.withScores = true
		case is(a, "limit") && i+2 < len(rest):
			var ok bool
			if q.offset, q.limit, ok = c.argRange(rest[i+1], rest[i+2]); !ok {
				return
			}
			limited = true
			i += 2
		case q.any && !q.rev && is(a, "rev"):
			q.rev = true
		case q.any && q.by == zorderAny && is(a, "bylex"):
			q.by = zorderLex
		case q.any && q.by == zorderAny && is(a, "byscore"):
			q.by = zorderScore
		default:
			c.syntax()
			return
		}
	}
	if q.by == zorderAny {
		q.by = zorderRank
	}
	if limited && q.limit != -1 && q.by == zorderRank {
		c.err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
		return
	}
	if q.withScores && q.by == zorderLex {
		c.err("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
		return
	}
	min, max := c.args[at+1], c.args[at+2]
	if q.rev && q.by != zorderRank {
		min, max = max, min
	}
	var in zinterval
	var from, to int64
	var ok bool
	switch q.by {
	case zorderScore:
		var r *scoreRange
		r, ok = c.scoreRange(min, max)
		in = byScore{r}
	case zorderLex:
		var r *lexRange
		r, ok = c.lexRange(min, max)
		in = byLex{r}
	default:
		from, to, ok = c.argRange(min, max)
	}
	if !ok {
		return
	}
	z, ok := c.getZset(c.read(c.args[at]))
	if !ok {
		return
	}
	out := c.newOutput(&q)
	if z != nil {
		if q.by == zorderRank {
			z.eachRank(from, to, q.rev, out.add)
		} else {
			z.eachIn(in, &q, out.add)
		}
	}
	out.done()
}

// eachRank calls f for a range of ranks that may count from the end.
func (z *zset) eachRank(a, b int64, rev bool, f func(zcursor)) {
	from, to := span(a, b, z.len())
	if from > to || from >= z.len() {
		return
	}
	if rev {
		for at := z.at(z.len() - 1 - from); from <= to; from++ {
			f(at)
			at = at.prev()
		}
		return
	}
	for at := z.at(from); from <= to; from++ {
		f(at)
		at = at.next()
	}
}

// eachIn calls f for the interval, after offset and at most limit times.
func (z *zset) eachIn(in zinterval, q *zquery, f func(zcursor)) {
	if q.offset < 0 {
		return
	}
	limit := q.limit
	var at zcursor
	if q.rev {
		at = z.end(in)
	} else {
		at = z.begin(in)
	}
	if at.ok() && q.offset > 0 {
		rank := z.rank(at)
		if q.rev {
			at = z.at(int(max(int64(rank)-q.offset, -1)))
		} else {
			at = z.at(rank + int(min(q.offset, int64(z.len()-rank))))
		}
	}
	for ; at.ok() && limit != 0; limit-- {
		if q.rev && at.below(in) || !q.rev && at.above(in) {
			return
		}
		f(at)
		if q.rev {
			at = at.prev()
		} else {
			at = at.next()
		}
	}
}

// A zoutput is where the entries of a query go: into the reply or into a key.
type zoutput struct {
	c     *call
	q     *zquery
	start later
	n     int
	into  *value
}

func (c *call) newOutput(q *zquery) *zoutput {
	o := &zoutput{c: c, q: q, start: c.begin()}
	if q.store {
		into := newZset()
		o.into = &into
	}
	return o
}

func (o *zoutput) add(at zcursor) {
	if o.into != nil {
		o.c.work(2 * stepsPerMember)
		o.into.asZset().set(o.c.limits(), view(at.member()), at.score())
		return
	}
	o.n++
	o.c.zpair(at, o.q.withScores)
}

func (o *zoutput) done() {
	if o.into != nil {
		o.c.storeResult(o.c.args[1], o.into, eventZset, "zrangestore")
		if o.q.by == zorderLex && o.c.dirty > 0 {
			o.c.logState(o.c.args[1])
		}
		return
	}
	n := o.n
	if o.q.withScores && !o.c.isRESP3() {
		n *= 2
	}
	o.c.end(o.start, n)
}

func cmdZcount(c *call) {
	r, ok := c.scoreRange(c.args[2], c.args[3])
	if ok {
		c.zcount(byScore{r})
	}
}

func cmdZlexcount(c *call) {
	r, ok := c.lexRange(c.args[2], c.args[3])
	if ok {
		c.zcount(byLex{r})
	}
}

func (c *call) zcount(in zinterval) {
	z, ok := c.getZset(c.read(c.args[1]))
	switch {
	case !ok:
	case z == nil:
		c.int(0)
	default:
		c.int(int64(z.count(in)))
	}
}

func cmdZremrangebyrank(c *call) {
	from, to, ok := c.argRange(c.args[2], c.args[3])
	if !ok {
		return
	}
	c.zremrange("zremrangebyrank", func(z *zset, f func(zcursor)) { z.eachRank(from, to, false, f) })
}

func cmdZremrangebyscore(c *call) {
	r, ok := c.scoreRange(c.args[2], c.args[3])
	if !ok {
		return
	}
	c.zremrange("zremrangebyscore", func(z *zset, f func(zcursor)) { z.eachIn(byScore{r}, &zquery{limit: -1}, f) })
}

func cmdZremrangebylex(c *call) {
	r, ok := c.lexRange(c.args[2], c.args[3])
	if !ok {
		return
	}
	gone := [][]byte{[]byte("ZREM"), c.args[1]}
	c.zremrange("zremrangebylex", func(z *zset, f func(zcursor)) {
		z.eachIn(byLex{r}, &zquery{limit: -1}, func(at zcursor) {
			gone = append(gone, []byte(at.member()))
			f(at)
		})
	})
	if c.dirty > 0 { // where scores differ, the result of a lexical range is a matter of chance
		c.instead(gone...)
	}
}

// cut removes n members from a place on. It may be stopped before it has changed anything.
func (c *call) cut(z *zset, from zcursor, n int) {
	switch {
	case n == z.len():
		empty := newZset()
		z.become(&empty)
	case c.running == nil || n <= mostRemoved || !z.large():
		z.remove(from, n)
	default:
		z.become(&z.without(from, n, c.work).value)
	}
}

func (c *call) zremrange(event string, each func(*zset, func(zcursor))) {
	key := c.args[1]
	z, ok := c.getZset(c.write(key))
	if !ok {
		return
	}
	if z == nil {
		c.int(0)
		return
	}
	var from zcursor
	n := 0
	each(z, func(at zcursor) { // which are one behind the other
		c.work(1)
		if n++; n == 1 {
			from = at
		}
	})
	if n > 0 {
		c.cut(z, from, n)
		c.changed(key)
		c.notify(eventZset, event, key)
		if z.len() == 0 {
			c.removeEmpty(key)
		}
	}
	c.int(int64(n))
}
