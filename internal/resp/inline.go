package resp

import "bytes"

// nextInline reads a command sent as a line of text, as people do over
// telnet: words separated by blanks, with "double quotes" that know escapes
// and 'single quotes' that know only \'. The line ends at LF; a CR before it
// is dropped.
func (s *CommandScanner) nextInline(buf []byte) (int, error) {
	i := bytes.IndexByte(buf[s.pos:], '\n')
	if i < 0 {
		if len(buf) > s.limits.MaxInline {
			return 0, errInlineTooBig
		}
		s.pos = len(buf)
		return 0, nil
	}
	end := s.pos + i
	if end > s.limits.MaxInline {
		return 0, errInlineTooBig
	}
	s.pos = 0
	line := bytes.TrimSuffix(buf[:end], []byte("\r"))
	s.isInline = true
	s.spans, s.inline = s.spans[:0], s.inline[:0]
	if !s.split(line) {
		return 0, errUnbalancedQuotes
	}
	if s.Unauthenticated == NotAuthenticated && len(s.spans) > unauthenticatedArgs {
		return 0, errUnauthMultibulk
	}
	if len(s.spans) > s.limits.MaxArgs {
		return 0, errMultibulkLength
	}
	for _, sp := range s.spans {
		s.args = append(s.args, s.inline[sp.from:sp.to:sp.to])
	}
	return end + 1, nil
}

// Words splits a line as [CommandScanner] splits a command that is sent as text. It reports false for quotes that
// don't end, or that end in the middle of a word.
func Words(line []byte) (words [][]byte, ok bool) {
	var s CommandScanner
	if !s.split(line) {
		return nil, false
	}
	for _, sp := range s.spans {
		words = append(words, s.inline[sp.from:sp.to:sp.to])
	}
	return words, true
}

func blank(c byte) bool { return c == ' ' || (c >= '\t' && c <= '\r') }

// split unquotes the words of line into s.inline and their places into
// s.spans. It reports false for quotes that don't end, or that end in the
// middle of a word.
func (s *CommandScanner) split(line []byte) bool {
	for i := 0; ; {
		for i < len(line) && (blank(line[i]) || line[i] == 0) {
			if line[i] == 0 { // as in C, where the line ends here
				return true
			}
			i++
		}
		if i == len(line) {
			return true
		}
		from := len(s.inline)
		next, ok := s.word(line, i)
		if !ok {
			return false
		}
		i = next
		s.spans = append(s.spans, span{from, len(s.inline)})
	}
}

// word unquotes the word at line[i:] and returns the offset behind it.
func (s *CommandScanner) word(line []byte, i int) (int, bool) {
	for i < len(line) {
		switch c := line[i]; {
		case c == '"' || c == '\'':
			next, ok := s.quoted(line, i+1, c)
			if !ok || (next < len(line) && !blank(line[next])) {
				return 0, false
			}
			return next, true
		case blank(c) || c == 0:
			return i, true
		default:
			s.inline = append(s.inline, c)
			i++
		}
	}
	return i, true
}

// quoted unquotes line[i:] up to the closing quote and returns the offset
// behind that.
func (s *CommandScanner) quoted(line []byte, i int, quote byte) (int, bool) {
	for i < len(line) {
		c := line[i]
		switch {
		case c == quote:
			return i + 1, true
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && hex(line[i+2]) >= 0 && hex(line[i+3]) >= 0:
			s.inline = append(s.inline, byte(hex(line[i+2])<<4|hex(line[i+3])))
			i += 4
			continue
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			c = unescape(line[i])
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			c = '\''
		}
		s.inline = append(s.inline, c)
		i++
	}
	return 0, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
