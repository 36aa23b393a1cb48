package engine

import (
	"github.com/redoubt-go/redoubt/internal/resp"
)

// The errors that many commands share.
const (
	errWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errSyntax     = "ERR syntax error"
	errNotInt     = "ERR value is not an integer or out of range"
	errNotFloat   = "ERR value is not a valid float"
	errNoKey      = "ERR no such key"
	errOutOfRange = "ERR index out of range"
	errOverflow   = "ERR increment or decrement would overflow"
	errTooLong    = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errPositive   = "ERR value is out of range, must be positive"
	errTimeout    = "ERR timeout is not a float or out of range"
)

func errorReply(msg string) []byte { return resp.AppendError(nil, msg) }

func (c *call) err(msg string)    { c.w = resp.AppendError(c.w, msg) }
func (c *call) ok()               { c.w = append(c.w, "+OK\r\n"...) }
func (c *call) status(s string)   { c.w = resp.AppendSimple(c.w, s) }
func (c *call) int(n int64)       { c.w = resp.AppendInt(c.w, n) }
func (c *call) null()             { c.w = resp.AppendNull(c.w, c.proto) }
func (c *call) nullArray()        { c.w = resp.AppendNullArray(c.w, c.proto) }
func (c *call) array(n int)       { c.w = resp.AppendArray(c.w, n) }
func (c *call) mapHead(n int)     { c.w = resp.AppendMap(c.w, c.proto, n) }
func (c *call) setHead(n int)     { c.w = resp.AppendSet(c.w, c.proto, n) }
func (c *call) pushHead(n int)    { c.w = resp.AppendPush(c.w, c.proto, n) }
func (c *call) verbatim(s string) { c.w = resp.AppendVerbatim(c.w, c.proto, "txt", s) }
func (c *call) syntax()           { c.err(errSyntax) }
func (c *call) wrongType()        { c.err(errWrongType) }
func (c *call) isRESP3() bool     { return c.proto == resp.RESP3 }
func (c *call) boolInt(v bool)    { c.int(b2i(v)) }

// bulk and str make the parts of all large replies.

func (c *call) bulk(b []byte) {
	c.room(len(b))
	c.w = resp.AppendBulk(c.w, b)
}

func (c *call) str(s string) {
	c.room(len(s))
	c.w = resp.AppendBulk(c.w, s)
}

func b2i(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// double writes a score: all 17 digits that a float64 may need.
func (c *call) double(f float64) {
	var buf [32]byte
	text := appendDouble(buf[:0], f)
	if !c.isRESP3() {
		c.bulk(text)
		return
	}
	c.w = append(c.w, ',')
	c.w = append(c.w, text...)
	c.w = append(c.w, '\r', '\n')
}

// A later is an aggregate whose length is known only when it is complete.
type later int

func (c *call) begin() later { return later(len(c.w)) }

// end inserts the head of an array of n elements before the elements, which begin at at.
func (c *call) end(at later, n int) {
	var buf [24]byte
	c.insert(at, resp.AppendArray(buf[:0], n))
}

// endMap is end for a map of n pairs.
func (c *call) endMap(at later, n int) {
	var buf [24]byte
	c.insert(at, resp.AppendMap(buf[:0], c.proto, n))
}

// insert puts head before the part of the reply that begins at at.
func (c *call) insert(at later, head []byte) {
	c.w = append(c.w, head...)
	copy(c.w[int(at)+len(head):], c.w[at:])
	copy(c.w[at:], head)
}
