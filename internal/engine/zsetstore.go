package engine

import (
	"math"
	"slices"
)

// A zinput is an input of ZUNIONSTORE and its relatives: a sorted set, or a set with scores of 1,
// and its weight.
type zinput struct {
	z      *zset
	s      *set
	weight float64
}

func (in *zinput) len() int {
	switch {
	case in.z != nil:
		return in.z.len()
	case in.s != nil:
		return in.s.len()
	}
	return 0
}

func (in *zinput) score(m []byte) (float64, bool) {
	switch {
	case in.z != nil:
		if at := in.z.get(m); at.ok() {
			return at.score(), true
		}
	case in.s != nil:
		return 1, in.s.has(m)
	}
	return 0, false
}

func (in *zinput) each(f func(m []byte, score float64) bool) {
	switch {
	case in.z != nil:
		for at := in.z.first(); at.ok(); at = at.next() {
			if !f(view(at.member()), at.score()) {
				return
			}
		}
	case in.s != nil:
		in.s.each(func(m []byte) bool { return f(m, 1) })
	}
}

// weighted is a score times a weight, with 0 in place of NaN.
func weighted(score, weight float64) float64 {
	if f := score * weight; !math.IsNaN(f) {
		return f
	}
	return 0
}

func aggregateSum(a, b float64) float64 {
	if s := a + b; !math.IsNaN(s) {
		return s
	}
	return 0
}

func aggregateMin(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func aggregateMax(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

func cmdZunionstore(c *call) { c.zcombine('u', true) }
func cmdZinterstore(c *call) { c.zcombine('i', true) }
func cmdZdiffstore(c *call)  { c.zcombine('d', true) }
func cmdZunion(c *call)      { c.zcombine('u', false) }
func cmdZinter(c *call)      { c.zcombine('i', false) }
func cmdZdiff(c *call)       { c.zcombine('d', false) }

func (c *call) zinputs(keys [][]byte) ([]zinput, bool) {
	in := make([]zinput, len(keys))
	for i, key := range keys {
		in[i].weight = 1
		it := c.read(key)
		switch {
		case it == nil:
		case it.val.kind() == kindZset:
			in[i].z = asZset(it)
		case it.val.kind() == kindSet:
			in[i].s = asSet(it)
		default:
			c.wrongType()
			return nil, false
		}
	}
	return in, true
}

func (c *call) zcombine(op byte, store bool) {
	at := 1
	if store {
		at = 2
	}
	n, ok := c.argInt(c.args[at])
	if !ok {
		return
	}
	if n < 1 {
		c.err("ERR at least 1 input key is needed for '" + c.cmd.Name + "' command")
		return
	}
	if n > int64(len(c.args)-at-1) {
		c.syntax()
		return
	}
	in, ok := c.zinputs(c.args[at+1 : at+1+int(n)])
	if !ok {
		return
	}
	aggregate, withScores := aggregateSum, false
	rest := c.args[at+1+int(n):]
	for i := 0; i < len(rest); {
		switch a := rest[i]; {
		case op != 'd' && is(a, "weights") && len(rest)-i-1 >= int(n):
			for j := range in {
				w, ok := parseFloat(rest[i+1+j])
				if !ok {
					c.err("ERR weight value is not a float")
					return
				}
				in[j].weight = w
			}
			i += int(n) + 1
		case op != 'd' && is(a, "aggregate") && i+1 < len(rest):
			switch b := rest[i+1]; {
			case is(b, "sum"):
				aggregate = aggregateSum
			case is(b, "min"):
				aggregate = aggregateMin
			case is(b, "max"):
				aggregate = aggregateMax
			default:
				c.syntax()
				return
			}
			i += 2
		case !store && is(a, "withscores"):
			withScores = true
			i++
		default:
			c.syntax()
			return
		}
	}
	out := newZset()
	z, l := out.asZset(), c.limits()
	if !store { // a result that is not kept has no small form
		z.enlarge()
	}
	c.zmerge(op, in, aggregate, func(m []byte, score float64) bool {
		c.work(2 * stepsPerMember)
		z.set(l, m, score)
		return true
	})
	if store {
		c.storeResult(c.args[1], &out, eventZset, c.cmd.Name)
		return
	}
	c.zpairsHead(z.len(), withScores)
	for at := z.first(); at.ok(); at = at.next() {
		c.zpair(at, withScores)
	}
}

// zmerge calls f for the members of the union, intersection or difference,
// until it returns false.
func (c *call) zmerge(op byte, in []zinput, aggregate func(a, b float64) float64, f func([]byte, float64) bool) {
	if op == 'd' {
		for i := range in[1:] {
			if in[i+1].z == in[0].z && in[i+1].s == in[0].s {
				return
			}
		}
		in[0].each(func(m []byte, score float64) bool {
			for i := range in[1:] {
				c.work(stepsPerMember)
				if _, there := in[i+1].score(m); there {
					return true
				}
			}
			return f(m, score)
		})
		return
	}
	// The order decides how sums are rounded.
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b zinput) int { return a.len() - b.len() })
	if op == 'i' {
		in[0].each(func(m []byte, score float64) bool {
			sum := weighted(score, in[0].weight)
			for i := range in[1:] {
				c.work(stepsPerMember)
				more, there := in[i+1].score(m)
				if !there {
					return true
				}
				sum = aggregate(sum, weighted(more, in[i+1].weight))
			}
			return f(m, sum)
		})
		return
	}
	sums := map[string]float64{}
	for i := range in {
		in[i].each(func(m []byte, score float64) bool {
			c.work(2 * stepsPerMember)
			w := weighted(score, in[i].weight)
			if old, there := sums[string(m)]; there {
				w = aggregate(old, w)
			}
			sums[string(m)] = w
			return true
		})
	}
	for m, sum := range sums {
		f(view(m), sum)
	}
}

func cmdZintercard(c *call) {
	if _, ok := c.argInt(c.args[1]); !ok {
		return
	}
	keys, ok := c.cardKeys("ERR at least 1 input key is needed for 'zintercard' command", errSyntax)
	if !ok {
		return
	}
	in, ok := c.zinputs(keys)
	if !ok {
		return
	}
	limit, ok := c.cardLimit(len(keys))
	if !ok {
		return
	}
	n := int64(0)
	c.zmerge('i', in, aggregateSum, func([]byte, float64) bool {
		n++
		c.work(1)
		return limit == 0 || n < limit
	})
	c.int(n)
}
