package lua

import (
	"math/bits"
	"strings"
)

// The basic library, as Redis leaves it.

func (st *state) openBase() {
	g := st.globals
	st.register(g, map[string]native{
		"assert": baseAssert, "collectgarbage": baseCollect, "error": baseError,
		"gcinfo": baseGCInfo, "getmetatable": baseGetMeta, "load": baseLoad,
		"loadstring": baseLoadString, "next": baseNext, "pcall": basePcall,
		"rawequal": baseRawEqual, "rawget": baseRawGet, "rawset": baseRawSet,
		"select": baseSelect, "setmetatable": baseSetMeta,
		"tonumber": baseToNumber, "tostring": baseToString, "type": baseType,
		"unpack": baseUnpack, "xpcall": baseXpcall,
		"pairs": basePairs, "ipairs": baseIpairs,
	})
	st.nextFn, _ = g.field(constant("next")).o.(*goFn)
	step := &goFn{name: "ipairs", fn: ipairsStep, id: st.newID()}
	if f, ok := g.field(constant("ipairs")).o.(*goFn); ok {
		f.ups = []value{{o: step}}
	}
	g.setField(st, "_G", value{o: g})
	g.setField(st, "_VERSION", value{o: constant("Lua 5.1")})
}

func (st *state) register(t *table, fns map[string]native) {
	for name, fn := range fns {
		t.setField(st, name, value{o: &goFn{name: name, fn: fn, id: st.newID()}})
	}
}

func baseAssert(l *thread) int {
	v := l.checkAny(1)
	if v.falsy() {
		l.errorf("%s", cString(l.optStr(2, "assertion failed!")))
	}
	return l.nargs()
}

func baseCollect(l *thread) int {
	opts := []string{"stop", "restart", "collect", "count", "step", "setpause", "setstepmul"}
	opt := "collect"
	if l.arg(1).o != nil {
		opt = l.checkCString(1)
	}
	l.optInt(2, 0)
	for i, o := range opts {
		if o != opt {
			continue
		}
		switch i {
		case 3:
			l.pushNum(float64(l.st.mem) / 1024)
		case 4:
			l.pushBool(false)
		default:
			l.pushNum(0)
		}
		return 1
	}
	l.argError(1, "invalid option '"+opt+"'")
	return 0
}

func baseGCInfo(l *thread) int {
	l.pushNum(float64(l.st.mem / 1024))
	return 1
}

func baseError(l *thread) int {
	level := l.optInt(2, 1)
	v := l.arg(1)
	if s, ok := toText(&v); ok && level > 0 {
		v = l.prefixed(l.where(level), s)
	}
	l.throw(v)
	return 0
}

func baseGetMeta(l *thread) int {
	mt := l.st.metatable(l.checkAny(1))
	if mt == nil {
		l.push(vNil)
		return 1
	}
	if v := meta(mt, tmMetatable); v.o != nil {
		l.push(v)
	} else {
		l.pushTable(mt)
	}
	return 1
}

func baseSetMeta(l *thread) int {
	t := l.checkTable()
	v := l.arg(2)
	mt, ok := v.o.(*table)
	if !ok && (v.o != nil || l.none(2)) {
		l.argError(2, "nil or table expected")
	}
	if m := meta(t.meta, tmMetatable); m.o != nil {
		l.errorf("cannot change a protected metatable")
	}
	if t.readonly {
		l.fail("Attempt to modify a readonly table")
	}
	t.meta = mt
	l.setTop(1)
	return 1
}

// loadChunk leaves the compiled function, or nil and a message.
func (l *thread) loadChunk(src, name string) int {
	held := l.st.held
	p, _, err := compile(l.st, src, strings.Clone(name), l.ccalls)
	l.st.held = held
	if err != nil {
		l.push(vNil)
		l.pushStr(err.msg)
		return 2
	}
	l.st.charge(fnSize)
	l.push(value{o: &luaFn{p: p, id: l.st.newID()}})
	return 1
}

