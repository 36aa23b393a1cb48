package engine

import "math"

type overflow uint8

const (
	overflowWrap overflow = iota
	overflowSat
	overflowFail
)

// A fieldOp is one operation of BITFIELD.
type fieldOp struct {
	op       byte // g, s or i
	signed   bool
	width    int
	offset   int64
	n        int64
	overflow overflow
}

func cmdBitfield(c *call)   { c.bitfield(false) }
func cmdBitfieldRo(c *call) { c.bitfield(true) }

func (c *call) bitfield(readonly bool) {
	ops, highest, writes, ok := c.parseBitfield()
	if !ok {
		return
	}
	key := c.args[1]
	var it *item
	grown := false
	switch {
	case !writes:
		it = c.read(key)
		if !c.isString(it) {
			return
		}
	case readonly:
		c.err("ERR BITFIELD_RO only supports the GET subcommand")
		return
	case highest>>3 >= maxString: // Redis takes one that begins in the last byte
		c.err(errBitOffset)
		return
	default:
		if it, grown = c.bitString(key, highest); it == nil {
			return
		}
	}
	changes := 0
	c.array(len(ops))
	for _, op := range ops {
		if op.op == 'g' {
			var s []byte
			if it != nil {
				s = it.val.bytes()
			}
			c.int(op.get(s))
			continue
		}
		old := op.get(it.val.bytes())
		val, over := op.compute(old)
		if over && op.overflow == overflowFail {
			c.null()
			continue
		}
		if op.op == 's' {
			c.int(old)
		} else {
			c.int(val)
		}
		op.put(it.val.bytes(), uint64(val))
		if grown || old != val {
			changes++
		}
	}
	switch {
	case changes > 0:
		c.changed(key)
		c.notify(eventString, "setbit", key)
	case grown: // and OVERFLOW FAIL kept everything from being set
		c.changed(key)
	}
}

func (c *call) parseBitfield() (ops []fieldOp, highest int64, writes, ok bool) {
	how := overflowWrap
	for i := 2; i < len(c.args); {
		rest := c.args[i+1:]
		op := fieldOp{overflow: how}
		switch a := c.args[i]; {
		case is(a, "get") && len(rest) >= 2:
			op.op = 'g'
		case is(a, "set") && len(rest) >= 3:
			op.op = 's'
		case is(a, "incrby") && len(rest) >= 3:
			op.op = 'i'
		case is(a, "overflow") && len(rest) >= 1:
			switch {
			case is(rest[0], "wrap"):
				how = overflowWrap
			case is(rest[0], "sat"):
				how = overflowSat
			case is(rest[0], "fail"):
				how = overflowFail
			default:
				c.err("ERR Invalid OVERFLOW type specified")
				return nil, 0, false, false
			}
			i += 2
			continue
		default:
			c.syntax()
			return nil, 0, false, false
		}
		if !op.parseType(rest[0]) {
			c.err("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
			return nil, 0, false, false
		}
		if op.offset, ok = c.bitOffset(rest[1], int64(op.width)); !ok {
			return nil, 0, false, false
		}
		i += 3
		if op.op != 'g' {
			writes = true
			highest = max(highest, op.offset+int64(op.width)-1)
			if op.n, ok = c.argInt(rest[2]); !ok {
				return nil, 0, false, false
			}
			i++
		}
		ops = append(ops, op)
	}
	return ops, highest, writes, true
}

func (op *fieldOp) parseType(arg []byte) bool {
	if len(arg) < 2 || arg[0] != 'i' && arg[0] != 'u' {
		return false
	}
	op.signed = arg[0] == 'i'
	n, ok := parseInt(arg[1:])
	if !ok || n < 1 || op.signed && n > 64 || !op.signed && n > 63 {
		return false
	}
	op.width = int(n)
	return true
}

// get reads the field. Bits beyond the end of the string are 0.
func (op *fieldOp) get(s []byte) int64 {
	var v uint64
	for i := range int64(op.width) {
		at := op.offset + i
		v <<= 1
		if at>>3 < int64(len(s)) {
			v |= uint64(s[at>>3] >> (7 - at&7) & 1)
		}
	}
	if op.signed {
		return signExtend(v, op.width)
	}
	return int64(v)
}

func (op *fieldOp) put(s []byte, v uint64) {
	for i := range int64(op.width) {
		at := op.offset + i
		bit := byte(v >> (int64(op.width) - 1 - i) & 1)
		p, shift := &s[at>>3], 7-byte(at&7)
		*p = *p&^(1<<shift) | bit<<shift
	}
}

func signExtend(v uint64, width int) int64 {
	shift := 64 - width
	return int64(v<<shift) >> shift
}

// compute returns the field's value after SET or INCRBY, and whether it overflowed.
func (op *fieldOp) compute(old int64) (val int64, over bool) {
	base, more := old, op.n
	if op.op == 's' {
		base, more = op.n, 0
	}
	if op.signed {
		return op.addSigned(base, more)
	}
	return op.addUnsigned(uint64(base), more)
}

func (op *fieldOp) addSigned(v, more int64) (int64, bool) {
	most := int64(math.MaxInt64)
	if op.width < 64 {
		most = 1<<(op.width-1) - 1
	}
	least := -most - 1
	sum := v + more
	up := v > most || more > 0 && v > most-more || op.width < 64 && more > most-v
	down := v < least || more < 0 && v < least-more || op.width < 64 && more < least-v
	if op.width == 64 {
		up = more > 0 && v > math.MaxInt64-more
		down = more < 0 && v < math.MinInt64-more
	}
	switch {
	case up && op.overflow == overflowSat:
		return most, true
	case down && op.overflow == overflowSat:
		return least, true
	case up || down:
		return signExtend(uint64(sum), op.width), true
	}
	return sum, false
}

func (op *fieldOp) addUnsigned(v uint64, more int64) (int64, bool) {
	most := uint64(1)<<op.width - 1
	sum := v + uint64(more)
	up := v > most || more > 0 && uint64(more) > most-v
	down := more < 0 && uint64(-more) > v
	switch {
	case up && op.overflow == overflowSat:
		return int64(most), true
	case down && op.overflow == overflowSat && !up:
		return 0, true
	case up || down:
		return int64(sum & most), true
	}
	return int64(sum), false
}
