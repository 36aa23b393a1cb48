package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Limits bound what a [CommandScanner] accepts. The zero value of each field
// is its documented default, which is the one of Redis where Redis has one.
type Limits struct {
	// MaxArgs is the greatest number of arguments of a command, its name
	// included. Defaults to 1,048,576. Redis accepts 2,147,483,647.
	MaxArgs int
	// MaxBulk is the greatest length of one argument in bytes. Defaults to
	// 512 MiB, as Redis' proto-max-bulk-len.
	MaxBulk int
	// MaxInline is the greatest length in bytes of an inline command, and of
	// any line that announces a count. Defaults to 64 KiB, as in Redis.
	MaxInline int
	// MaxCommand is the greatest length of a whole command in bytes as it is
	// on the wire. Defaults to 1 GiB, as Redis' client-query-buffer-limit.
	MaxCommand int
}

const (
	defaultMaxArgs    = 1 << 20
	defaultMaxBulk    = 512 << 20
	defaultMaxInline  = 64 << 10
	defaultMaxCommand = 1 << 30

	// Redis accepts no more of a client that has not authenticated yet.
	unauthenticatedArgs = 10
	unauthenticatedBulk = 16 << 10
)

// WithDefaults returns l with every zero field set to its default.
func (l Limits) WithDefaults() Limits {
	if l.MaxArgs == 0 {
		l.MaxArgs = defaultMaxArgs
	}
	if l.MaxBulk == 0 {
		l.MaxBulk = defaultMaxBulk
	}
	if l.MaxInline == 0 {
		l.MaxInline = defaultMaxInline
	}
	if l.MaxCommand == 0 {
		l.MaxCommand = defaultMaxCommand
	}
	return l
}

// Validate reports every limit that is negative.
func (l Limits) Validate() error {
	var errs []error
	check := func(name string, n int) {
		if n < 0 {
			errs = append(errs, fmt.Errorf("resp: %s is %d, want at least 0", name, n))
		}
	}
	check("MaxArgs", l.MaxArgs)
	check("MaxBulk", l.MaxBulk)
	check("MaxInline", l.MaxInline)
	check("MaxCommand", l.MaxCommand)
	return errors.Join(errs...)
}

// A ProtocolError says how input breaks the protocol. Its text is the one of
// Redis where Redis has one, without the leading "ERR ". After it a
// connection can't be used any more: where the next message begins is
// unknown.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// Protocol errors that always have the same text.
const (
	errMultibulkLength  = ProtocolError("Protocol error: invalid multibulk length")
	errBulkLength       = ProtocolError("Protocol error: invalid bulk length")
	errInlineTooBig     = ProtocolError("Protocol error: too big inline request")
	errMultibulkTooBig  = ProtocolError("Protocol error: too big mbulk count string")
	errBulkCountTooBig  = ProtocolError("Protocol error: too big bulk count string")
	errUnbalancedQuotes = ProtocolError("Protocol error: unbalanced quotes in request")
	errUnauthMultibulk  = ProtocolError("Protocol error: unauthenticated multibulk length")
	errUnauthBulk       = ProtocolError("Protocol error: unauthenticated bulk length")
	errCommandTooBig    = ProtocolError("Protocol error: too big request")
	errExpectedCRLF     = ProtocolError("Protocol error: expected CRLF")
)

type span struct{ from, to int }

// A CommandScanner finds commands in a buffer. The zero value is ready, with
// the default [Limits]. It is for one goroutine.
//
// It accepts what Redis accepts, multibulk and inline commands, with two
// differences: a line must end in CRLF, where Redis looks at the CR only, and
// the bytes of an argument must be followed by CRLF, which Redis does not
// check. So a span that was accepted here has one meaning for every server it
// may be sent to.
type CommandScanner struct {
	// Limits are what the scanner accepts. Change them between commands only.
	Limits Limits
	// Unauthenticated sets the stricter limits that Redis has for a client
	// that has not authenticated yet: 10 arguments of 16 KiB.
	Unauthenticated Unauthenticated

	limits   Limits // Limits with defaults
	from     Limits // the Limits that limits were made of
	ready    bool
	started  bool // the first line of a multibulk command was read
	pos      int  // what was looked at
	left     int  // arguments still to come
	bulk     int  // length of the argument being read, or -1
	args     [][]byte
	spans    []span
	inline   []byte // unquoted arguments of an inline command
	isInline bool
}

// Unauthenticated says which limits apply to a client.
type Unauthenticated uint8

const (
	// Authenticated applies the configured limits.
	Authenticated Unauthenticated = iota
	// NotAuthenticated applies Redis' limits for clients that have not
	// authenticated yet.
	NotAuthenticated
)

