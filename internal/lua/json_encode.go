package lua

import (
	"math"
)

// jsonConfig is cjson's configuration. It lasts for one run; in Redis it
// lasts until the server restarts, for every script.
type jsonConfig struct {
	sparseConvert  bool
	sparseRatio    int
	sparseSafe     int
	encodeMaxDepth int
	decodeMaxDepth int
	encodeInvalid  int // 0 refuse, 1 write, 2 write null
	decodeInvalid  bool
	keepBuffer     bool
	precision      int
}

var defaultJSON = jsonConfig{
	sparseRatio: 2, sparseSafe: 10, encodeMaxDepth: 1000, decodeMaxDepth: 1000,
	decodeInvalid: true, keepBuffer: true, precision: 14,
}

var jsonNull = value{o: &userdata{name: "null"}}

func (st *state) openJSON() {
	st.globals.setField(st, "cjson", value{o: st.jsonModule()})
}

func (st *state) jsonModule() *table {
	t := st.newTable(0, 16)
	st.register(t, map[string]native{
		"encode": jsonEncode, "decode": jsonDecode, "new": jsonNew,
		"encode_sparse_array":     jsonSparse,
		"encode_max_depth":        jsonIntOption(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.encodeMaxDepth }),
		"decode_max_depth":        jsonIntOption(1, math.MaxInt32, func(c *jsonConfig) *int { return &c.decodeMaxDepth }),
		"encode_number_precision": jsonIntOption(1, 14, func(c *jsonConfig) *int { return &c.precision }),
		"encode_keep_buffer":      jsonBoolOption(func(c *jsonConfig) *bool { return &c.keepBuffer }),
		"decode_invalid_numbers":  jsonBoolOption(func(c *jsonConfig) *bool { return &c.decodeInvalid }),
		"encode_invalid_numbers":  jsonInvalid,
	})
	t.setField(st, "null", jsonNull)
	t.setField(st, "_NAME", value{o: constant("cjson")})
	t.setField(st, "_VERSION", value{o: constant("2.1.0")})
	return t
}

func jsonNew(l *thread) int {
	l.pushTable(l.st.jsonModule())
	return 1
}

func (l *thread) maxArgs(n int) {
	if l.nargs() > n {
		l.argError(n+1, "found too many arguments")
	}
}

func (l *thread) intOption(i int, p *int, lo, hi int) {
	if v := l.arg(i); v.o != nil {
		n := l.checkInt(i)
		if n < lo || n > hi {
			l.argError(1, "expected integer between "+formatInt(lo)+" and "+formatInt(hi))
		}
		*p = n
	}
}

func formatInt(n int) string { return string(appendArg(nil, float64(n))) }

// enumOption is luaL_checkoption.
func (l *thread) enumOption(i int, options ...string) int {
	s := l.checkCString(i)
	for k, o := range options {
		if o == s {
			return k
		}
	}
	l.argError(i, "invalid option '"+s+"'")
	return 0
}

func (l *thread) boolOption(i int, p *bool) {
	switch v := l.arg(i); v.o.(type) {
	case nil:
	case truth, lie:
		*p = !v.falsy()
	default:
		*p = l.enumOption(i, "off", "on") == 1
	}
}

func jsonIntOption(lo, hi int, field func(*jsonConfig) *int) native {
	return func(l *thread) int {
		l.maxArgs(1)
		p := field(&l.st.json)
		l.intOption(1, p, lo, hi)
		l.pushNum(float64(*p))
		return 1
	}
}

func jsonBoolOption(field func(*jsonConfig) *bool) native {
	return func(l *thread) int {
		l.maxArgs(1)
		p := field(&l.st.json)
		l.boolOption(1, p)
		l.pushBool(*p)
		return 1
	}
}

func jsonSparse(l *thread) int {
	l.maxArgs(3)
	c := &l.st.json
	l.boolOption(1, &c.sparseConvert)
	l.intOption(2, &c.sparseRatio, 0, math.MaxInt32)
	l.intOption(3, &c.sparseSafe, 0, math.MaxInt32)
	l.pushBool(c.sparseConvert)
	l.pushNum(float64(c.sparseRatio))
	l.pushNum(float64(c.sparseSafe))
	return 3
}

func jsonInvalid(l *thread) int {
	l.maxArgs(1)
	c := &l.st.json
	switch v := l.arg(1); v.o.(type) {
	case nil:
	case truth:
		c.encodeInvalid = 1
	case lie:
		c.encodeInvalid = 0
	default:
		c.encodeInvalid = l.enumOption(1, "off", "on", "null")
	}
	if c.encodeInvalid == 2 {
		l.pushStr("null")
	} else {
		l.pushBool(c.encodeInvalid == 1)
	}
	return 1
}

// A jsonEncoder appends a value's JSON to out. slots counts the stack that
// the C library would use, which limits nesting before the depth does.
type jsonEncoder struct {
	l     *thread
	st    *state
	cfg   *jsonConfig
	out   []byte
	slots int
}

// shallow is a depth. Go's stack is counted only below it.
const shallow = 100

func jsonEncode(l *thread) int {
	if l.nargs() != 1 {
		l.argError(1, "expected 1 argument")
	}
	e := jsonEncoder{l: l, st: l.st, cfg: &l.st.json, slots: 1, out: l.st.scratch[:0]}
	v := l.arg(1)
	held := l.st.held
	e.value(&v, 0)
	l.push(l.st.bytes(e.out))
	l.st.held = held
	l.st.keepScratch(e.out)
	return 1
}

