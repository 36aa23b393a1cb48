package lua

import (
	"encoding/binary"
	"math"
)

const maxPackNesting = 16

func (st *state) openMsgpack() {
	t := st.newTable(0, 8)
	st.register(t, map[string]native{
		"pack": packFn, "unpack": unpackFn,
		"unpack_one": unpackOne, "unpack_limit": unpackLimit,
	})
	for k, v := range map[string]string{
		"_NAME": "cmsgpack", "_VERSION": "lua-cmsgpack 0.4.0",
		"_COPYRIGHT":   "Copyright (C) 2012, Salvatore Sanfilippo",
		"_DESCRIPTION": "MessagePack C implementation for Lua",
	} {
		t.setField(st, k, value{o: constant(v)})
	}
	st.globals.setField(st, "cmsgpack", value{o: t})
}

func packFn(l *thread) int {
	n := l.nargs()
	if n == 0 {
		l.argError(0, "MessagePack pack needs input.")
	}
	if !l.roomFor(n) {
		l.argError(0, "Too many arguments for MessagePack pack.")
	}
	p := packer{l: l}
	held := l.st.held
	for i := 1; i <= n; i++ {
		p.value(l.arg(i), 0)
	}
	l.push(l.st.bytes(p.out))
	l.st.held = held
	return 1
}

type packer struct {
	l   *thread
	out []byte
}

func (p *packer) value(v value, level int) {
	p.l.st.work(1)
	p.out = p.l.st.room(p.out, numberSize)
	switch x := v.o.(type) {
	case *str:
		p.str(x.s)
	case truth:
		p.out = append(p.out, 0xc3)
	case lie:
		p.out = append(p.out, 0xc2)
	case number:
		if i := toInt64(v.n); !math.IsInf(v.n, 0) && float64(i) == v.n {
			p.integer(i)
		} else {
			p.double(v.n)
		}
	case *table:
		p.l.st.workSlow(2 * x.slots())
		switch {
		case level == maxPackNesting:
			p.out = append(p.out, 0xc0)
		case isArray(x):
			p.array(v, x, level)
		default:
			p.header(x.count(), 0x80, 0xde)
			x.each(func(k, v value) {
				p.value(k, level+1)
				p.value(v, level+1)
			})
		}
	default:
		p.out = append(p.out, 0xc0)
	}
}

func (p *packer) array(v value, t *table, level int) {
	n := t.length(p.l.st)
	p.header(n, 0x90, 0xdc)
	for i := 1; i <= n; i++ {
		p.value(p.l.index(v, num(float64(i)), -1), level+1)
	}
}

// isArray reports whether the keys are 1 to their number.
func isArray(t *table) bool {
	count, limit := 0, 0
	ok := true
	t.each(func(k, _ value) {
		i := int(int32(toInt64(k.n)))
		if !k.isNum() || k.n <= 0 || float64(i) != k.n {
			ok = false
		}
		limit = max(limit, i)
		count++
	})
	return ok && limit == count
}

// header begins an array or map of n elements.
func (p *packer) header(n int, fix, code byte) {
	switch {
	case n <= 15:
		p.out = append(p.out, fix|byte(n))
	case n <= 0xffff:
		p.out = binary.BigEndian.AppendUint16(append(p.out, code), uint16(n))
	default:
		p.out = binary.BigEndian.AppendUint32(append(p.out, code+1), uint32(n))
	}
}

func (p *packer) str(s string) {
	n := len(s)
	switch {
	case n < 32:
		p.out = append(p.out, 0xa0|byte(n))
	case n <= 0xff:
		p.out = append(p.out, 0xd9, byte(n))
	case n <= 0xffff:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xda), uint16(n))
	default:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xdb), uint32(n))
	}
	p.l.st.workBytes(n)
	p.out = append(p.l.st.room(p.out, n), s...)
}

func (p *packer) double(d float64) {
	if f := float32(d); float64(f) == d {
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xca), math.Float32bits(f))
		return
	}
	p.out = binary.BigEndian.AppendUint64(append(p.out, 0xcb), math.Float64bits(d))
}

func (p *packer) integer(n int64) {
	b := p.out
	switch {
	case n >= -32 && n <= 127:
		b = append(b, byte(n))
	case n >= 0 && n <= 0xff:
		b = append(b, 0xcc, byte(n))
	case n >= 0 && n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n >= 0 && n <= 0xffffffff:
		b = binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	case n >= 0:
		b = binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(n))
	case n >= -128:
		b = append(b, 0xd0, byte(n))
	case n >= -32768:
		b = binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n >= -2147483648:
		b = binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
	}
	p.out = b
}

