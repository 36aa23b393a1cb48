package lua

import "unicode/utf8"

type jsonToken int

const (
	jObjBegin jsonToken = iota
	jObjEnd
	jArrBegin
	jArrEnd
	jString
	jNumber
	jBoolean
	jNull
	jColon
	jComma
	jEnd
	jError
)

var jsonTokenNames = [...]string{"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN",
	"T_ARR_END", "T_STRING", "T_NUMBER", "T_BOOLEAN", "T_NULL", "T_COLON",
	"T_COMMA", "T_END"}

// A jsonDecoder reads JSON as cjson does, which takes more than JSON.
type jsonDecoder struct {
	l     *thread
	st    *state
	s     string
	pos   int
	depth int
	slots int
	tok   jsonToken
	at    int // where the token began
	text  string
	own   bool // text is not a part of s
	num   float64
	buf   []byte
}

func jsonDecode(l *thread) int {
	if l.nargs() != 1 {
		l.argError(1, "expected 1 argument")
	}
	d := jsonDecoder{l: l, st: l.st, s: l.checkStr(1), slots: 1}
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		l.errorf("JSON parser does not support UTF-16 or UTF-32")
	}
	held, building := l.st.held, len(l.st.building)
	d.next()
	v := d.value()
	d.next()
	if d.tok != jEnd {
		d.fail("the end")
	}
	l.push(v)
	l.st.settle(held, building)
	return 1
}

func (d *jsonDecoder) fail(want string) {
	found := d.text
	if d.tok != jError {
		found = jsonTokenNames[d.tok]
	}
	d.l.errorf("Expected %s but found %s at character %d", want, found, d.at+1)
}

func (d *jsonDecoder) bad(what string) {
	d.tok, d.at, d.text = jError, d.pos, what
}

// peek is the byte at an offset; 0 past the end, as in C.
func (d *jsonDecoder) peek(off int) byte {
	if d.pos+off < len(d.s) {
		return d.s[d.pos+off]
	}
	return 0
}

func (d *jsonDecoder) next() {
	c := d.peek(0)
	for c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		if d.pos++; d.pos%stretch == 0 {
			d.st.workSlow(stretch)
		}
		c = d.peek(0)
	}
	d.at = d.pos
	single := func(t jsonToken) {
		d.tok = t
		d.pos++
	}
	switch c {
	case '{':
		single(jObjBegin)
	case '}':
		single(jObjEnd)
	case '[':
		single(jArrBegin)
	case ']':
		single(jArrEnd)
	case ',':
		single(jComma)
	case ':':
		single(jColon)
	case 0:
		d.tok = jEnd
	case '"':
		d.str()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if !d.st.json.decodeInvalid && d.invalidNumber() {
			d.bad("invalid number")
			return
		}
		d.number()
	case 'f', 'i', 'I', 'n', 'N', 't', '+':
		rest := d.s[d.pos:]
		switch {
		case d.word("true"):
			d.tok, d.num = jBoolean, 1
		case d.word("false"):
			d.tok, d.num = jBoolean, 0
		case d.word("null"):
			d.tok = jNull
		case d.st.json.decodeInvalid && len(rest) > 0 && d.invalidNumber():
			d.number()
		default:
			d.bad("invalid token")
		}
	default:
		d.bad("invalid token")
	}
}

func (d *jsonDecoder) word(w string) bool {
	if len(d.s)-d.pos >= len(w) && d.s[d.pos:d.pos+len(w)] == w {
		d.pos += len(w)
		return true
	}
	return false
}

// invalidNumber finds forms that C reads as numbers and JSON does not have.
func (d *jsonDecoder) invalidNumber() bool {
	c, off := d.peek(0), 0
	if c == '+' {
		return true
	}
	if c == '-' {
		off = 1
		c = d.peek(1)
	}
	if c == '0' {
		c = d.peek(off + 1)
		return c|0x20 == 'x' || isDigit(c)
	}
	if c <= '9' {
		return false
	}
	rest := d.s[min(d.pos+off, len(d.s)):]
	return hasPrefixFold(rest, "inf") || hasPrefixFold(rest, "nan")
}

func (d *jsonDecoder) number() {
	rest := d.s[d.pos:]
	end := 0
	for len(rest) > stretch && end < stretch && numeralByte(rest[end]) {
		end++
	}
	var x float64
	n := 0
	if end < stretch {
		x, n = strtod(rest)
	} else {
		x, n = d.st.longNumber(rest)
	}
	if n == 0 {
		d.bad("invalid number")
		return
	}
	d.tok, d.num = jNumber, x
	d.pos += n
}

// numeralByte reports whether a numeral of any form may contain c.
func numeralByte(c byte) bool {
	return isAlnum(c) || c == '.' || c == '+' || c == '-' || c == '(' || c == '_'
}

