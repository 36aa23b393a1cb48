package lua

import (
	"math"
	"strconv"
	"strings"
)

// numberSize is enough for a number as text.
const numberSize = 32

// formatNumber is tostring of a number: C's %.14g.
func formatNumber(x float64) string {
	var buf [32]byte
	return string(appendNumber(buf[:0], x))
}

func appendNumber(b []byte, x float64) []byte {
	if i := int64(x); float64(i) == x && i > -1e14 && i < 1e14 && (i != 0 || !math.Signbit(x)) {
		return strconv.AppendInt(b, i, 10)
	}
	return appendG(b, x, 14)
}

// appendArg is how redis.call writes a number: C's %.17g.
func appendArg(b []byte, x float64) []byte {
	if i := int64(x); float64(i) == x && i > -1e17 && i < 1e17 && (i != 0 || !math.Signbit(x)) {
		return strconv.AppendInt(b, i, 10)
	}
	return appendG(b, x, 17)
}

// appendG is C's %.<prec>g.
func appendG(b []byte, x float64, prec int) []byte {
	switch {
	case math.IsNaN(x):
		if math.Signbit(x) {
			b = append(b, '-')
		}
		return append(b, "nan"...)
	case math.IsInf(x, 1):
		return append(b, "inf"...)
	case math.IsInf(x, -1):
		return append(b, "-inf"...)
	}
	return strconv.AppendFloat(b, x, 'g', prec, 64)
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool { return isAlpha(c) || isDigit(c) }

// digitVal is the value of a digit in bases up to 36; 255 for others.
func digitVal(c byte) uint {
	switch {
	case isDigit(c):
		return uint(c - '0')
	case isAlpha(c):
		return uint(c|0x20-'a') + 10
	}
	return 255
}

// parseNumber reads a whole string as a number, as C Lua does with strtod:
// spaces around, hexadecimal, inf and nan, and nothing after a zero byte.
func parseNumber(s string) (float64, bool) {
	if len(s) > 0 && len(s) < 16 { // the common case: a plain integer
		n, i := int64(0), 0
		for ; i < len(s) && isDigit(s[i]); i++ {
			n = n*10 + int64(s[i]-'0')
		}
		if i == len(s) {
			return float64(n), true
		}
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	x, n := strtod(s)
	if n == 0 {
		return 0, false
	}
	s = s[n:]
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	return x, len(s) == 0
}

// strtod reads the longest number at the start of s and says how many bytes
// it took, none if there is no number.
func strtod(s string) (x float64, n int) {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	start, neg := i, false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		neg = s[i] == '-'
		i++
	}
	rest := s[i:]
	switch {
	case len(rest) >= 3 && strings.EqualFold(rest[:3], "inf"):
		i += 3
		if len(rest) >= 8 && strings.EqualFold(rest[:8], "infinity") {
			i += 5
		}
		return signed(math.Inf(1), neg), i
	case len(rest) >= 3 && strings.EqualFold(rest[:3], "nan"):
		i += 3
		if j := nanTail(s[i:]); j > 0 {
			i += j
		}
		return signed(math.Float64frombits(0x7ff8000000000000), neg), i
	case len(rest) >= 2 && rest[0] == '0' && rest[1]|0x20 == 'x':
		if x, n := hexFloat(rest[2:]); n > 0 {
			return signed(x, neg), i + 2 + n
		}
		return signed(0, neg), i + 1
	}
	digits := 0
	for i < len(s) && isDigit(s[i]) {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && isDigit(s[i]) {
			i++
			digits++
		}
	}
	if digits == 0 {
		return 0, 0
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '-' || s[j] == '+') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for j < len(s) && isDigit(s[j]) {
				j++
			}
			i = j
		}
	}
	if digits > exactDigits+1 {
		x, _ = new(state).longNumber(s[start:i])
		return x, i
	}
	x, _ = strconv.ParseFloat(s[start:i], 64) // out of range gives ±Inf, as strtod
	return x, i
}

func nanTail(s string) int {
	if s == "" || s[0] != '(' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		if s[i] == ')' {
			return i + 1
		}
		if !isAlnum(s[i]) && s[i] != '_' {
			return 0
		}
	}
	return 0
}

func signed(x float64, neg bool) float64 {
	if neg {
		return -x
	}
	return x
}

// hexFloat reads what follows 0x, with an optional fraction and p exponent.
func hexFloat(s string) (x float64, n int) {
	i, digits := 0, 0
	for i < len(s) && digitVal(s[i]) < 16 {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		j := i + 1
		for j < len(s) && digitVal(s[j]) < 16 {
			j++
			digits++
		}
		if digits > 0 {
			i = j
		}
	}
	if digits == 0 {
		return 0, 0
	}
	text := "0x" + s[:i]
	if i < len(s) && s[i]|0x20 == 'p' {
		j := i + 1
		if j < len(s) && (s[j] == '-' || s[j] == '+') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for j < len(s) && isDigit(s[j]) {
				j++
			}
			text, i = text+s[i:j], j
			x, _ = strconv.ParseFloat(text, 64)
			return x, i
		}
	}
	x, _ = strconv.ParseFloat(text+"p0", 64)
	return x, i
}

// toInt64 is C's cast of a double to a 64-bit integer as x86 does it.
func toInt64(x float64) int64 {
	if x >= -9223372036854775808 && x < 9223372036854775808 {
		return int64(x)
	}
	return math.MinInt64
}

// castInt is C's cast from double straight to int on x86-64, as the "%c" of
// string.format and redis.set_repl do: what an int can't hold becomes the smallest one.
func castInt(x float64) int32 {
	if x > math.MinInt32-1 && x < math.MaxInt32+1 {
		return int32(x)
	}
	return math.MinInt32
}

// toInt32 is C's cast to int through a 64-bit integer, as luaL_checkint does.
func toInt32(x float64) int { return int(int32(toInt64(x))) }
