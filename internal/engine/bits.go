package engine

import (
	"encoding/binary"
	"math/bits"
)

const errBitOffset = "ERR bit offset is not an integer or out of range"

// bitOffset reads a bit offset; #n stands for n times width when width is not
// 0.
func (c *call) bitOffset(arg []byte, width int64) (int64, bool) {
	times := int64(1)
	if width > 0 && len(arg) > 0 && arg[0] == '#' {
		arg, times = arg[1:], width
	}
	n, ok := parseInt(arg)
	if !ok || n < 0 || n*times>>3 >= maxString || n > maxString*8 {
		c.err(errBitOffset)
		return 0, false
	}
	return n * times, true
}

// bitString returns the string of key with room for the bit at offset, and
// whether that made it longer.
func (c *call) bitString(key []byte, offset int64) (it *item, grown bool) {
	it = c.write(key)
	if !c.isString(it) {
		return nil, false
	}
	var old []byte
	if it != nil {
		old = it.val.bytes()
	}
	need := int(offset>>3) + 1
	str := c.grown(old, need)
	if it == nil {
		it = c.createString(key, 0)
	}
	grown = need > len(old)
	it.val.setString(str, formRaw)
	return it, grown
}

func cmdSetbit(c *call) {
	offset, ok := c.bitOffset(c.args[2], 0)
	if !ok {
		return
	}
	on, ok := parseInt(c.args[3])
	if !ok || on&^1 != 0 {
		c.err("ERR bit is not an integer or out of range")
		return
	}
	key := c.args[1]
	it, grown := c.bitString(key, offset)
	if it == nil {
		return
	}
	p, shift := &it.val.bytes()[offset>>3], 7-byte(offset&7)
	old := *p >> shift & 1
	*p = *p&^(1<<shift) | byte(on)<<shift
	if grown || old != byte(on) {
		c.changed(key)
		c.notify(eventString, "setbit", key)
	}
	c.int(int64(old))
}

func cmdGetbit(c *call) {
	offset, ok := c.bitOffset(c.args[2], 0)
	if !ok {
		return
	}
	it := c.read(c.args[1])
	if !c.isString(it) {
		return
	}
	if it == nil || offset>>3 >= int64(len(it.val.bytes())) {
		c.int(0)
		return
	}
	c.int(int64(it.val.bytes()[offset>>3] >> (7 - offset&7) & 1))
}

func (c *call) popcount(b []byte) (n int64) {
	c.inParts(len(b), 1, func(from, to int) { n += popcount(b[from:to]) })
	return n
}