func unpackFn(l *thread) int {
	return l.unpackAll(0, 0)
}

func unpackOne(l *thread) int {
	return l.unpackAll(1, l.optInt64(2, 0))
}

func unpackLimit(l *thread) int {
	limit := l.checkInt64(2)
	return l.unpackAll(limit, l.optInt64(3, 0))
}

func (l *thread) unpackAll(limit, offset int64) int {
	s := l.checkStr(1)
	all := limit == 0 && offset == 0
	switch {
	case offset < 0 || limit < 0:
		l.errorf("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), len(s))
	case offset > int64(len(s)):
		l.errorf("Start offset %d greater than input length %d.", int32(offset), len(s))
	}
	if all {
		limit = math.MaxInt32
	}
	l.setTop(1)
	d := unpacker{l: l, whole: s, s: s[offset:], slots: 1}
	first := l.top
	if !all {
		l.push(vNil) // the next offset, set below
	}
	var n int64
	for ; len(d.s) > 0 && n < limit; n++ {
		l.push(d.value())
		d.slots++
	}
	if !all {
		next := float64(len(s) - len(d.s))
		if len(d.s) == 0 {
			next = -1
		}
		l.stack[first] = num(next)
		n++
	}
	return int(n)
}

// An unpacker reads MessagePack from s. slots counts the stack that the C
// library would use, which limits nesting.
type unpacker struct {
	l     *thread
	whole string
	s     string
	slots int
}

func (d *unpacker) need(n int) string {
	if len(d.s) < n {
		d.l.errorf("Missing bytes in input.")
	}
	b := d.s[:n]
	d.s = d.s[n:]
	return b
}

func (d *unpacker) uint(n int) uint64 {
	if len(d.s) < n+1 {
		d.l.errorf("Missing bytes in input.")
	}
	var v uint64
	for i := 1; i <= n; i++ {
		v = v<<8 | uint64(d.s[i])
	}
	d.s = d.s[n+1:]
	return v
}

func (d *unpacker) room(n int, what string) {
	if d.slots+n > maxCStack {
		d.l.errorf("stack overflow (%s)", what)
	}
}

func (d *unpacker) value() value {
	if len(d.s) == 0 {
		d.l.errorf("Missing bytes in input.")
	}
	d.l.st.work(1)
	d.room(1, "too many return values at once; use unpack_one or unpack_limit instead.")
	c := d.s[0]
	switch c {
	case 0xcc, 0xcd, 0xce, 0xcf:
		return num(float64(int64(d.uint(1 << (c - 0xcc)))))
	case 0xd0:
		return num(float64(int8(d.uint(1))))
	case 0xd1:
		return num(float64(int16(d.uint(2))))
	case 0xd2:
		return num(float64(int32(d.uint(4))))
	case 0xd3:
		return num(float64(int64(d.uint(8))))
	case 0xc0:
		d.s = d.s[1:]
		return vNil
	case 0xc2, 0xc3:
		d.s = d.s[1:]
		return boolean(c == 0xc3)
	case 0xca:
		return num(float64(math.Float32frombits(uint32(d.uint(4)))))
	case 0xcb:
		return num(math.Float64frombits(d.uint(8)))
	case 0xd9, 0xda, 0xdb:
		n := int(d.uint(1 << (c - 0xd9)))
		return d.l.st.part(d.whole, d.need(n))
	case 0xdc, 0xdd:
		return d.array(int(d.uint(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return d.hash(int(d.uint(2 << (c - 0xde))))
	}
	d.s = d.s[1:]
	switch {
	case c < 0x80:
		return num(float64(c))
	case c >= 0xe0:
		return num(float64(int8(c)))
	case c&0xe0 == 0xa0:
		return d.l.st.part(d.whole, d.need(int(c&0x1f)))
	case c&0xf0 == 0x90:
		return d.array(int(c & 15))
	case c&0xf0 == 0x80:
		return d.hash(int(c & 15))
	}
	d.l.errorf("Bad data format in input.")
	return vNil
}

func (d *unpacker) array(n int) value {
	t := d.l.st.beginTable()
	d.slots++
	d.room(1, "in function mp_decode_to_lua_array")
	d.slots++
	for i := 1; i <= n; i++ {
		*t.slotInt(d.l.st, i) = d.value()
	}
	d.slots -= 2
	d.l.st.endTable()
	return value{o: t}
}

func (d *unpacker) hash(n int) value {
	t := d.l.st.beginTable()
	d.slots++
	for range n {
		k := d.value()
		d.slots++
		v := d.value()
		d.slots--
		*d.l.rawSlot(t, k) = v
	}
	d.slots--
	d.l.st.endTable()
	return value{o: t}
}
