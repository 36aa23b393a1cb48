package lua

import (
	"strconv"
	"strings"
)

// Numerals may be as long as memory allows. Long ones are read in stretches,
// and written as short ones of the same value before strconv reads them.

// toNumber converts as arithmetic does: numbers, and strings that read as one.
func (st *state) toNumber(v *value) (float64, bool) {
	switch x := v.o.(type) {
	case number:
		return v.n, true
	case *str:
		if len(x.s) > stretch {
			return st.parseLong(x.s)
		}
		st.workSlow(len(x.s))
		return parseNumber(x.s)
	}
	return 0, false
}

// parseLong is parseNumber of a long text.
func (st *state) parseLong(s string) (float64, bool) {
	st.workBytes(len(s))
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	s = st.trimSpaces(s)
	if len(s) <= stretch {
		return parseNumber(s)
	}
	x, n := st.longNumber(s)
	return x, n == len(s) && n > 0
}

// trimSpaces takes the spaces from both ends.
func (st *state) trimSpaces(s string) string {
	s = s[st.span(s, isSpace):]
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		if s = s[:len(s)-1]; len(s)%stretch == 0 {
			st.workSlow(stretch)
		}
	}
	return s
}

// span is how many bytes at the start of s are of a class.
func (st *state) span(s string, class func(byte) bool) int {
	n := 0
	st.stretches(s, func(part string) bool {
		i := 0
		for i < len(part) && class(part[i]) {
			i++
		}
		n += i
		return i == len(part)
	})
	return n
}

// longNumber is strtod of a long text without spaces before it.
func (st *state) longNumber(s string) (x float64, n int) {
	signs := 0
	if s[0] == '-' || s[0] == '+' {
		signs = 1
	}
	if rest := s[signs:]; hasPrefixFold(rest, "nan(") {
		n := 4 + st.span(rest[4:], func(c byte) bool { return isAlnum(c) || c == '_' })
		x, _ := strtod(s[:signs+3])
		if n < len(rest) && rest[n] == ')' {
			return x, signs + n + 1
		}
		return x, signs + 3
	}
	d := numeral{short: make([]byte, 0, exactDigits+40), base: 10, perDigit: 1, marker: 'e'}
	d.short = append(d.short, s[:signs]...)
	if n = signs; len(s) > n+2 && s[n] == '0' && s[n+1]|0x20 == 'x' {
		d.short = append(d.short, "0x"...)
		d.base, d.perDigit, d.marker = 16, 4, 'p'
		n += 2
	}
	n += st.span(s[n:], d.add)
	if d.digits == 0 {
		return strtod(s[:min(len(s), 9)]) // inf, or none
	}
	if n < len(s) && s[n]|0x20 == d.marker {
		exp, used := st.exponent(s[n+1:])
		if used > 0 {
			d.scale += exp
			n += 1 + used
		}
	}
	x, _ = parseNumber(d.text())
	return x, n
}

// A numeral is the short form of a long one: the digits that decide its value.
type numeral struct {
	short    []byte
	base     uint
	perDigit int  // what a place is worth in the exponent
	marker   byte // of the exponent
	digits   int
	kept     int // in short
	scale    int // the exponent that makes up for what was left out
	point    bool
	rest     bool // a digit that was left out is not zero
}

// exactDigits is how many digits decide a value. One more says whether any of the others is
// not zero. strconv misplaces the point of numerals with more than 800.
const exactDigits = 780

// add takes the next byte and reports whether it belongs to the numeral.
func (d *numeral) add(c byte) bool {
	if c == '.' && !d.point {
		d.point = true
		return true
	}
	if digitVal(c) >= d.base {
		return false
	}
	d.digits++
	switch {
	case d.kept == 0 && c == '0': // a leading zero
	case d.kept < exactDigits:
		d.short = append(d.short, c)
		d.kept++
	default:
		d.rest = d.rest || c != '0'
		d.scale += d.perDigit
	}
	if d.point {
		d.scale -= d.perDigit
	}
	return true
}

func (d *numeral) text() string {
	if d.kept == 0 {
		d.short = append(d.short, '0')
	}
	if d.rest {
		d.short = append(d.short, '1')
		d.scale -= d.perDigit
	}
	return string(strconv.AppendInt(append(d.short, d.marker), int64(d.scale), 10))
}

// exponent reads what follows the e or p of a numeral, and says how many bytes it took. It
// returns no more than 1<<40: no numeral is long enough to make up for that.
func (st *state) exponent(s string) (exp, used int) {
	signs := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		signs = 1
	}
	used = st.span(s[signs:], func(c byte) bool {
		if !isDigit(c) {
			return false
		}
		exp = min(exp*10+int(c-'0'), 1<<40)
		return true
	})
	if used == 0 {
		return 0, 0
	}
	if signs == 1 && s[0] == '-' {
		exp = -exp
	}
	return exp, used + signs
}