func baseLoadString(l *thread) int {
	s := l.checkStr(1)
	if l.none(2) || l.arg(2).o == nil {
		return l.loadChunk(s, l.checkCString(1))
	}
	return l.loadChunk(s, l.checkCString(2))
}

func baseLoad(l *thread) int {
	f := l.checkFn(1)
	name := cString(l.optStr(2, "=(load)"))
	held := l.st.held
	var src []byte
	for {
		fn := l.top
		l.push(f)
		var v value
		failed, errVal := l.protect(fn, 1, nil)
		if failed {
			l.push(vNil)
			l.push(errVal)
			return 2
		}
		v = l.stack[fn]
		l.top = fn
		if v.o == nil {
			break
		}
		s, ok := toText(&v)
		if !ok {
			l.push(vNil)
			l.pushStr("reader function must return a string")
			return 2
		}
		if s == "" {
			break
		}
		l.st.workBytes(len(s))
		src = append(l.st.room(src, len(s)), s...)
	}
	l.st.hold(len(src))
	n := l.loadChunk(string(src), name)
	l.st.held = held
	return n
}

func baseNext(l *thread) int {
	t := l.checkTable()
	k := l.arg(2)
	l.st.workKey(&k)
	key, val, ok, found := t.next(l.st, &k)
	if !found {
		l.fail("invalid key to 'next'")
	}
	l.push(key)
	if !ok {
		return 1
	}
	l.push(val)
	return 2
}

func basePairs(l *thread) int {
	t := l.checkTable()
	l.push(value{o: l.st.nextFn})
	l.pushTable(t)
	l.push(vNil)
	return 3
}

func baseIpairs(l *thread) int {
	t := l.checkTable()
	l.push(l.ci.nat.ups[0])
	l.pushTable(t)
	l.pushNum(0)
	return 3
}

func ipairsStep(l *thread) int {
	i := l.checkInt(2) + 1
	t := l.checkTable()
	p := t.getInt(i)
	if p == nil || p.o == nil {
		return 0
	}
	l.pushNum(float64(i))
	l.push(*p)
	return 2
}

// basePcall is Redis' own pcall: an error that is a table with a text in err
// becomes that text.
func basePcall(l *thread) int {
	fn := l.ci.base
	if l.none(1) {
		// C Lua calls what lies there: its own place holder.
		l.throwPcall()
		return 2
	}
	failed, v := l.protect(fn, multRet, nil)
	if failed {
		if t, ok := v.o.(*table); ok {
			if e := l.index(v, value{o: strErr}, -1); t != nil && (e.isStr() || e.isNum()) {
				v = e
			}
		}
		l.pushBool(false)
		l.push(v)
		return 2
	}
	n := l.top - fn
	l.push(vNil)
	copy(l.stack[fn+1:l.top], l.stack[fn:fn+n])
	l.stack[fn] = vTrue
	return n + 1
}

func (l *thread) throwPcall() {
	l.pushBool(false)
	l.pushStr("attempt to call a boolean value")
}

func baseXpcall(l *thread) int {
	l.checkAny(2)
	l.setTop(2)
	fn := l.ci.base
	h := l.arg(2)
	l.push(l.arg(1))
	failed, v := l.protect(fn+2, multRet, func(e *luaError) value { return l.handle(h, e.v) })
	if failed {
		l.pushBool(false)
		l.push(v)
		return 2
	}
	l.stack[fn+1] = vTrue
	return l.top - fn - 1
}

// handle runs an error handler over an error's value.
func (l *thread) handle(h, v value) value { return l.handleAgain(h, v, 10) }

// handleAgain gives an error of the handler to the handler, a few times.
func (l *thread) handleAgain(h, v value, times int) (out value) {
	ci, nframes, ccalls := l.ci, l.nframes, l.ccalls
	l.maxFrames += 400
	defer func() {
		l.maxFrames -= 400
		if r := recover(); r != nil {
			e, ok := r.(*luaError)
			if !ok || e.fatal {
				panic(r)
			}
			out = value{o: constant("error in error handling")}
			if times > 0 && !isOverflow(e.v) {
				l.ci, l.nframes, l.ccalls = ci, nframes, ccalls
				out = l.handleAgain(h, e.v, times-1)
			}
		}
	}()
	if !isFn(h) {
		return value{o: constant("error in error handling")}
	}
	if l.ci.cl != nil {
		l.top = l.ci.top
	}
	fn := l.top
	l.push(h)
	l.push(v)
	l.call(fn, 1)
	return l.stack[fn]
}

