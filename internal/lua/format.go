package lua

import (
	"math"
	"strconv"
	"strings"
)

// A spec is one conversion of string.format.
type spec struct {
	minus, plus, space, alt, zero bool
	width, prec                   int // prec -1: not given
}

// strFormatFn is string.format: C's printf, one conversion at a time.
func strFormatFn(l *thread) int {
	f := l.checkStr(1)
	out := l.st.scratch[:0]
	held := l.st.held
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			n := strings.IndexByte(f[i:min(len(f), i+stretch)], '%')
			if n < 0 {
				n = min(len(f)-i, stretch)
			}
			l.st.workBytes(n)
			out = append(l.st.room(out, n), f[i:i+n]...)
			i += n - 1
			continue
		}
		l.st.work(1)
		out = l.st.room(out, widest)
		i++
		if i < len(f) && f[i] == '%' {
			out = append(out, '%')
			continue
		}
		if arg++; arg > l.nargs() {
			l.argError(arg, "no value")
		}
		var sp spec
		i = l.readSpec(f, i, &sp)
		var c byte
		if i < len(f) {
			c = f[i]
		}
		switch c {
		case 'c':
			item := sp.pad(nil, "", string([]byte{byte(castInt(l.checkNum(arg)))}), false)
			out = append(out, cString(string(item))...)
		case 'd', 'i':
			out = sp.integer(out, toInt64(l.checkNum(arg)))
		case 'u':
			sp.plus, sp.space = false, false
			out = sp.unsigned(out, toUint64(l.checkNum(arg)), 10, "", false)
		case 'o':
			sp.plus, sp.space = false, false
			out = sp.octal(out, toUint64(l.checkNum(arg)))
		case 'x', 'X':
			sp.plus, sp.space = false, false
			n, prefix := toUint64(l.checkNum(arg)), ""
			if sp.alt && n != 0 {
				prefix = "0" + string(c)
			}
			out = sp.unsigned(out, n, 16, prefix, c == 'X')
		case 'e', 'E', 'f', 'g', 'G':
			out = sp.float(out, l.checkNum(arg), c)
		case 'q':
			out = l.st.appendQuoted(out, l.checkStr(arg))
		case 's':
			s := l.checkStr(arg)
			l.st.workBytes(len(s))
			if sp.prec < 0 && len(s) >= 100 {
				out = append(l.st.room(out, len(s)), s...)
				break
			}
			s = cString(s)
			if sp.prec >= 0 && len(s) > sp.prec {
				s = s[:sp.prec]
			}
			out = sp.pad(out, "", s, false)
		default:
			l.errorf("invalid option '%%%s' to 'format'", cString(string([]byte{c})))
		}
	}
	l.push(l.st.bytes(out))
	l.st.held = held
	l.st.keepScratch(out)
	return 1
}

// widest is more than any conversion of a number makes.
const widest = 512

const mostScratch = 1 << 14

// keepScratch keeps a buffer for the next result, unless it is large. A
// native that calls Lua must not use it.
func (st *state) keepScratch(b []byte) {
	if cap(b) <= mostScratch {
		st.scratch = b[:0]
	}
}

// toUint64 is C's cast of a double to an unsigned 64-bit integer as compiled
// for x86.
func toUint64(x float64) uint64 {
	if x >= 9223372036854775808 {
		return uint64(toInt64(x-9223372036854775808)) ^ 1<<63
	}
	return uint64(toInt64(x))
}

// readSpec reads flags, width and precision and returns the position of the
// conversion's letter.
func (l *thread) readSpec(f string, i int, sp *spec) int {
	start := i
	for i < len(f) && strings.IndexByte("-+ #0", f[i]) >= 0 {
		switch f[i] {
		case '-':
			sp.minus = true
		case '+':
			sp.plus = true
		case ' ':
			sp.space = true
		case '#':
			sp.alt = true
		case '0':
			sp.zero = true
		}
		i++
	}
	if i-start >= 6 {
		l.errorf("invalid format (repeated flags)")
	}
	two := func() int {
		n := 0
		for k := 0; k < 2 && i < len(f) && isDigit(f[i]); k++ {
			n = n*10 + int(f[i]-'0')
			i++
		}
		return n
	}
	sp.width, sp.prec = two(), -1
	if i < len(f) && f[i] == '.' {
		i++
		sp.prec = two()
	}
	if i < len(f) && isDigit(f[i]) {
		l.errorf("invalid format (width or precision too long)")
	}
	return i
}

