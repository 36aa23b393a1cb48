package resp

import (
	"bytes"
	"fmt"
)

// MaxDepth is how deep replies may be nested. Redis itself nests a few levels.
const MaxDepth = 128

// maxReplyLine bounds a line that announces a length or a count.
const maxReplyLine = 64

// A ReplyScanner finds the end of one reply in a buffer without building its
// value: RESP2 and RESP3, aggregates, streamed strings and aggregates, pushes,
// and attributes, which belong to the reply that they precede. The zero value
// is ready. It is for one goroutine.
type ReplyScanner struct {
	pos   int // what was looked at
	seen  int // how far the line at pos was searched for its end
	depth int
	inRun bool  // between the chunks of a streamed string
	skip  int64 // bytes of a body still to come, whose beginning was discarded
	whole bool  // that body completes an element
	// left counts what is still to come on each level; streamed levels count
	// down from a negative number and end at ".".
	left [MaxDepth]int64
}

const streamed = -1

// Next looks for one reply at the beginning of buf. It returns its length in
// bytes, 0 while the reply is incomplete, or a [ProtocolError].
//
// While the reply is incomplete, the next call must be given a buffer that
// begins with the same bytes; it may be longer and elsewhere in memory.
func (s *ReplyScanner) Next(buf []byte) (int, error) {
	for {
		end, done := 0, s.whole
		if s.skip > int64(len(buf)-s.pos) {
			return 0, nil
		} else if s.skip > 0 {
			end = s.pos + int(s.skip)
			s.skip = 0
		} else {
			var err error
			if end, done, err = s.element(buf); err != nil {
				return 0, err
			}
		}
		if end == 0 {
			return 0, nil
		}
		s.pos, s.seen = end, 0
		if !done {
			continue
		}
		// One element is complete; it may complete the levels above it.
		for s.depth > 0 && s.left[s.depth-1] != streamed {
			s.left[s.depth-1]--
			if s.left[s.depth-1] > 0 {
				break
			}
			s.depth--
		}
		if s.depth == 0 {
			s.pos = 0
			return end, nil
		}
	}
}

// Discard gives up the beginning of a reply that is incomplete in buf. It returns how many
// bytes may be left out of the buffer that the next call of Next is given.
func (s *ReplyScanner) Discard(buf []byte) int {
	if s.skip == 0 && s.pos < len(buf) {
		switch typ := buf[s.pos]; typ {
		case '$', '=', '!', ';':
			if n, body, err := length(buf, s.pos+1); err == nil && body > 0 && n >= 0 {
				s.skip, s.whole, s.pos = n+2-int64(len(buf)-body), typ != ';', 0
				return len(buf)
			}
		}
	}
	if s.skip > 0 && s.pos == 0 {
		s.skip -= int64(len(buf))
		return len(buf)
	}
	n := s.pos
	s.pos, s.seen = 0, max(0, s.seen-n)
	return n
}

// element reads one scalar, or the head of an aggregate, at buf[s.pos:]. It
// returns the offset behind it, 0 when it is incomplete, and whether it
// completes an element of the level it is on.
func (s *ReplyScanner) element(buf []byte) (end int, done bool, err error) {
	if s.pos >= len(buf) {
		return 0, false, nil
	}
	at := s.pos
	typ := buf[at]
	if s.inRun && typ != ';' {
		return 0, false, ProtocolError("Protocol error: expected ';', got '" + printable(typ) + "'")
	}
	switch typ {
	case '+', '-', ':', '_', ',', '#', '(':
		end = lineEnd(buf, max(at+1, s.seen))
		if end == 0 {
			s.seen = len(buf)
		}
		return end, true, nil
	case '$', '=', '!':
		n, body, err := length(buf, at+1)
		if err != nil || body == 0 {
			return 0, false, err
		}
		if n == lengthStreamed {
			if typ != '$' {
				return 0, false, errBulkLength
			}
			s.inRun = true
			return body, false, nil
		}
		if n == -1 {
			return body, true, nil
		}
		end, err = bodyEnd(buf, body, n)
		return end, true, err
	case ';':
		if !s.inRun {
			return 0, false, unexpected(typ)
		}
		n, body, err := length(buf, at+1)
		if err != nil || body == 0 {
			return 0, false, err
		}
		if n < 0 {
			return 0, false, errBulkLength
		}
		if n == 0 {
			s.inRun = false
			return body, true, nil
		}
		end, err = bodyEnd(buf, body, n)
		return end, false, err
	case '*', '~', '>', '%', '|':
		return s.aggregate(buf, at, typ)
	case '.':
		if s.depth == 0 || s.left[s.depth-1] != streamed {
			return 0, false, unexpected(typ)
		}
		if at+3 > len(buf) {
			return 0, false, nil
		}
		if buf[at+1] != '\r' || buf[at+2] != '\n' {
			return 0, false, errExpectedCRLF
		}
		s.depth--
		return at + 3, true, nil
	}
	return 0, false, unexpected(typ)
}

