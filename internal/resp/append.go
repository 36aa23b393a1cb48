package resp

import (
	"math"
	"math/big"
	"strconv"
)

// A Protocol is a version of RESP.
type Protocol uint8

// The two versions in use. A connection begins in RESP2 and changes with
// HELLO 3.
const (
	RESP2 Protocol = 2
	RESP3 Protocol = 3
)

func appendHeader(dst []byte, typ byte, n int) []byte {
	dst = append(dst, typ)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// AppendArray appends the head of an array of n elements. The elements follow.
func AppendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', n) }

// AppendMap appends the head of a map of n pairs, which is an array of 2n
// elements in RESP2. Keys and values follow.
func AppendMap(dst []byte, p Protocol, n int) []byte {
	if p == RESP3 {
		return appendHeader(dst, '%', n)
	}
	return appendHeader(dst, '*', 2*n)
}

// AppendSet appends the head of a set of n elements, which is an array in
// RESP2. The elements follow.
func AppendSet(dst []byte, p Protocol, n int) []byte {
	if p == RESP3 {
		return appendHeader(dst, '~', n)
	}
	return appendHeader(dst, '*', n)
}

// AppendPush appends the head of a push of n elements, which is an array in
// RESP2. The elements follow.
func AppendPush(dst []byte, p Protocol, n int) []byte {
	if p == RESP3 {
		return appendHeader(dst, '>', n)
	}
	return appendHeader(dst, '*', n)
}

// AppendBulk appends a binary-safe string.
func AppendBulk[T string | []byte](dst []byte, s T) []byte {
	dst = appendHeader(dst, '$', len(s))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte {
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

// AppendSimple appends a status, like OK. CR and LF in s become spaces.
func AppendSimple(dst []byte, s string) []byte { return appendLine(dst, '+', s) }

// AppendError appends an error. Its first word is its code by convention,
// like ERR or WRONGTYPE. CR and LF in s become spaces.
func AppendError(dst []byte, s string) []byte { return appendLine(dst, '-', s) }

func appendLine(dst []byte, typ byte, s string) []byte {
	dst = append(dst, typ)
	at := len(dst)
	dst = append(dst, s...)
	for i := at; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return append(dst, '\r', '\n')
}

// AppendNull appends the absence of a value: in RESP2 the null bulk string.
func AppendNull(dst []byte, p Protocol) []byte {
	if p == RESP3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// AppendNullArray appends the absence of an array, which in RESP3 is no
// different from the absence of anything else.
func AppendNullArray(dst []byte, p Protocol) []byte {
	if p == RESP3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}

// AppendBool appends a boolean, which is 1 or 0 in RESP2.
func AppendBool(dst []byte, p Protocol, v bool) []byte {
	switch {
	case p == RESP3 && v:
		return append(dst, "#t\r\n"...)
	case p == RESP3:
		return append(dst, "#f\r\n"...)
	case v:
		return append(dst, ":1\r\n"...)
	}
	return append(dst, ":0\r\n"...)
}

// AppendDouble appends a floating-point number, which is a string in RESP2.
func AppendDouble(dst []byte, p Protocol, f float64) []byte {
	var text [32]byte
	var s []byte
	switch {
	case math.IsInf(f, 1):
		s = append(text[:0], "inf"...)
	case math.IsInf(f, -1):
		s = append(text[:0], "-inf"...)
	case math.IsNaN(f):
		s = append(text[:0], "nan"...)
	default:
		s = strconv.AppendFloat(text[:0], f, 'g', -1, 64)
	}
	if p != RESP3 {
		return AppendBulk(dst, s)
	}
	dst = append(dst, ',')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendVerbatim appends a text with its format, three letters like txt. In
// RESP2 it is a plain string.
func AppendVerbatim(dst []byte, p Protocol, format, s string) []byte {
	if p != RESP3 {
		return AppendBulk(dst, s)
	}
	dst = appendHeader(dst, '=', len(s)+4)
	dst = append(dst, (format + "   ")[:3]...)
	dst = append(dst, ':')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendBig appends an integer of any size, which is a string in RESP2.
func AppendBig(dst []byte, p Protocol, n *big.Int) []byte {
	if p != RESP3 {
		return AppendBulk(dst, n.String())
	}
	dst = append(dst, '(')
	dst = n.Append(dst, 10)
	return append(dst, '\r', '\n')
}

// AppendCommand appends a command: an array of strings, its name first.
func AppendCommand[T string | []byte](dst []byte, args ...T) []byte {
	dst = AppendArray(dst, len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}
