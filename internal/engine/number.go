package engine

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/resp"
)

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func parseInt(b []byte) (int64, bool) { return resp.ParseInt(b) }

// argInt reads an integer argument and writes the error when it is none.
func (c *call) argInt(b []byte) (int64, bool) {
	n, ok := parseInt(b)
	if !ok {
		c.err(errNotInt)
	}
	return n, ok
}

// mostDigits bounds the text of a number.
const mostDigits = 5 << 10

// parseFloat reads a number as strtod does, without the forms that Redis
// refuses: leading space, NaN, trailing bytes, out of range.
func parseFloat(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > mostDigits {
		return 0, false
	}
	s := cFloat(string(b))
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	if f == 0 && strings.ContainsAny(s, "123456789") && underflows(s) {
		return 0, false
	}
	return f, true
}

// underflows says whether a number that was read as 0 is not 0.
func underflows(s string) bool {
	mantissa := strings.ToLower(s)
	if i := strings.IndexAny(mantissa, "ep"); i >= 0 && !strings.Contains(mantissa, "x") {
		mantissa = mantissa[:i]
	}
	return strings.ContainsAny(mantissa, "123456789")
}

// cFloat rewrites C's hexadecimal numbers, whose exponent is optional, for Go.
func cFloat(s string) string {
	t := strings.TrimLeft(s, "+-")
	if len(t) > 2 && t[0] == '0' && (t[1] == 'x' || t[1] == 'X') && !strings.ContainsAny(t, "pP") {
		return s + "p0"
	}
	return s
}

// appendDouble writes a float as C's %.17g does.
func appendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		if f == 0 && math.Signbit(f) {
			return append(dst, "-0"...)
		}
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', 17, 64)
}

// A longDouble is the 80-bit number of x86 that Redis computes INCRBYFLOAT
// with: 64 bits of mantissa.
type longDouble = big.Float

const longPrecision = 64

// parseLong reads a long double. inf is not accepted by the callers, but is a
// number.
func parseLong(b []byte) (*longDouble, bool) {
	if len(b) == 0 || len(b) > mostDigits || strings.IndexByte(string(b), '_') >= 0 {
		return nil, false
	}
	s := cFloat(string(b))
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "inf", "infinity":
		return new(big.Float).SetInf(s[0] == '-'), true
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		if !errors.Is(err, strconv.ErrRange) {
			return nil, false
		}
	}
	// Exponents far beyond the range would be computed digit by digit.
	if i := strings.LastIndexAny(s, "eE"); i >= 0 && !strings.ContainsAny(s, "xX") {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > 4932 || e < -5200 {
			return nil, false
		}
	}
	f, _, err := big.ParseFloat(s, 0, longPrecision, big.ToNearestEven)
	if err != nil {
		f, _, err = big.ParseFloat(s, 10, longPrecision, big.ToNearestEven)
	}
	return f, err == nil && (f.Sign() == 0 || fitsLong(f) && f.MantExp(nil) > leastLongExp)
}

// The ends of the exponent of a longDouble. A big.Float's exponent goes to 2^31, and
// writing the digits of such a number would take hours.
const (
	mostLongExp  = 16384
	leastLongExp = -16445
)

// fitsLong reports whether a finite number is not too large for a longDouble.
func fitsLong(f *longDouble) bool { return f.MantExp(nil) <= mostLongExp }

// formatLong writes a long double as C's %.17Lf without the zeros at the end.
func formatLong(f *longDouble) []byte {
	text := f.Append(nil, 'f', 17)
	end := len(text)
	for end > 0 && text[end-1] == '0' {
		end--
	}
	if end > 0 && text[end-1] == '.' {
		end--
	}
	text = text[:end]
	if string(text) == "-0" {
		return text[1:]
	}
	return text
}
