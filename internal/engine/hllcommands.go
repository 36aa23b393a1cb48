package engine

import (
	"fmt"
	"strings"

	"github.com/redoubt-go/redoubt/internal/hyll"
)

const errHLLCorrupt = "INVALIDOBJ Corrupted HLL object detected"

// hllOf checks that it holds a HyperLogLog and writes the error.
func (c *call) hllOf(it *item) bool {
	if !c.isString(it) {
		return false
	}
	if !hyll.Is(it.val.bytes()) {
		c.err("WRONGTYPE Key is not a valid HyperLogLog string value.")
		return false
	}
	return true
}

func cmdPfadd(c *call) {
	key := c.args[1]
	it := c.write(key)
	updated := false
	if it == nil {
		it = c.createString(key, 0)
		it.val.setString(hyll.New(), formRaw)
		updated = true
	} else if !c.hllOf(it) {
		return
	}
	it.val.form = formRaw // as Redis stores a string that it changes in place, here and below
	for _, element := range c.args[2:] {
		register, count := hyll.Position(element)
		b, changed, ok := hyll.Set(it.val.bytes(), register, count)
		it.val.setBytes(b)
		if !ok {
			c.err(errHLLCorrupt)
			return
		}
		updated = updated || changed
	}
	if updated {
		hyll.Stale(it.val.bytes())
		c.changed(key)
		c.notify(eventString, "pfadd", key)
	}
	c.boolInt(updated)
}

func cmdPfcount(c *call) {
	if len(c.args) > 2 {
		var union [hyll.Registers]byte
		if _, ok := c.hllUnion(&union, c.args[1:]); !ok {
			return
		}
		var histogram [64]int
		for _, v := range union {
			histogram[v&63]++
		}
		c.int(int64(hyll.Estimate(&histogram)))
		return
	}
	key := c.args[1]
	it := c.read(key)
	if it == nil {
		c.int(0)
		return
	}
	if !c.hllOf(it) {
		return
	}
	it.val.form = formRaw
	if n, ok := hyll.Cached(it.val.bytes()); ok {
		c.int(int64(n))
		return
	}
	n, ok := hyll.Count(it.val.bytes())
	if !ok {
		c.err(errHLLCorrupt)
		return
	}
	hyll.Cache(it.val.bytes(), n)
	c.changed(key)
	c.int(int64(n))
}

// hllUnion takes the greatest of each register over keys.
func (c *call) hllUnion(union *[hyll.Registers]byte, keys [][]byte) (dense, ok bool) {
	for _, key := range keys {
		c.work(hyll.Registers / 4)
		it := c.read(key)
		if it == nil {
			continue
		}
		if !c.hllOf(it) {
			return false, false
		}
		dense = dense || hyll.Dense(it.val.bytes())
		if !hyll.Max(union, it.val.bytes()) {
			c.err(errHLLCorrupt)
			return false, false
		}
	}
	return dense, true
}

func cmdPfmerge(c *call) {
	var union [hyll.Registers]byte
	dense, ok := c.hllUnion(&union, c.args[1:])
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	if it == nil {
		it = c.createString(key, 0)
		it.val.setString(hyll.New(), formRaw)
	}
	b := it.val.bytes()
	if dense {
		if b, ok = hyll.ToDense(b); !ok {
			c.err(errHLLCorrupt)
			return
		}
	}
	for i, v := range union {
		if v > 0 {
			b, _, _ = hyll.Set(b, i, v)
		}
	}
	it.val.setString(b, formRaw)
	hyll.Stale(b)
	c.changed(key)
	c.notify(eventString, "pfadd", key)
	c.ok()
}

func cmdPfselftest(c *call) { c.ok() }

func cmdPfdebug(c *call) {
	if len(c.args) < 3 {
		c.err("ERR wrong number of arguments for 'pfdebug' command")
		return
	}
	sub := c.args[1]
	it := c.write(c.args[2])
	if it == nil {
		c.err("ERR The specified key does not exist")
		return
	}
	if !c.hllOf(it) {
		return
	}
	if len(c.args) != 3 {
		c.err("ERR Wrong number of arguments for the '" + string(sub) + "' subcommand")
		return
	}
	it.val.form = formRaw
	b := it.val.bytes()
	switch {
	case is(sub, "getreg"), is(sub, "todense"):
		d, ok := hyll.ToDense(b)
		if !ok {
			c.err(errHLLCorrupt)
			return
		}
		it.val.setBytes(d)
		if !hyll.Dense(b) {
			c.changed(c.args[2])
		}
		if is(sub, "todense") {
			c.boolInt(!hyll.Dense(b))
			return
		}
		c.array(hyll.Registers)
		for i := range hyll.Registers {
			c.int(int64(hyll.Get(d, i)))
		}
	case is(sub, "decode"):
		if hyll.Dense(b) {
			c.err("ERR HLL encoding is not sparse")
			return
		}
		var out []string
		hyll.Each(b, func(_ int, r hyll.Run) {
			switch {
			case r.Val > 0:
				out = append(out, fmt.Sprintf("v:%d,%d", r.Val, r.N))
			case r.Size == 1:
				out = append(out, fmt.Sprintf("z:%d", r.N))
			default:
				out = append(out, fmt.Sprintf("Z:%d", r.N))
			}
		})
		c.str(strings.Join(out, " "))
	case is(sub, "encoding"):
		c.status(map[bool]string{true: "dense", false: "sparse"}[hyll.Dense(b)])
	default:
		c.err("ERR Unknown PFDEBUG subcommand '" + string(sub) + "'")
	}
}
