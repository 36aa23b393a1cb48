package resp

import (
	"bytes"
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// The types that [Parse] gives beside nil, int64, string, float64, bool,
// *big.Int and []any.
type (
	// An Error is an error reply, with its text as it was sent.
	Error string
	// A Map is the keys and values of a map in turn, in the order sent. Keys
	// may be of any type, so it can't be a Go map.
	Map []any
	// A Set is the elements of a set in the order sent.
	Set []any
	// A Push is a message outside the order of replies.
	Push []any
	// A Verbatim is a text with its format, like txt or mkd.
	Verbatim struct{ Format, Text string }
)

func (e Error) Error() string { return string(e) }

// Code returns the first word of the error, like "WRONGTYPE" or "NOSCRIPT".
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// ErrIncomplete is returned by [Parse] for a reply that goes on behind the end
// of the buffer.
var ErrIncomplete = errors.New("resp: reply is incomplete")

// Parse builds the value of the reply at the beginning of buf and returns its
// length in bytes. The value shares no memory with buf. Statuses and bulk
// strings both give a string, all nulls give nil, attributes are dropped.
//
// A malformed reply gives a [ProtocolError].
func Parse(buf []byte) (any, int, error) {
	var s ReplyScanner
	n, err := s.Next(buf)
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return nil, 0, ErrIncomplete
	}
	p := parser{buf: buf[:n]}
	v, err := p.value()
	if err != nil {
		return nil, 0, err
	}
	return v, n, nil
}

// A parser walks a reply that a ReplyScanner accepted, so that lengths are
// known to be in range and the depth to be bounded.
type parser struct {
	buf []byte
	at  int
}

// line returns what stands between the type byte and CRLF, and goes behind it.
func (p *parser) line() []byte {
	end := lineEnd(p.buf, p.at+1)
	l := p.buf[p.at+1 : end-2]
	p.at = end
	return l
}

func (p *parser) value() (any, error) {
	typ := p.buf[p.at]
	l := p.line()
	switch typ {
	case '+':
		return string(l), nil
	case '-':
		return Error(l), nil
	case ':':
		n, err := strconv.ParseInt(string(l), 10, 64)
		if err != nil {
			return nil, ProtocolError("Protocol error: invalid integer")
		}
		return n, nil
	case '_':
		return nil, nil
	case ',':
		f, err := strconv.ParseFloat(string(l), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, ProtocolError("Protocol error: invalid double")
		}
		return f, nil
	case '#':
		if len(l) != 1 || (l[0] != 't' && l[0] != 'f') {
			return nil, ProtocolError("Protocol error: invalid boolean")
		}
		return l[0] == 't', nil
	case '(':
		// A limit, since the time to read a number grows faster than its
		// length.
		if len(l) > 4096 {
			return nil, ProtocolError("Protocol error: big number too long")
		}
		n, ok := new(big.Int).SetString(string(l), 10)
		if !ok {
			return nil, ProtocolError("Protocol error: invalid big number")
		}
		return n, nil
	case '$', '=', '!':
		return p.bulk(typ, l), nil
	case '|':
		n, _ := ParseInt(l)
		for range 2 * n {
			if _, err := p.value(); err != nil {
				return nil, err
			}
		}
		return p.value()
	}
	return p.aggregate(typ, l)
}

func (p *parser) bulk(typ byte, l []byte) any {
	if len(l) == 1 && l[0] == '?' {
		return p.chunks()
	}
	n, _ := ParseInt(l)
	if n < 0 {
		return nil
	}
	body := p.buf[p.at : p.at+int(n)]
	p.at += int(n) + 2
	switch typ {
	case '!':
		return Error(body)
	case '=':
		if len(body) >= 4 && body[3] == ':' {
			return Verbatim{Format: string(body[:3]), Text: string(body[4:])}
		}
		return Verbatim{Text: string(body)}
	}
	return string(body)
}

func (p *parser) chunks() string {
	var b bytes.Buffer
	for {
		n, _ := ParseInt(p.line())
		if n == 0 {
			return b.String()
		}
		b.Write(p.buf[p.at : p.at+int(n)])
		p.at += int(n) + 2
	}
}

func (p *parser) aggregate(typ byte, l []byte) (any, error) {
	var vs []any
	if len(l) == 1 && l[0] == '?' {
		vs = []any{}
		for p.buf[p.at] != '.' {
			v, err := p.value()
			if err != nil {
				return nil, err
			}
			vs = append(vs, v)
		}
		p.line()
	} else {
		n, _ := ParseInt(l)
		if n < 0 {
			return nil, nil
		}
		if typ == '%' {
			n *= 2
		}
		vs = make([]any, n) // no more than the buffer has bytes
		for i := range vs {
			var err error
			if vs[i], err = p.value(); err != nil {
				return nil, err
			}
		}
	}
	switch typ {
	case '%':
		return Map(vs), nil
	case '~':
		return Set(vs), nil
	case '>':
		return Push(vs), nil
	}
	return vs, nil
}
