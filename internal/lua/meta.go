package lua

import (
	"math"
	"strings"
)

// Metamethods. The first ones are cached as absent in a table's absent bits.
const (
	tmIndex = iota
	tmNewIndex
	tmEq
	tmLen
	tmAdd
	tmSub
	tmMul
	tmDiv
	tmMod
	tmPow
	tmUnm
	tmLt
	tmLe
	tmConcat
	tmCall
	tmToString
	tmMetatable
	tmCount
)

var tmNames = func() (a [tmCount]*str) {
	for i, s := range []string{"index", "newindex", "eq", "len", "add", "sub",
		"mul", "div", "mod", "pow", "unm", "lt", "le", "concat", "call",
		"tostring", "metatable"} {
		a[i] = libName("__" + s)
	}
	return a
}()

// maxChain bounds chains of __index and __newindex.
const maxChain = 100

// meta is a metamethod of a metatable that may be nil.
func meta(mt *table, tm int) value {
	if mt == nil {
		return vNil
	}
	if tm <= tmLen {
		if mt.absent&(1<<tm) != 0 {
			return vNil
		}
		v := mt.field(tmNames[tm])
		if v.o == nil {
			mt.absent |= 1 << tm
		}
		return v
	}
	return mt.field(tmNames[tm])
}

func (st *state) metatable(v value) *table {
	switch x := v.o.(type) {
	case *table:
		return x.meta
	case *str:
		return st.strMeta
	}
	return nil
}

func (st *state) metamethod(v value, tm int) value { return meta(st.metatable(v), tm) }

func isFn(v value) bool {
	switch v.o.(type) {
	case *luaFn, *goFn:
		return true
	}
	return false
}

// index is t[k] with metamethods. reg is where t is, for messages.
func (l *thread) index(t, k value, reg int) value {
	for range maxChain {
		var tm value
		if tab, ok := t.o.(*table); ok {
			l.st.workKey(&k)
			if p := tab.find(&k); p != nil && p.o != nil {
				return *p
			}
			if tm = meta(tab.meta, tmIndex); tm.o == nil {
				return vNil
			}
		} else if tm = l.st.metamethod(t, tmIndex); tm.o == nil {
			l.typeError(t, reg, "index")
		}
		if isFn(tm) {
			return l.call1(tm, t, k)
		}
		t, reg = tm, -1
	}
	l.fail("loop in gettable")
	return vNil
}

// setIndex is t[k] = v with metamethods.
func (l *thread) setIndex(t, k, v value, reg int) {
	for range maxChain {
		var tm value
		if tab, ok := t.o.(*table); ok {
			slot := l.rawSlot(tab, k)
			if slot.o != nil {
				*slot = v
				return
			}
			if tm = meta(tab.meta, tmNewIndex); tm.o == nil {
				*slot = v
				return
			}
		} else if tm = l.st.metamethod(t, tmNewIndex); tm.o == nil {
			l.typeError(t, reg, "index")
		}
		if isFn(tm) {
			l.call3(tm, t, k, v)
			return
		}
		t, reg = tm, -1
	}
	l.fail("loop in settable")
}

// rawSlot is the slot of a key that a script sets.
func (l *thread) rawSlot(t *table, k value) *value {
	if t.readonly {
		l.fail("Attempt to modify a readonly table")
	}
	t.absent = 0
	l.st.workKey(&k)
	if p := t.find(&k); p != nil {
		return p
	}
	if k.o == nil {
		l.fail("table index is nil")
	}
	if k.isNum() && k.n != k.n {
		l.fail("table index is NaN")
	}
	return t.insert(l.st, k)
}

// workKey counts what it takes to look for a key.
func (st *state) workKey(k *value) {
	if s, ok := k.o.(*str); ok && len(s.s) > longKey {
		st.workBytes(len(s.s))
	}
}

// Arithmetic.

// luaMod is a % b, with the sign of b. The conversion keeps a processor from
// fusing the product into the difference.
func luaMod(a, b float64) float64 { return a - float64(math.Floor(a/b)*b) }

func arith(op int, a, b float64) float64 {
	switch op {
	case opAdd:
		return a + b
	case opSub:
		return a - b
	case opMul:
		return a * b
	case opDiv:
		return a / b
	case opMod:
		return luaMod(a, b)
	case opPow:
		return pow(a, b)
	}
	return -a
}

// arithSlow is arithmetic on what is not two numbers. rb and rc are the
// operands' registers or constants.
func (l *thread) arithSlow(op int, a, b value, rb, rc int) value {
	x, ok1 := l.st.toNumber(&a)
	y, ok2 := l.st.toNumber(&b)
	if ok1 && ok2 {
		return num(arith(op, x, y))
	}
	tm := l.st.metamethod(a, tmAdd+op-opAdd)
	if tm.o == nil {
		tm = l.st.metamethod(b, tmAdd+op-opAdd)
	}
	if tm.o != nil {
		return l.call1(tm, a, b)
	}
	if !ok1 {
		b, rc = a, rb
	}
	l.typeError(b, regOf(rc), "perform arithmetic on")
	return vNil
}

func regOf(rk int) int {
	if rk >= constBit {
		return -1
	}
	return rk
}

// Comparison.

// rawEqual calls the function of this name, and counts the work that long strings are.
func (st *state) rawEqual(a, b *value) bool {
	if x, ok := a.o.(*str); ok && len(x.s) > longKey {
		if y, ok := b.o.(*str); ok && len(x.s) == len(y.s) {
			st.workBytes(len(x.s))
		}
	}
	return rawEqual(a, b)
}