func (d *jsonDecoder) str() {
	d.pos++
	from := d.pos
	end := from
	for i := from; i < len(d.s) && d.s[i] != '"' && d.s[i] != '\\' && d.s[i] != 0; i++ {
		if end = i + 1; end-from == stretch {
			d.st.workSlow(stretch)
			from += stretch
		}
	}
	from, d.pos = d.pos, end
	if d.peek(0) == '"' {
		d.tok, d.text, d.own = jString, d.s[from:d.pos], false
		d.pos++
		return
	}
	st := d.st
	d.buf = append(st.room(d.buf[:0], d.pos-from+numberSize), d.s[from:d.pos]...)
	for n := 0; ; n++ {
		if d.buf = st.room(d.buf, 8); n%stretch == stretch-1 {
			st.workSlow(2 * stretch)
		}
		c := d.peek(0)
		switch c {
		case '"':
			d.pos++
			st.charge(len(d.buf))
			d.tok, d.text, d.own = jString, string(d.buf), true
			return
		case 0:
			d.bad("unexpected end of string")
			return
		case '\\':
			switch c = d.peek(1); c {
			case '"', '\\', '/':
			case 'b':
				c = '\b'
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'f':
				c = '\f'
			case 'r':
				c = '\r'
			case 'u':
				if !d.unicode() {
					d.bad("invalid unicode escape code")
					return
				}
				continue
			default:
				d.bad("invalid escape code")
				return
			}
			d.pos++
		}
		d.buf = append(d.buf, c)
		d.pos++
	}
}

func (d *jsonDecoder) hex4(off int) int {
	n := 0
	for i := range 4 {
		v := digitVal(d.peek(off + i))
		if v > 15 {
			return -1
		}
		n = n<<4 | int(v)
	}
	return n
}

// unicode reads \uXXXX, or two of them for a surrogate pair.
func (d *jsonDecoder) unicode() bool {
	cp := d.hex4(2)
	if cp < 0 {
		return false
	}
	n := 6
	if cp&0xf800 == 0xd800 {
		if cp&0x400 != 0 || d.peek(6) != '\\' || d.peek(7) != 'u' {
			return false
		}
		low := d.hex4(8)
		if low < 0 || low&0xfc00 != 0xdc00 {
			return false
		}
		cp = ((cp&0x3ff)<<10 | low&0x3ff) + 0x10000
		n = 12
	}
	d.buf = utf8.AppendRune(d.buf, rune(cp))
	d.pos += n
	return true
}

func (d *jsonDecoder) value() value {
	d.st.work(1)
	switch d.tok {
	case jString:
		return d.string()
	case jNumber:
		return num(d.num)
	case jBoolean:
		return boolean(d.num != 0)
	case jNull:
		return jsonNull
	case jObjBegin:
		return d.object()
	case jArrBegin:
		return d.array()
	default:
		d.fail("value")
		return vNil
	}
}

func (d *jsonDecoder) string() value {
	if d.own {
		return d.st.str(d.text)
	}
	return d.st.part(d.s, d.text)
}

func (d *jsonDecoder) descend(slots int) {
	d.depth++
	if d.depth > d.st.json.decodeMaxDepth || d.slots+slots > maxCStack {
		d.l.errorf("Found too many nested data structures (%d) at character %d", d.depth, d.pos)
	}
}

func (d *jsonDecoder) ascend() {
	d.depth--
	d.st.endTable()
}

func (d *jsonDecoder) object() value {
	d.descend(3)
	t := d.st.beginTable()
	d.next()
	if d.tok == jObjEnd {
		d.ascend()
		return value{o: t}
	}
	d.slots += 2
	for {
		if d.tok != jString {
			d.fail("object key string")
		}
		key := d.string()
		d.next()
		if d.tok != jColon {
			d.fail("colon")
		}
		d.next()
		v := d.value()
		d.st.workKey(&key)
		*t.slot(d.st, key) = v
		d.next()
		if d.tok == jObjEnd {
			break
		}
		if d.tok != jComma {
			d.fail("comma or object end")
		}
		d.next()
	}
	d.slots -= 2
	d.ascend()
	return value{o: t}
}

func (d *jsonDecoder) array() value {
	d.descend(2)
	t := d.st.beginTable()
	d.next()
	if d.tok == jArrEnd {
		d.ascend()
		return value{o: t}
	}
	d.slots++
	for i := 1; ; i++ {
		v := d.value()
		*t.slotInt(d.st, i) = v
		d.next()
		if d.tok == jArrEnd {
			break
		}
		if d.tok != jComma {
			d.fail("comma or array end")
		}
		d.next()
	}
	d.slots--
	d.ascend()
	return value{o: t}
}
