package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/glob"
)

func cmdKeys(c *call) {
	pattern := c.args[1]
	all := string(pattern) == "*"
	var names []string
	for i := range c.e.shards {
		ks := c.e.shards[i].dbs[c.db]
		if ks == nil {
			continue
		}
		ks.keys.each(func(it *item) bool {
			c.work(1)
			if it.val.expire == 0 || it.val.expire >= c.time() {
				names = append(names, it.key)
			}
			return true
		})
	}
	c.unlocked(func() {
		start, n := c.begin(), 0
		for _, name := range names {
			c.workMatch(pattern, name)
			if all || glob.Match(pattern, view(name)) {
				c.str(name)
				n++
			}
		}
		c.end(start, n)
	})
}

// scanOptions are the options of SCAN and its relatives.
type scanOptions struct {
	pattern []byte
	count   int
	kind    string
}

func (o *scanOptions) matches(name string) bool {
	return o.pattern == nil || glob.Match(o.pattern, view(name))
}

// scanCursor reads a cursor as C's strtoul does, but for white space: none at all is 0, and there may be a sign.
func (c *call) scanCursor(at int) (cursor uint64, ok bool) {
	text, _, _ := strings.Cut(string(c.args[at]), "\x00")
	if text == "" {
		return 0, true
	}
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	cursor, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		c.err("ERR invalid cursor")
	}
	if negative {
		cursor = -cursor
	}
	return cursor, err == nil
}

// scanOptions reads the options from args[at] on. Only SCAN has them at 2, and the option TYPE.
func (c *call) scanOptions(at int) (o scanOptions, ok bool) {
	o.count = 10
	for i := at; i < len(c.args); i += 2 {
		a := c.args[i]
		switch {
		case i+1 == len(c.args):
			c.syntax()
			return o, false
		case is(a, "count"):
			n, ok := c.argInt(c.args[i+1])
			if !ok {
				return o, false
			}
			if n < 1 {
				c.syntax()
				return o, false
			}
			o.count = int(min(n, 1<<30))
		case is(a, "match"):
			o.pattern = c.args[i+1]
			if string(o.pattern) == "*" {
				o.pattern = nil
			}
		case is(a, "type") && at == 2:
			o.kind = string(c.args[i+1])
		default:
			c.syntax()
			return o, false
		}
	}
	return o, true
}

// scanDict goes on until f was called count times, or many buckets were empty.
func scanDict[V any](d *dict[V], cursor uint64, count int, f func(*entry[V])) uint64 {
	seen := 0
	for range count * 10 {
		cursor = d.scan(cursor, func(e *entry[V]) {
			seen++
			f(e)
		})
		if cursor == 0 || seen >= count {
			break
		}
	}
	return cursor
}

func (c *call) cursor(n uint64) { c.str(strconv.FormatUint(n, 10)) }

// endScan inserts the cursor and the head of an array of n elements before the elements, which
// begin at at.
func (c *call) endScan(at later, next uint64, n int) {
	c.end(at, n)
	body := slices.Clone(c.w[at:])
	c.w = c.w[:at]
	c.array(2)
	c.cursor(next)
	c.w = append(c.w, body...)
}

// cmdScan goes through one shard after the other, with the lock of one at a
// time. The low byte of the cursor is the shard, the rest the cursor in it.
func cmdScan(c *call) {
	cursor, ok := c.scanCursor(1)
	if !ok {
		return
	}
	opts, ok := c.scanOptions(2)
	if !ok {
		return
	}
	start, n, seen := c.begin(), 0, 0
	var names []string // of one shard, matched after it is unlocked
	i, inner := int(cursor&(shardCount-1)), cursor/shardCount
	for budget := opts.count * 10; i < shardCount && seen < opts.count && budget > 0; {
		inner = c.scanShard(i, inner, func(it *item) {
			seen++
			if it.val.expire != 0 && it.val.expire < c.time() {
				return
			}
			if opts.kind != "" && !is([]byte(opts.kind), it.val.kind().String()) {
				return
			}
			names = append(names, it.key)
		}, &budget, &seen, opts.count)
		for _, name := range names {
			c.workMatch(opts.pattern, name)
			if opts.matches(name) {
				c.str(name)
				n++
			}
		}
		names = names[:0]
		if inner == 0 {
			i++
		}
	}
	next := uint64(0)
	if i < shardCount {
		next = inner*shardCount + uint64(i)
	}
	c.endScan(start, next, n)
}

func (c *call) scanShard(i int, cursor uint64, f func(*item), budget, seen *int, count int) uint64 {
	sh := &c.e.shards[i]
	if !c.held.has(i) {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if c.e.strict {
			c.s.seen = max(c.s.seen, sh.saved)
		}
	}
	ks := sh.dbs[c.db]
	if ks == nil {
		return 0
	}
	for {
		cursor = ks.keys.scan(cursor, f)
		*budget--
		if cursor == 0 || *seen >= count || *budget <= 0 {
			return cursor
		}
	}
}