// Next looks for one command at the beginning of buf. It returns its length
// in bytes, 0 while the command is incomplete, or a [ProtocolError].
//
// While the command is incomplete, the next call must be given a buffer that
// begins with the same bytes; it may be longer and elsewhere in memory. A
// length > 0 with no [CommandScanner.Args] is an empty line or an empty
// multibulk, which Redis ignores.
func (s *CommandScanner) Next(buf []byte) (int, error) {
	if !s.ready || s.from != s.Limits {
		s.from, s.limits, s.ready = s.Limits, s.Limits.WithDefaults(), true
		s.bulk = -1
	}
	if s.pos == 0 {
		s.args = s.args[:0]
		s.isInline = false
		if s.large() {
			s.spans, s.args = nil, nil
		}
	}
	if len(buf) == 0 {
		return 0, nil
	}
	if buf[0] != '*' {
		return s.nextInline(buf)
	}
	if !s.started {
		n, end, err := s.count(buf, 1, errMultibulkTooBig, errMultibulkLength)
		if err != nil || end == 0 {
			return 0, err
		}
		if n > int64(s.limits.MaxArgs) || n > math.MaxInt32 {
			return 0, errMultibulkLength
		}
		if n > unauthenticatedArgs && s.Unauthenticated == NotAuthenticated {
			return 0, errUnauthMultibulk
		}
		if n <= 0 {
			return end, nil
		}
		s.started, s.pos, s.left, s.bulk = true, end, int(n), -1
		s.spans = s.spans[:0]
	}
	for s.left > 0 {
		if s.bulk < 0 {
			if s.pos >= len(buf) {
				return 0, s.tooBig(buf)
			}
			if c := buf[s.pos]; c != '$' {
				return 0, ProtocolError("Protocol error: expected '$', got '" + printable(c) + "'")
			}
			n, end, err := s.count(buf, s.pos+1, errBulkCountTooBig, errBulkLength)
			if err != nil {
				return 0, err
			}
			if end == 0 {
				return 0, s.tooBig(buf)
			}
			if n < 0 || n > int64(s.limits.MaxBulk) {
				return 0, errBulkLength
			}
			if n > unauthenticatedBulk && s.Unauthenticated == NotAuthenticated {
				return 0, errUnauthBulk
			}
			s.pos, s.bulk = end, int(n)
		}
		end := s.pos + s.bulk
		if end+2 > s.limits.MaxCommand {
			return 0, errCommandTooBig
		}
		if end+2 > len(buf) {
			return 0, nil
		}
		if buf[end] != '\r' || buf[end+1] != '\n' {
			return 0, errExpectedCRLF
		}
		s.spans = append(s.spans, span{s.pos, end})
		s.pos, s.bulk = end+2, -1
		s.left--
	}
	for _, sp := range s.spans {
		s.args = append(s.args, buf[sp.from:sp.to:sp.to])
	}
	n := s.pos
	s.pos, s.started = 0, false
	return n, nil
}

// Args returns the arguments of the command that Next found, its name first.
// They are slices of the buffer given to Next, or of memory of the scanner
// when [CommandScanner.Inline], and stay valid until the next call.
func (s *CommandScanner) Args() [][]byte { return s.args }

// Wire returns n arguments from number i on, 1 at least, as they stand in buf, which Next
// was given: each with its length before it. It is not for a command that is [CommandScanner.Inline].
func (s *CommandScanner) Wire(buf []byte, i, n int) []byte {
	return buf[s.spans[i-1].to+2 : s.spans[i+n-1].to+2]
}

// Inline reports whether the command was sent as a line of text. Its bytes on
// the wire may then contain quotes and escapes; its Args do not.
func (s *CommandScanner) Inline() bool { return s.isInline }

// Held returns how many bytes the scanner itself holds. They grow with the number of arguments of a command.
func (s *CommandScanner) Held() int {
	return cap(s.spans)*int(unsafe.Sizeof(span{})) + cap(s.args)*int(unsafe.Sizeof([]byte{}))
}

// Forget drops what Args returned, so that the scanner no longer keeps the buffer given to Next in memory, and the room for
// many arguments. Call it between commands.
func (s *CommandScanner) Forget() {
	if s.large() {
		s.spans, s.args = nil, nil
	}
	clear(s.args[:cap(s.args)])
}

// large reports whether the scanner has room for so many arguments that few commands have them.
func (s *CommandScanner) large() bool { return cap(s.spans) > 4096 || cap(s.args) > 4096 }

func (s *CommandScanner) tooBig(buf []byte) error {
	if len(buf) > s.limits.MaxCommand {
		return errCommandTooBig
	}
	return nil
}

// count reads a number and CRLF at buf[at:]. It returns the number and the
// offset behind the CRLF, or 0 when the line is incomplete.
func (s *CommandScanner) count(buf []byte, at int, tooBig, invalid ProtocolError) (n int64, end int, err error) {
	// The common case, one to three digits, without a search.
	i := at
	for i < len(buf) && i < at+3 && buf[i] >= '0' && buf[i] <= '9' {
		n = n*10 + int64(buf[i]-'0')
		i++
	}
	if i > at && i+1 < len(buf) && buf[i] == '\r' && buf[i+1] == '\n' && (buf[at] != '0' || i == at+1) {
		return n, i + 2, nil
	}
	nl := bytes.IndexByte(buf[at:min(len(buf), at+s.limits.MaxInline)], '\r')
	if nl < 0 {
		if len(buf)-at >= s.limits.MaxInline {
			return 0, 0, tooBig
		}
		return 0, 0, nil
	}
	n, ok := ParseInt(buf[at : at+nl])
	if !ok {
		return 0, 0, invalid
	}
	if at+nl+1 >= len(buf) {
		return 0, 0, nil
	}
	if buf[at+nl+1] != '\n' {
		return 0, 0, errExpectedCRLF
	}
	return n, at + nl + 2, nil
}

// printable returns c as Redis puts it in an error, or an escape where the
// byte would break the error's line.
func printable(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf("\\x%02x", c)
	}
	return string(rune(c))
}