// pad appends sign and digits, filled up to the width.
func (sp *spec) pad(out []byte, sign, body string, zeros bool) []byte {
	fill := sp.width - len(sign) - len(body)
	switch {
	case fill <= 0:
		return append(append(out, sign...), body...)
	case sp.minus:
		out = append(append(out, sign...), body...)
		return append(out, strings.Repeat(" ", fill)...)
	case sp.zero && zeros:
		out = append(out, sign...)
		return append(append(out, strings.Repeat("0", fill)...), body...)
	}
	out = append(out, strings.Repeat(" ", fill)...)
	return append(append(out, sign...), body...)
}

func (sp *spec) sign(neg bool) string {
	switch {
	case neg:
		return "-"
	case sp.plus:
		return "+"
	case sp.space:
		return " "
	}
	return ""
}

func (sp *spec) digits(s string) string {
	if sp.prec == 0 && s == "0" {
		return ""
	}
	if len(s) < sp.prec {
		s = strings.Repeat("0", sp.prec-len(s)) + s
	}
	return s
}

func (sp *spec) integer(out []byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	return sp.pad(out, sp.sign(n < 0), sp.digits(strconv.FormatUint(u, 10)), sp.prec < 0)
}

func (sp *spec) unsigned(out []byte, n uint64, base int, prefix string, upper bool) []byte {
	s := strconv.FormatUint(n, base)
	if upper {
		s = strings.ToUpper(s)
	}
	return sp.pad(out, prefix, sp.digits(s), sp.prec < 0)
}

func (sp *spec) octal(out []byte, n uint64) []byte {
	s := sp.digits(strconv.FormatUint(n, 8))
	if sp.alt && !strings.HasPrefix(s, "0") {
		s = "0" + s
	}
	return sp.pad(out, "", s, sp.prec < 0)
}

func (sp *spec) float(out []byte, x float64, c byte) []byte {
	upper := c == 'E' || c == 'G'
	sign := sp.sign(math.Signbit(x))
	if math.IsNaN(x) || math.IsInf(x, 0) {
		s := "inf"
		if math.IsNaN(x) {
			s = "nan"
		}
		if upper {
			s = strings.ToUpper(s)
		}
		return sp.pad(out, sign, s, false)
	}
	x = math.Abs(x)
	if sp.width == 0 && !sp.alt && !upper {
		prec := sp.prec
		switch {
		case prec < 0:
			prec = 6
		case prec == 0 && c == 'g':
			prec = 1
		}
		return strconv.AppendFloat(append(out, sign...), x, c, prec, 64)
	}
	prec := sp.prec
	if prec < 0 {
		prec = 6
	}
	var s string
	switch c | 0x20 {
	case 'e', 'f':
		s = strconv.FormatFloat(x, c|0x20, prec, 64)
		if sp.alt && prec == 0 {
			s = insertPoint(s)
		}
	default:
		prec = max(prec, 1)
		if sp.alt {
			s = alternateG(x, prec)
		} else {
			s = strconv.FormatFloat(x, 'g', prec, 64)
		}
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return sp.pad(out, sign, s, true)
}

func insertPoint(s string) string {
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// alternateG is %#g, which keeps trailing zeros.
func alternateG(x float64, prec int) string {
	e := strconv.FormatFloat(x, 'e', prec-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= prec {
		if prec == 1 {
			return insertPoint(e)
		}
		return e
	}
	s := strconv.FormatFloat(x, 'f', prec-1-exp, 64)
	if !strings.Contains(s, ".") {
		s += "."
	}
	return s
}

// appendQuoted is %q: a string as Lua source.
func (st *state) appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	st.stretches(s, func(part string) bool {
		out = st.room(out, 4*len(part)+1)
		for i := range len(part) {
			switch c := part[i]; c {
			case '"', '\\', '\n':
				out = append(out, '\\', c)
			case '\r':
				out = append(out, `\r`...)
			case 0:
				out = append(out, `\000`...)
			default:
				out = append(out, c)
			}
		}
		return true
	})
	return append(out, '"')
}
