package engine

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

func cmdSort(c *call)   { c.sort(false) }
func cmdSortRo(c *call) { c.sort(true) }

// A sortQuery is the options of SORT.
type sortQuery struct {
	desc, alpha   bool
	offset, limit int64
	by, store     []byte
	get           [][]byte
	unsorted      bool // BY a pattern without *
}

type sortElement struct {
	val   []byte
	score float64
	by    []byte
}

func (c *call) sortArgs(readonly bool) (q sortQuery, ok bool) {
	q.limit = -1
	for i := 2; i < len(c.args); i++ {
		a, left := c.args[i], c.args[i+1:]
		switch {
		case is(a, "asc"):
			q.desc = false
		case is(a, "desc"):
			q.desc = true
		case is(a, "alpha"):
			q.alpha = true
		case is(a, "limit") && len(left) >= 2:
			if q.offset, q.limit, ok = c.argRange(left[0], left[1]); !ok {
				return q, false
			}
			i += 2
		case !readonly && is(a, "store") && len(left) >= 1:
			q.store = left[0]
			i++
		case is(a, "by") && len(left) >= 1:
			q.by = left[0]
			if bytes.IndexByte(q.by, '*') < 0 {
				q.unsorted = true
			}
			i++
		case is(a, "get") && len(left) >= 1:
			q.get = append(q.get, left[0])
			i++
		default:
			c.syntax()
			return q, false
		}
	}
	return q, true
}

func (c *call) sort(readonly bool) {
	q, ok := c.sortArgs(readonly)
	if !ok {
		return
	}
	it := c.read(c.args[1])
	var elements []sortElement
	add := func(b []byte) {
		c.work(8 + len(b)/bytesPerStep)
		elements = append(elements, sortElement{val: clone(b)})
	}
	if it != nil {
		switch o := it.val; o.kind() {
		case kindList:
			asList(it).all(func(s string) bool { add(view(s)); return true })
		case kindSet:
			asSet(it).each(func(m []byte) bool { add(m); return true })
			if q.unsorted && (q.store != nil || c.scripted) {
				// The order must not depend on how the set is stored.
				q.unsorted, q.alpha, q.by = false, true, nil
			}
		case kindZset:
			c.note(c.shard(c.args[1]).dbs[c.db], it)
			asZset(it).enlarge() // SORT is where Redis gives up the small form
			for at := asZset(it).first(); at.ok(); at = at.next() {
				add(view(at.member()))
			}
		default:
			c.wrongType()
			return
		}
	}
	if !q.unsorted {
		if !c.sortElements(&q, elements) {
			c.err("ERR One or more scores can't be converted into double")
			return
		}
	} else if q.desc && (it != nil && it.val.kind() != kindSet) {
		slices.Reverse(elements)
	}
	n := int64(len(elements))
	from := min(max(q.offset, 0), n)
	to := n
	if q.limit >= 0 {
		to = min(from+min(q.limit, n), n)
	}
	c.sortReply(&q, elements[from:to])
}

// sortElements reports false when a weight is not a number.
func (c *call) sortElements(q *sortQuery, elements []sortElement) bool {
	for i := range elements {
		e := &elements[i]
		by := e.val
		if q.by != nil {
			if by = c.pattern(q.by, e.val); by == nil {
				continue
			}
		}
		if q.alpha {
			e.by = by
			continue
		}
		f, open, ok := parseBound(by)
		if !ok || open || outOfRange(f, by) {
			return false
		}
		e.score = f
	}
	slices.SortStableFunc(elements, func(a, b sortElement) int {
		n := 0
		c.work(2 + len(a.by)/bytesPerStep)
		switch {
		case !q.alpha:
			if n = cmp.Compare(a.score, b.score); n == 0 {
				n = bytes.Compare(a.val, b.val)
			}
		case a.by == nil || b.by == nil:
			n = int(b2i(a.by != nil) - b2i(b.by != nil))
		default:
			n = bytes.Compare(a.by, b.by)
		}
		if q.desc {
			n = -n
		}
		return n
	})
	return true
}

// outOfRange reports whether C's strtod sets ERANGE when it reads f from text.
func outOfRange(f float64, text []byte) bool {
	const leastNormal = 0x1p-1022
	switch size := math.Abs(f); {
	case math.IsInf(f, 0):
		return bytes.ContainsAny(text, "0123456789")
	case size == 0:
		return underflows(string(text))
	default:
		return size < leastNormal
	}
}

// pattern looks up an element by a pattern of BY or GET: the string at the key that has the element
// in place of *, or a field of the hash there.
func (c *call) pattern(pattern, element []byte) []byte {
	c.work(2)
	if string(pattern) == "#" {
		return element
	}
	c.work(stepsPerMember + (len(pattern)+len(element))/bytesPerStep)
	before, after, found := bytes.Cut(pattern, []byte("*"))
	if !found {
		return nil
	}
	var name []byte
	if i := bytes.Index(after, []byte("->")); i >= 0 && i+2 < len(after) {
		after, name = after[:i], after[i+2:]
	}
	key := slices.Concat(before, element, after)
	it := c.read(key)
	switch {
	case it == nil:
		return nil
	case name == nil && it.val.kind() == kindString:
		return clone(it.val.bytes())
	case name != nil && it.val.kind() == kindHash:
		if f, ok := c.field(asHash(it), name); ok {
			return []byte(f.value)
		}
	}
	return nil
}

func (c *call) sortReply(q *sortQuery, elements []sortElement) {
	get := q.get
	if len(get) == 0 {
		get = [][]byte{[]byte("#")}
	}
	if q.store == nil {
		c.array(len(elements) * len(get))
		for _, e := range elements {
			for _, p := range get {
				if b := c.pattern(p, e.val); b != nil {
					c.bulk(b)
				} else {
					c.null()
				}
			}
		}
		return
	}
	out := newList()
	l := out.asList()
	for _, e := range elements {
		for _, p := range get {
			l.pushBack(text(c.pattern(p, e.val)))
		}
	}
	c.storeResult(q.store, &out, eventList, "sortstore")
	if c.dirty > 0 { // a set has another order in another process
		c.logState(q.store)
	}
}