func popcount(b []byte) (n int64) {
	for len(b) >= 8 {
		n += int64(bits.OnesCount64(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	for _, x := range b {
		n += int64(bits.OnesCount8(x))
	}
	return n
}

// bitUnit reads BIT or BYTE.
func (c *call) bitUnit(arg []byte) (inBits, ok bool) {
	switch {
	case is(arg, "bit"):
		return true, true
	case is(arg, "byte"):
		return false, true
	}
	c.syntax()
	return false, false
}

// A bitRange is a part of a string in bits, both ends included.
type bitRange struct{ from, to int64 }

// clip makes a range that may count from the end absolute, in bits.
func clipRange(from, to, length int64, inBits bool) bitRange {
	if inBits {
		length *= 8
	}
	from, to = fromEnd(from, length), fromEnd(to, length)
	to = min(to, length-1)
	if inBits || from > to {
		return bitRange{from, to}
	}
	return bitRange{from * 8, to*8 + 7}
}

func cmdBitcount(c *call) {
	it := c.read(c.args[1])
	if it == nil {
		c.int(0)
		return
	}
	if !c.isString(it) {
		return
	}
	s := it.val.bytes()
	switch len(c.args) {
	case 2:
		c.int(c.popcount(s))
		return
	case 4, 5:
	default:
		c.syntax()
		return
	}
	from, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	to, ok := c.argInt(c.args[3])
	if !ok {
		return
	}
	if from < 0 && to < 0 && from > to {
		c.int(0)
		return
	}
	inBits := false
	if len(c.args) == 5 {
		if inBits, ok = c.bitUnit(c.args[4]); !ok {
			return
		}
	}
	r := clipRange(from, to, int64(len(s)), inBits)
	if r.from > r.to {
		c.int(0)
		return
	}
	first, last := r.from>>3, r.to>>3
	n := c.popcount(s[first : last+1])
	n -= int64(bits.OnesCount8(s[first] &^ (0xff >> (r.from & 7))))
	n -= int64(bits.OnesCount8(s[last] & (0x7f >> (r.to & 7))))
	c.int(n)
}

// bitpos returns the position of the first bit in the range with the value
// given, or -1.
func (c *call) bitpos(s []byte, r bitRange, bit byte) int64 {
	skip := byte(0)
	if bit == 0 {
		skip = 0xff
	}
	for i := r.from >> 3; i <= r.to>>3; i++ {
		if i%(8*bytesPerStep) == 0 {
			c.work(bytesPerStep)
		}
		if s[i] == skip && i<<3 >= r.from {
			continue
		}
		for j := max(i<<3, r.from); j <= min(i<<3+7, r.to); j++ {
			if s[i]>>(7-j&7)&1 == bit {
				return j
			}
		}
	}
	return -1
}

func cmdBitpos(c *call) {
	bit, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	if bit != 0 && bit != 1 {
		c.err("ERR The bit argument must be 1 or 0.")
		return
	}
	it := c.read(c.args[1])
	if it == nil {
		c.int(-bit)
		return
	}
	if !c.isString(it) {
		return
	}
	s := it.val.bytes()
	length := int64(len(s))
	r := bitRange{0, length*8 - 1}
	if len(c.args) > 6 {
		c.syntax()
		return
	}
	if len(c.args) > 3 {
		inBits := false
		from, ok := c.argInt(c.args[3])
		if !ok {
			return
		}
		if len(c.args) == 6 {
			if inBits, ok = c.bitUnit(c.args[5]); !ok {
				return
			}
		}
		to := int64(-1)
		if len(c.args) > 4 {
			if to, ok = c.argInt(c.args[4]); !ok {
				return
			}
		}
		r = clipRange(from, to, length, inBits)
	}
	if r.from > r.to {
		c.int(-1)
		return
	}
	at := c.bitpos(s, r, byte(bit))
	if at < 0 && bit == 0 && len(c.args) < 5 {
		at = length * 8 // zeros follow the string
	}
	c.int(at)
}

// bitop fills out with the result for the sources, from the position at on. A source counts as
// zeros beyond its end.
func bitop(op, out []byte, sources [][]byte, at int) {
	rest := func(s []byte) []byte { return s[min(at, len(s)):min(at+len(out), len(s))] }
	copy(out, rest(sources[0]))
	switch {
	case is(op, "not"):
		for i := range out {
			out[i] = ^out[i]
		}
	case is(op, "and"):
		for _, s := range sources[1:] {
			s = rest(s)
			for i, b := range s {
				out[i] &= b
			}
			clear(out[len(s):])
		}
	case is(op, "or"):
		for _, s := range sources[1:] {
			for i, b := range rest(s) {
				out[i] |= b
			}
		}
	default:
		for _, s := range sources[1:] {
			for i, b := range rest(s) {
				out[i] ^= b
			}
		}
	}
}

func cmdBitop(c *call) {
	op := c.args[1]
	if !is(op, "and") && !is(op, "or") && !is(op, "xor") && !is(op, "not") {
		c.syntax()
		return
	}
	if is(op, "not") && len(c.args) != 4 {
		c.err("ERR BITOP NOT must be called with a single source key.")
		return
	}
	var sources [][]byte
	longest := 0
	for _, key := range c.args[3:] {
		it := c.read(key)
		if !c.isString(it) {
			return
		}
		var s []byte
		if it != nil {
			s = it.val.bytes()
		}
		sources = append(sources, s)
		longest = max(longest, len(s))
	}
	to := c.args[2]
	if longest == 0 {
		if c.write(to) != nil {
			c.remove(to)
			c.changed(to)
			c.notify(eventGeneric, "del", to)
		}
		c.int(0)
		return
	}
	out := make([]byte, longest)
	c.inParts(longest, len(sources), func(from, end int) { bitop(op, out[from:end], sources, from) })
	it := c.setString(to, out)
	it.val.form = formRaw
	c.changed(to)
	c.notify(eventString, "set", to)
	c.int(int64(longest))
}