func isOverflow(v value) bool {
	s, ok := v.o.(*str)
	return ok && strings.HasSuffix(s.s, "stack overflow")
}

func baseRawEqual(l *thread) int {
	a, b := l.checkAny(1), l.checkAny(2)
	l.pushBool(l.st.rawEqual(&a, &b))
	return 1
}

func baseRawGet(l *thread) int {
	t := l.checkTable()
	k := l.checkAny(2)
	l.st.workKey(&k)
	l.push(t.get(k))
	return 1
}

func baseRawSet(l *thread) int {
	t := l.checkTable()
	k, v := l.checkAny(2), l.checkAny(3)
	*l.rawSlot(t, k) = v
	l.setTop(1)
	return 1
}

func baseSelect(l *thread) int {
	n := l.nargs()
	v := l.arg(1)
	if s, ok := v.o.(*str); ok && strings.HasPrefix(s.s, "#") {
		l.pushNum(float64(n - 1))
		return 1
	}
	i := l.checkInt(1)
	if i < 0 {
		i = n + i
	} else if i > n {
		i = n
	}
	if i < 1 {
		l.argError(1, "index out of range")
	}
	return n - i
}

func baseToNumber(l *thread) int {
	base := l.optInt(2, 10)
	if base == 10 {
		v := l.checkAny(1)
		if n, ok := l.st.toNumber(&v); ok {
			l.pushNum(n)
			return 1
		}
		l.push(vNil)
		return 1
	}
	s := l.checkCString(1)
	if base < 2 || base > 36 {
		l.argError(2, "base out of range")
	}
	if n, ok := l.st.parseBase(s, uint(base)); ok {
		l.pushNum(n)
	} else {
		l.push(vNil)
	}
	return 1
}

// parseBase is C's strtoul, with its overflow and its wrapping of negatives.
func (st *state) parseBase(s string, base uint) (float64, bool) {
	s = st.trimSpaces(s)
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digitVal(s[2]) < 16 {
		s = s[2:]
	}
	var n uint64
	over := false
	used := st.span(s, func(c byte) bool {
		d := digitVal(c)
		if d >= base {
			return false
		}
		hi, lo := bits.Mul64(n, uint64(base))
		sum, carry := bits.Add64(lo, uint64(d), 0)
		n, over = sum, over || hi+carry > 0
		return true
	})
	if used == 0 || used != len(s) {
		return 0, false
	}
	switch {
	case over:
		n = 1<<64 - 1
	case neg:
		n = -n
	}
	return float64(n), true
}

func baseToString(l *thread) int {
	l.push(l.toString(l.checkAny(1)))
	return 1
}

func baseType(l *thread) int {
	l.push(kindValues[kindName(l.checkAny(1))])
	return 1
}

func baseUnpack(l *thread) int {
	t := l.checkTable()
	i := l.optInt(2, 1)
	var e int
	if v := l.arg(3); v.o == nil {
		e = t.length(l.st)
	} else {
		e = l.checkInt(3)
	}
	if i > e {
		return 0
	}
	n := e - i + 1
	if n <= 0 || n > maxCStack || !l.roomFor(n) {
		l.errorf("too many results to unpack")
	}
	l.need(n)
	for ; i <= e; i++ {
		if p := t.getInt(i); p != nil {
			l.stack[l.top] = *p
		} else {
			l.stack[l.top] = vNil
		}
		l.top++
	}
	return n
}

var kindValues = func() map[string]value {
	m := map[string]value{}
	for _, k := range []string{"nil", "number", "boolean", "string", "table", "function", "thread", "userdata"} {
		m[k] = value{o: libName(k)}
	}
	return m
}()
