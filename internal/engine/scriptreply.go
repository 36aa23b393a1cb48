package engine

import (
	"math/big"
	"strconv"

	"github.com/redoubt-go/redoubt/internal/lua"
	"github.com/redoubt-go/redoubt/internal/resp"
)

var _ lua.Writer = (*scriptReply)(nil)

// A scriptReply is a call that takes the reply of a script. When there is no room for all of
// it, the rest is dropped, and the call knows why.
type scriptReply call

func (r *scriptReply) Bulk(b []byte) {
	if r.fits(len(b)) {
		r.w = resp.AppendBulk(r.w, b)
	}
}

func (r *scriptReply) BulkString(s string) {
	if r.fits(len(s)) {
		r.w = resp.AppendBulk(r.w, s)
	}
}

// fits reports whether there is room for n more bytes.
func (r *scriptReply) fits(n int) bool {
	if r.unfit != "" {
		return false
	}
	if size := len(r.w) - r.from + n; size > r.roomy {
		r.unfit = (*call)(r).outgrow(size)
	}
	return r.unfit == ""
}

func (r *scriptReply) Null()            { (*call)(r).null() }
func (r *scriptReply) NullArray()       { (*call)(r).nullArray() }
func (r *scriptReply) Int(n int64)      { r.w = resp.AppendInt(r.w, n) }
func (r *scriptReply) Status(s string)  { r.w = resp.AppendSimple(r.w, s) }
func (r *scriptReply) Error(s string)   { r.w = resp.AppendError(r.w, s) }
func (r *scriptReply) Double(f float64) { (*call)(r).double(f) }
func (r *scriptReply) Bool(v bool)      { r.w = resp.AppendBool(r.w, r.proto, v) }
func (r *scriptReply) Array(n int)      { r.w = resp.AppendArray(r.w, n) }
func (r *scriptReply) Set(n int)        { r.w = resp.AppendSet(r.w, r.proto, n) }
func (r *scriptReply) Map(n int)        { r.w = resp.AppendMap(r.w, r.proto, n) }

func (r *scriptReply) BigNumber(digits string) {
	if r.proto != resp.RESP3 {
		r.BulkString(digits)
		return
	}
	r.w = append(append(append(r.w, '('), digits...), '\r', '\n')
}

func (r *scriptReply) Verbatim(format, s string) {
	for len(format) < 3 {
		format += " "
	}
	r.w = resp.AppendVerbatim(r.w, r.proto, format[:3], s)
}

// passReply gives a script the reply of one of its commands, which b begins with, and returns the
// rest of b.
func passReply(b []byte, r *lua.Reply) []byte {
	typ, line, rest := cutLine(b)
	switch typ {
	case '+':
		r.Status(string(line))
		return rest
	case '-':
		r.Error(string(line))
		return rest
	case '_':
		r.Null()
		return rest
	case '#':
		r.Bool(line[0] == 't')
		return rest
	case '(':
		if n, ok := new(big.Int).SetString(string(line), 10); ok {
			r.BigNumber(n.String())
		} else {
			r.Null()
		}
		return rest
	case ',':
		f, _ := strconv.ParseFloat(string(line), 64) // a command wrote it
		r.Double(f)
		return rest
	}
	n, _ := resp.ParseInt(line)
	switch {
	case typ == ':':
		r.Int(n)
		return rest
	case n < 0:
		r.Null()
		return rest
	case typ == '$':
		r.Bulk(rest[:n])
		return rest[n+2:]
	case typ == '=':
		r.Verbatim(string(rest[:3]), string(rest[4:n]))
		return rest[n+2:]
	case typ == '%':
		r.Map(int(n))
		n *= 2
	case typ == '~':
		r.Set(int(n))
	default:
		r.Array(int(n))
	}
	for range n {
		rest = passReply(rest, r)
	}
	return rest
}

// cutLine splits a reply into its type, the rest of its first line, and everything behind that.
func cutLine(b []byte) (typ byte, line, rest []byte) {
	n := 1
	for b[n] != '\r' {
		n++
	}
	return b[0], b[1:n], b[n+2:]
}