// room makes sure of n more bytes.
func (e *jsonEncoder) room(n int) { e.out = e.st.room(e.out, n) }

func (e *jsonEncoder) refuse(v *value, reason string) {
	e.l.errorf("Cannot serialise %s: %s", kindName(*v), reason)
}

func (e *jsonEncoder) value(v *value, depth int) {
	e.st.work(1)
	if cap(e.out)-len(e.out) < 2*numberSize {
		e.room(2 * numberSize)
	}
	switch x := v.o.(type) {
	case *str:
		e.str(x.s)
	case number:
		e.number(v)
	case truth:
		e.out = append(e.out, "true"...)
	case lie:
		e.out = append(e.out, "false"...)
	case nil, *userdata:
		e.out = append(e.out, "null"...)
	case *table:
		depth++
		if depth > e.cfg.encodeMaxDepth || e.slots+3 > maxCStack {
			e.l.errorf("Cannot serialise, excessive nesting (%d)", depth)
		}
		if depth > shallow {
			e.st.hold(goFrame)
		}
		e.st.workSlow(x.slots())
		if n := e.arrayLen(x); n > 0 {
			e.array(x, n, depth)
		} else {
			e.object(x, depth)
		}
		if depth > shallow {
			e.st.held -= goFrame
		}
	default:
		e.refuse(v, "type not supported")
	}
}

// arrayLen is the largest key of an array, or -1 for another table.
func (e *jsonEncoder) arrayLen(t *table) int {
	limit, items := 0, 0
	for i := range t.arr {
		if t.arr[i].o != nil {
			limit = i + 1
			items++
		}
	}
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.val.o == nil {
			continue
		}
		k := nd.key.n
		if !nd.key.isNum() || k < 1 || math.Floor(k) != k {
			return -1
		}
		if k > float64(limit) {
			limit = int(int32(toInt64(k)))
		}
		items++
	}
	c := e.cfg
	if c.sparseRatio > 0 && limit > items*c.sparseRatio && limit > c.sparseSafe {
		if !c.sparseConvert {
			e.l.errorf("Cannot serialise table: excessively sparse array")
		}
		return -1
	}
	return limit
}

func (e *jsonEncoder) array(t *table, n, depth int) {
	e.out = append(e.out, '[')
	e.slots++
	for i := 1; i <= n; i++ {
		if i > 1 {
			e.out = append(e.out, ',')
		}
		v := e.l.rawInt(t, i)
		e.value(&v, depth)
	}
	e.slots--
	e.room(numberSize)
	e.out = append(e.out, ']')
}

func (e *jsonEncoder) object(t *table, depth int) {
	e.out = append(e.out, '{')
	e.slots += 2
	first := true
	t.each(func(k, v value) {
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		switch x := k.o.(type) {
		case number:
			e.out = append(e.out, '"')
			e.number(&k)
			e.out = append(e.out, '"', ':')
		case *str:
			e.str(x.s)
			e.out = append(e.out, ':')
		default:
			e.refuse(&k, "table key must be a number or string")
		}
		e.value(&v, depth)
	})
	e.slots -= 2
	e.room(numberSize)
	e.out = append(e.out, '}')
}

func (e *jsonEncoder) number(v *value) {
	if math.IsInf(v.n, 0) || math.IsNaN(v.n) {
		switch {
		case e.cfg.encodeInvalid == 0:
			e.refuse(v, "must not be NaN or Inf")
		case e.cfg.encodeInvalid == 2:
			e.out = append(e.out, "null"...)
			return
		case math.IsNaN(v.n):
			e.out = append(e.out, "nan"...)
			return
		}
	}
	if e.cfg.precision == 14 {
		e.out = appendNumber(e.out, v.n)
		return
	}
	e.out = appendG(e.out, v.n, e.cfg.precision)
}

func (e *jsonEncoder) str(s string) {
	e.out = append(e.out, '"')
	for len(s) > stretch {
		e.part(s[:stretch])
		s = s[stretch:]
	}
	e.part(s)
	e.out = append(e.out, '"')
}

// part appends a part of a string, and leaves room for what stands between it
// and the next.
func (e *jsonEncoder) part(s string) {
	const hex = "0123456789abcdef"
	if len(s) > slowPerStep {
		e.st.work(len(s) / slowPerStep)
	}
	if cap(e.out)-len(e.out) < len(s)+numberSize {
		e.room(len(s) + numberSize)
	}
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 32 && c != '"' && c != '\\' && c != '/' && c != 127 {
			continue
		}
		e.out = append(e.out, s[from:i]...)
		from = i + 1
		e.room(len(s) - i + numberSize)
		switch c {
		case '"', '\\', '/':
			e.out = append(e.out, '\\', c)
		case '\b':
			e.out = append(e.out, `\b`...)
		case '\t':
			e.out = append(e.out, `\t`...)
		case '\n':
			e.out = append(e.out, `\n`...)
		case '\f':
			e.out = append(e.out, `\f`...)
		case '\r':
			e.out = append(e.out, `\r`...)
		default:
			e.out = append(e.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	e.out = append(e.out, s[from:]...)
}