func (s *ReplyScanner) aggregate(buf []byte, at int, typ byte) (end int, done bool, err error) {
	n, body, err := length(buf, at+1)
	if err != nil || body == 0 {
		return 0, false, err
	}
	switch {
	case n == lengthStreamed && typ != '|':
		n = streamed
	case n == lengthStreamed, n > 1<<31-1:
		return 0, false, errMultibulkLength
	case n == -1:
		return body, true, nil
	case n == 0 && typ == '|':
		return body, false, nil // no attributes; the reply itself follows
	case n == 0:
		return body, true, nil
	case typ == '%':
		n *= 2
	case typ == '|':
		n = 2*n + 1 // and the reply that they describe
	}
	if s.depth == MaxDepth {
		return 0, false, ProtocolError(fmt.Sprintf("Protocol error: reply nested deeper than %d", MaxDepth))
	}
	s.left[s.depth] = n
	s.depth++
	return body, false, nil
}

func unexpected(typ byte) error {
	return ProtocolError("Protocol error: unknown reply type '" + printable(typ) + "'")
}

// lineEnd returns the offset behind the CRLF that ends the line at buf[at:],
// or 0. A lone CR or LF inside is part of the line.
func lineEnd(buf []byte, at int) int {
	for at < len(buf) {
		i := bytes.IndexByte(buf[at:], '\n')
		if i < 0 {
			return 0
		}
		if end := at + i; buf[end-1] == '\r' {
			return end + 1
		}
		at += i + 1
	}
	return 0
}

// bodyEnd returns the offset behind n bytes and CRLF at buf[at:], or 0.
func bodyEnd(buf []byte, at int, n int64) (int, error) {
	if int64(len(buf)-at) < n+2 {
		return 0, nil
	}
	end := at + int(n)
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return 0, errExpectedCRLF
	}
	return end + 2, nil
}

const lengthStreamed = -2

// length reads a length and CRLF at buf[at:]: a number from -1 up, or "?",
// which gives lengthStreamed. The offset is 0 when the line is incomplete.
func length(buf []byte, at int) (n int64, end int, err error) {
	i := at
	for i < len(buf) && i < at+9 && buf[i] >= '0' && buf[i] <= '9' {
		n = n*10 + int64(buf[i]-'0')
		i++
	}
	if i > at && i+1 < len(buf) && buf[i] == '\r' && buf[i+1] == '\n' && (buf[at] != '0' || i == at+1) {
		return n, i + 2, nil
	}
	nl := bytes.IndexByte(buf[at:min(len(buf), at+maxReplyLine)], '\r')
	if nl < 0 {
		if len(buf)-at >= maxReplyLine {
			return 0, 0, errBulkLength
		}
		return 0, 0, nil
	}
	line := buf[at : at+nl]
	if at+nl+1 >= len(buf) {
		return 0, 0, nil
	}
	if buf[at+nl+1] != '\n' {
		return 0, 0, errExpectedCRLF
	}
	if len(line) == 1 && line[0] == '?' {
		return lengthStreamed, at + nl + 2, nil
	}
	n, ok := ParseInt(line)
	if !ok || n < -1 || n > 1<<40 {
		return 0, 0, errBulkLength
	}
	return n, at + nl + 2, nil
}