func (l *thread) equal(a, b value) bool {
	if l.st.rawEqual(&a, &b) {
		return true
	}
	x, ok1 := a.o.(*table)
	y, ok2 := b.o.(*table)
	if !ok1 || !ok2 {
		return false
	}
	tm := meta(x.meta, tmEq)
	if tm.o == nil || x.meta == nil || y.meta == nil {
		return false
	}
	if x.meta != y.meta {
		if tm2 := meta(y.meta, tmEq); !l.st.rawEqual(&tm, &tm2) {
			return false
		}
	}
	r := l.call1(tm, a, b)
	return !r.falsy()
}

// order calls a comparison metamethod that both operands share.
func (l *thread) order(a, b value, tm int) (result, ok bool) {
	f := l.st.metamethod(a, tm)
	if f.o == nil {
		return false, false
	}
	g := l.st.metamethod(b, tm)
	if !l.st.rawEqual(&f, &g) {
		return false, false
	}
	r := l.call1(f, a, b)
	return !r.falsy(), true
}

func (l *thread) less(a, b value) bool {
	switch x := a.o.(type) {
	case number:
		if b.isNum() {
			return a.n < b.n
		}
	case *str:
		if y, ok := b.o.(*str); ok {
			l.st.workBytes(min(len(x.s), len(y.s)))
			return x.s < y.s
		}
	}
	if kindName(a) == kindName(b) {
		if r, ok := l.order(a, b, tmLt); ok {
			return r
		}
	}
	l.orderError(a, b)
	return false
}

func (l *thread) lessEqual(a, b value) bool {
	switch x := a.o.(type) {
	case number:
		if b.isNum() {
			return a.n <= b.n
		}
	case *str:
		if y, ok := b.o.(*str); ok {
			l.st.workBytes(min(len(x.s), len(y.s)))
			return x.s <= y.s
		}
	}
	if kindName(a) == kindName(b) {
		if r, ok := l.order(a, b, tmLe); ok {
			return r
		}
		if r, ok := l.order(b, a, tmLt); ok {
			return !r
		}
	}
	l.orderError(a, b)
	return false
}

// Length and concatenation.

func (l *thread) length(v value, reg int) value {
	switch x := v.o.(type) {
	case *table:
		return num(float64(x.length(l.st)))
	case *str:
		return num(float64(len(x.s)))
	}
	tm := l.st.metamethod(v, tmLen)
	if tm.o == nil {
		l.typeError(v, reg, "get length of")
	}
	return l.call1(tm, v, vNil)
}

// concat joins n values of the stack from index first and leaves the result
// there. It works from the right and joins all adjacent strings at once.
func (l *thread) concat(first, n int) {
	for n > 1 {
		a, b := first+n-2, first+n-1
		s2, ok2 := toText(&l.stack[b])
		_, ok1 := toText(&l.stack[a])
		if !ok1 || !ok2 {
			l.concatMeta(a, b)
			n--
			continue
		}
		from := a
		for from > first {
			if !l.stack[from-1].isStr() && !l.stack[from-1].isNum() {
				break
			}
			from--
		}
		if from == a {
			s1, _ := toText(&l.stack[a])
			l.st.charge(strSize + len(s1) + len(s2))
			l.st.workBytes(len(s1) + len(s2))
			l.stack[a] = newStr(s1 + s2)
			n--
			continue
		}
		l.stack[from] = l.join(from, b)
		n = from - first + 1
	}
}

func (l *thread) concatMeta(a, b int) {
	x, y := l.stack[a], l.stack[b]
	tm := l.st.metamethod(x, tmConcat)
	if tm.o == nil {
		tm = l.st.metamethod(y, tmConcat)
	}
	if tm.o != nil {
		l.stack[a] = l.call1(tm, x, y)
		return
	}
	bad := a
	if x.isStr() || x.isNum() {
		bad = b
	}
	l.typeError(l.stack[bad], bad-l.ci.base, "concatenate")
}

// join is the text of strings and numbers from stack index a to b.
func (l *thread) join(a, b int) value {
	size := 0
	for i := a; i <= b; i++ {
		if s, ok := l.stack[i].o.(*str); ok {
			size += len(s.s)
		} else {
			size += 16
		}
	}
	l.st.charge(strSize + size)
	l.st.workBytes(size)
	var sb strings.Builder
	sb.Grow(size)
	var buf [32]byte
	for i := a; i <= b; i++ {
		if s, ok := l.stack[i].o.(*str); ok {
			sb.WriteString(s.s)
		} else {
			sb.Write(appendNumber(buf[:0], l.stack[i].n))
		}
	}
	return newStr(sb.String())
}

// toString is the function tostring.
func (l *thread) toString(v value) value {
	if tm := l.st.metamethod(v, tmToString); tm.o != nil {
		return l.call1(tm, v, vNil)
	}
	switch x := v.o.(type) {
	case *str:
		return v
	case number:
		return l.st.str(formatNumber(v.n))
	case truth:
		return value{o: constant("true")}
	case lie:
		return value{o: constant("false")}
	case nil:
		return value{o: constant("nil")}
	case *table:
		return l.st.str(address("table", x.id))
	case *luaFn:
		return l.st.str(address("function", x.id))
	case *goFn:
		return l.st.str(address("function", x.id))
	case *thread:
		return l.st.str(address("thread", x.id))
	}
	return l.st.str("userdata: (nil)")
}
