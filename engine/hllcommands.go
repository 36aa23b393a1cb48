package engine

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// hllOf checks that it holds a HyperLogLog and writes the error.
func (c *call) hllOf(it *item) bool {
	if !c.isString(it) {
		return false
	}
	if !isHLL(it.val.str) {
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
		it = c.create(key, nil)
		it.val.str, it.val.raw = newHLL(), true
		updated = true
	} else if !c.hllOf(it) {
		return
	}
	for _, element := range c.args[2:] {
		register, count := hllPosition(element)
		b, changed, ok := hllSet(it.val.str, register, count)
		it.val.str = b
		if !ok {
			c.err(errHLLCorrupt)
			return
		}
		updated = updated || changed
	}
	if updated {
		hllStale(it.val.str)
		c.changed(key)
		c.notify(eventString, "pfadd", key)
	}
	c.boolInt(updated)
}

func cmdPfcount(c *call) {
	if len(c.args) > 2 {
		var union [hllRegisters]byte
		if _, ok := c.hllUnion(&union, c.args[1:]); !ok {
			return
		}
		var histogram [64]int
		for _, v := range union {
			histogram[v&63]++
		}
		c.int(int64(hllEstimate(&histogram)))
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
	cached := it.val.str[8:16]
	if cached[7]&0x80 == 0 {
		c.int(int64(binary.LittleEndian.Uint64(cached)))
		return
	}
	n, ok := hllCount(it.val.str)
	if !ok {
		c.err(errHLLCorrupt)
		return
	}
	binary.LittleEndian.PutUint64(cached, n)
	c.changed(key)
	c.int(int64(n))
}

// hllUnion takes the greatest of each register over keys.
func (c *call) hllUnion(union *[hllRegisters]byte, keys [][]byte) (dense, ok bool) {
	for _, key := range keys {
		it := c.read(key)
		if it == nil {
			continue
		}
		if !c.hllOf(it) {
			return false, false
		}
		dense = dense || it.val.str[4] == hllDense
		if !hllMax(union, it.val.str) {
			c.err(errHLLCorrupt)
			return false, false
		}
	}
	return dense, true
}

func cmdPfmerge(c *call) {
	var union [hllRegisters]byte
	dense, ok := c.hllUnion(&union, c.args[1:])
	if !ok {
		return
	}
	key := c.args[1]
	it := c.write(key)
	if it == nil {
		it = c.create(key, nil)
		it.val.str, it.val.raw = newHLL(), true
	}
	if dense {
		if it.val.str, ok = hllToDense(it.val.str); !ok {
			c.err(errHLLCorrupt)
			return
		}
	}
	for i, v := range union {
		if v > 0 {
			it.val.str, _, _ = hllSet(it.val.str, i, v)
		}
	}
	hllStale(it.val.str)
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
	b := it.val.str
	switch {
	case is(sub, "getreg"), is(sub, "todense"):
		d, ok := hllToDense(b)
		if !ok {
			c.err(errHLLCorrupt)
			return
		}
		it.val.str = d
		if b[4] == hllSparse {
			c.changed(c.args[2])
		}
		if is(sub, "todense") {
			c.boolInt(b[4] == hllSparse)
			return
		}
		c.array(hllRegisters)
		for i := range hllRegisters {
			c.int(int64(denseGet(d[hllHeader:], i)))
		}
	case is(sub, "decode"):
		if b[4] != hllSparse {
			c.err("ERR HLL encoding is not sparse")
			return
		}
		var out []string
		hllEach(b, func(_ int, r hllRun) {
			switch {
			case r.val > 0:
				out = append(out, fmt.Sprintf("v:%d,%d", r.val, r.n))
			case r.size == 1:
				out = append(out, fmt.Sprintf("z:%d", r.n))
			default:
				out = append(out, fmt.Sprintf("Z:%d", r.n))
			}
		})
		c.str(strings.Join(out, " "))
	case is(sub, "encoding"):
		c.status([]string{"dense", "sparse"}[b[4]])
	default:
		c.err("ERR Unknown PFDEBUG subcommand '" + string(sub) + "'")
	}
}
