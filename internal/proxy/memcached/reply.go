package memcached

import (
	"bytes"
	"errors"
)

// A replyScanner finds where the replies of a server end.
type replyScanner struct {
	at    int  // bytes of the reply that have been looked at
	need  int  // how many there must be before it goes on
	block bool // inside of a reply of several lines
}

// maxReplyLine is the greatest length of a line in a reply. A longer one is none
// of memcached's.
const maxReplyLine = 8 << 10

var (
	errReplyLine  = errors.New("a line of a reply is too long")
	errReplyValue = errors.New("a reply has a value that can't be understood")
	errReplyBlock = errors.New("a reply has a line that does not belong to it")
)

// next returns how much of buf is of the first reply, and whether it is all of the
// rest of it: of a reply of several values that is not complete, those are told
// that are. 0 says that there is more to come; buf must then begin with the same
// bytes again.
func (s *replyScanner) next(buf []byte) (n int, last bool, err error) {
	for {
		if len(buf) < s.need {
			return s.part()
		}
		end := bytes.IndexByte(buf[s.at:], '\n') + 1
		if end == 0 {
			if len(buf)-s.at > maxReplyLine {
				return 0, false, errReplyLine
			}
			return s.part()
		}
		line := buf[s.at : s.at+end]
		switch {
		case bytes.HasPrefix(line, []byte("VALUE ")):
			size, ok := valueSize(line)
			if !ok {
				return 0, false, errReplyValue
			}
			s.block = true
			if s.need = s.at + end + size + len(lineEnd); len(buf) < s.need {
				return s.part()
			}
			if string(buf[s.need-2:s.need]) != lineEnd {
				return 0, false, errReplyValue
			}
			s.at = s.need
		case bytes.HasPrefix(line, []byte("STAT ")):
			s.block = true
			s.at += end
		default:
			if s.block && string(line) != replyEnd && !isError(line) {
				return 0, false, errReplyBlock
			}
			n = s.at + end
			*s = replyScanner{}
			return n, true, nil
		}
	}
}

// part returns what has been looked at.
func (s *replyScanner) part() (int, bool, error) {
	n := s.at
	s.at = 0
	s.need = max(0, s.need-n)
	return n, false, nil
}

// valueSize returns the length that a line VALUE key flags bytes [unique] tells.
func valueSize(line []byte) (int, bool) {
	rest := bytes.TrimRight(line, lineEnd)
	var w []byte
	for range 4 {
		w, rest = word(rest)
	}
	n, ok := decimal(w, maxBytes)
	return int(n), ok //nolint:gosec // at most maxBytes
}

// isError reports whether a line of a reply is an error.
func isError(line []byte) bool {
	return bytes.HasPrefix(line, []byte("ERROR")) || bytes.HasPrefix(line, []byte("SERVER_ERROR")) ||
		bytes.HasPrefix(line, []byte("CLIENT_ERROR"))
}

// isLost reports whether the reply to a storage command says that the server did
// not take the value for one, and so for commands.
func isLost(line []byte) bool {
	return bytes.HasPrefix(line, []byte("ERROR")) || bytes.HasPrefix(line, []byte("CLIENT_ERROR bad"))
}
