package memcached

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// A kind is what is done with a command.
type kind uint8

const (
	nothing   kind = iota // bytes that are thrown away
	refused               // answered here, by refusal
	retrieval             // get, gets, gat, gats
	storage               // a key and a value
	keyed                 // a key, and one line in reply
	broadcast             // flush_all, verbosity, stats reset
	version
	stats    // of the servers
	ownStats // of the pool
	hotStats // of its keys
	quit
	hangUp // the connection is closed without an answer
	kinds  // how many there are
)

// The replies that are memcached's own.
const (
	errCommand   = "ERROR\r\n"
	errFormat    = "CLIENT_ERROR bad command line format\r\n"
	errDataChunk = "CLIENT_ERROR bad data chunk\r\n"
	errExptime   = "CLIENT_ERROR invalid exptime argument\r\n"
	errLongLine  = "CLIENT_ERROR line too long\r\n"
	errTooLarge  = "SERVER_ERROR object too large for cache\r\n"
	errNoStore   = "SERVER_ERROR out of memory storing object\r\n"
	errNoRead    = "SERVER_ERROR out of memory reading request\r\n"
	errNoWrite   = "SERVER_ERROR out of memory writing get response\r\n"
	errTooMany   = "ERROR Too many open connections\r\n"
	errStats     = "CLIENT_ERROR redoubt: only stats, stats reset, stats proxy and stats hotkeys are of a pool: ask a server itself\r\n"
	replyEnd     = "END\r\n"
	lineEnd      = "\r\n"
)

const (
	maxKey   = 250
	maxWords = 8 // of what is not a retrieval; memcached takes fewer of each command

	// maxShort is the greatest length of a line that is no retrieval, its end included.
	// memcached closes the connection when it has read more without an end.
	maxShort = 2048
	// maxIndent is how many blanks memcached takes before a longer line.
	maxIndent = 100

	// maxBytes is the greatest length of a value that memcached understands.
	maxBytes = math.MaxInt32 - 2
)

// A command is one request of a client. Its slices lie in the client's buffer, or in
// the scanner's.
type command struct {
	kind    kind
	refusal string
	last    bool // after the refusal the connection is closed
	noreply bool
	line    []byte // what servers are sent, with its end; not of a retrieval
	data    []byte // of storage: the value with its end
	verb    []byte // of a retrieval: its name, with the time of gat
	keys    [][]byte
}

// refuse answers a command here. An answer that nobody wants isn't given.
func (c *command) refuse(text string) {
	c.kind, c.refusal = refused, text
	if c.noreply {
		c.kind = nothing
	}
}

// refuseLast refuses a command and closes the connection: the next command can't be found.
func (c *command) refuseLast(text string) {
	c.kind, c.refusal, c.last = refused, text, true
}

// A requestScanner finds where the requests of a client end.
type requestScanner struct {
	maxLine, maxValue int

	looked int    // bytes in which there is no end of line
	need   int    // bytes without which the request is not complete, 0: unknown
	skip   int    // bytes of a value that was refused
	made   []byte // the line of a command as servers are sent it
}

// next describes the first request of buf, which is not empty, and returns its
// length. It returns 0 when there is more to come; buf must then begin with the
// same bytes again.
//
// Servers get lines that are made from what was understood, never a client's own: one blank
// too many can make a server close the connection that all share. And a server that
// doesn't understand a line takes its value for commands, whose answers would go to others.
func (s *requestScanner) next(buf []byte, c *command) int {
	*c = command{keys: c.keys[:0]}
	if s.skip > 0 {
		n := min(s.skip, len(buf))
		s.skip -= n
		return n
	}
	if len(buf) < s.need {
		return 0
	}
	end := bytes.IndexByte(buf[s.looked:], '\n')
	if end < 0 {
		s.looked = len(buf)
		if s.tooLong(buf) {
			c.refuseLast(errLongLine)
			return len(buf)
		}
		return 0
	}
	end += s.looked + 1
	s.looked = 0
	if s.tooLong(buf[:end]) {
		c.refuseLast(errLongLine)
		return end
	}
	line := buf[:end-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	line = bytes.Trim(line, " ")
	if bytes.IndexByte(line, 0) >= 0 || bytes.IndexByte(line, '\r') >= 0 {
		c.refuse(errFormat)
	} else {
		s.parse(c, line)
	}
	if c.kind == refused && isHTTP(line) {
		c.kind = hangUp
	}
	if c.kind == storage {
		return s.value(buf, c, end)
	}
	return end
}

// tooLong reports whether a line, or its beginning, is longer than memcached reads. A
// retrieval may be longer than other commands.
func (s *requestScanner) tooLong(line []byte) bool {
	if len(line) <= maxShort {
		return false
	}
	name := bytes.TrimLeft(line[:maxShort], " ")
	verb, _ := word(name)
	return len(line) > s.maxLine || maxShort-len(name) > maxIndent ||
		!slices.Contains([]string{"get", "gets", "gat", "gats"}, string(verb))
}

// isHTTP reports whether a line is the first of an HTTP request. A web page can make a
// browser send one with commands behind it.
func isHTTP(line []byte) bool {
	return bytes.HasPrefix(line[bytes.LastIndexByte(line, ' ')+1:], []byte("HTTP/"))
}

// drop throws away the command at the beginning of buf, of whose value only a part has come.
// It describes the command as refused with answer, and returns the length of buf.
func (s *requestScanner) drop(buf []byte, c *command, answer string) int {
	skip := s.need - len(buf)
	s.need = 0
	s.next(buf, c) // which needs more again
	c.kind = storage
	c.refuse(answer)
	s.need, s.skip = 0, skip
	return len(buf)
}

// word returns the first word of line and what is behind it.
func word(line []byte) (w, rest []byte) {
	from := 0
	for from < len(line) && line[from] == ' ' {
		from++
	}
	to := from
	for to < len(line) && line[to] != ' ' {
		to++
	}
	return line[from:to], line[to:]
}

// parse looks at a line without blanks around it.
func (s *requestScanner) parse(c *command, line []byte) {
	name, rest := word(line)
	switch string(name) {
	case "get", "gets":
		c.verb = name
		c.retrieve(rest, errCommand)
		return
	case "gat", "gats":
		exptime, rest := word(rest)
		if len(exptime) == 0 {
			c.refuse(errCommand)
		} else if n, ok := signed(exptime); !ok {
			c.refuse(errExptime)
		} else {
			s.made = strconv.AppendInt(append(append(s.made[:0], name...), ' '), n, 10)
			c.verb = s.made
			c.retrieve(rest, replyEnd)
		}
		return
	}
	var array [maxWords][]byte
	words := array[:0]
	for len(rest) > 0 {
		var w []byte
		w, rest = word(rest)
		if len(words) == maxWords {
			c.refuse(errCommand)
			return
		}
		words = append(words, w)
	}
	switch string(name) {
	case "set", "add", "replace", "append", "prepend":
		s.store(c, name, words, 4)
	case "cas":
		s.store(c, name, words, 5)
	case "delete", "incr", "decr", "touch":
		words = c.quiet(words, 1)
		if n := len(words); n == 0 || n > 3 || n == 1 && string(name) != "delete" {
			c.refuse(errCommand) // before the key is looked at, as memcached
			return
		}
		c.kind = keyed
		c.key(words[0])
		s.make(c, name, words)
	case "flush_all", "verbosity":
		c.kind = broadcast
		s.make(c, name, c.quiet(words, 0))
	case "version":
		c.kind = version
		s.make(c, name, nil)
	case "quit":
		c.kind = quit
	case "stats":
		s.statistics(c, name, words)
	case "ms":
		// Of the meta commands, which are refused, the one with a value.
		if len(words) > 1 {
			s.discard(words[1])
		}
		c.refuse(errCommand)
	default:
		c.refuse(errCommand)
	}
}

func (s *requestScanner) statistics(c *command, name []byte, words [][]byte) {
	section := ""
	if len(words) == 1 {
		section = string(words[0])
	}
	switch {
	case len(words) == 0:
		c.kind = stats
		s.make(c, name, nil)
	case section == "reset":
		c.kind = broadcast
		s.make(c, name, words)
	case section == "proxy":
		c.kind = ownStats
	case section == "hotkeys":
		c.kind = hotStats
	default:
		c.refuse(errStats)
	}
}

// make makes the line of a command.
func (s *requestScanner) make(c *command, name []byte, words [][]byte) {
	s.made = append(s.made[:0], name...)
	for _, w := range words {
		s.made = append(append(s.made, ' '), w...)
	}
	s.made = append(s.made, lineEnd...)
	c.line = s.made
}

// retrieve takes the keys of a retrieval; none is the answer when there are none.
func (c *command) retrieve(rest []byte, none string) {
	c.kind = retrieval
	for {
		var k []byte
		if k, rest = word(rest); len(k) == 0 {
			break
		}
		if c.key(k); c.kind == refused {
			return
		}
	}
	if len(c.keys) == 0 {
		c.refuse(none)
	}
}

func (c *command) key(k []byte) {
	if len(k) > maxKey {
		c.refuse(errFormat)
		return
	}
	c.keys = append(c.keys, k)
}

// quiet takes the words noreply from the end of a line, where they are behind
// the first few. A server is never told: on a connection that many share, each
// command has an answer, even if nobody wants it.
func (c *command) quiet(words [][]byte, behind int) [][]byte {
	for n := len(words); n > behind && string(words[n-1]) == "noreply"; n-- {
		c.noreply = true
		words = words[:n-1]
	}
	return words
}

// store takes the line of a command with a value: key, flags, exptime, bytes, and
// for cas unique; want words.
func (s *requestScanner) store(c *command, name []byte, words [][]byte, want int) {
	c.kind = storage
	if n := len(words); n < want || n > want+1 {
		if n >= 4 {
			s.discard(words[3])
		}
		c.refuse(errCommand)
		return
	}
	c.quiet(words, want)
	size, ok := length(words[3])
	if !ok {
		c.refuse(errFormat)
		return
	}
	flags, ok := unsigned(words[1], math.MaxUint32)
	exptime, understood := signed(words[2])
	ok = ok && understood
	var unique uint64
	if want == 5 {
		unique, understood = unsigned(words[4], math.MaxUint64)
		ok = ok && understood
	}
	if c.key(words[0]); c.kind == storage && !ok {
		c.refuse(errFormat)
	}
	if c.kind == storage && size > s.maxValue {
		c.refuse(errTooLarge)
	}
	if c.kind != storage {
		s.skip = size + len(lineEnd)
		return
	}
	line := append(append(append(s.made[:0], name...), ' '), words[0]...)
	line = strconv.AppendUint(append(line, ' '), flags, 10)
	line = strconv.AppendInt(append(line, ' '), exptime, 10)
	line = strconv.AppendInt(append(line, ' '), int64(size), 10)
	if want == 5 {
		line = strconv.AppendUint(append(line, ' '), unique, 10)
	}
	s.made = append(line, lineEnd...)
	c.line = s.made
	s.need = size // value adds what is before it
}

// discard has a value thrown away whose line was refused. memcached takes it for
// commands.
func (s *requestScanner) discard(bytes []byte) {
	if size, ok := length(bytes); ok {
		s.skip = size + len(lineEnd)
	}
}

// value takes the value behind a line that ends at end.
func (s *requestScanner) value(buf []byte, c *command, end int) int {
	s.need += end + len(lineEnd)
	if len(buf) < s.need {
		return 0
	}
	n := s.need
	c.data = buf[end:n]
	s.need = 0
	if !bytes.HasSuffix(c.data, []byte(lineEnd)) {
		c.refuse(errDataChunk)
	}
	return n
}

// signed returns a number of 32 bits, as every memcached understands it.
func signed(w []byte) (int64, bool) {
	if len(w) > 0 && w[0] == '-' {
		n, ok := decimal(w[1:], math.MaxInt32)
		return -int64(n), ok //nolint:gosec // at most MaxInt32
	}
	n, ok := unsigned(w, math.MaxInt32)
	return int64(n), ok //nolint:gosec // at most MaxInt32
}

// unsigned returns a number of at most limit. It may have a sign, as with strtoul.
func unsigned(w []byte, limit uint64) (uint64, bool) {
	switch {
	case len(w) > 0 && w[0] == '+':
		w = w[1:]
	case len(w) > 0 && w[0] == '-':
		w, limit = w[1:], 0
	}
	return decimal(w, limit)
}

// length returns the length of a value, which may be more than any server takes: then it
// is to be thrown away.
func length(w []byte) (int, bool) {
	n, ok := unsigned(w, math.MaxInt/2)
	return int(n), ok //nolint:gosec // at most MaxInt
}

func decimal(w []byte, limit uint64) (n uint64, ok bool) {
	if len(w) == 0 || len(w) > 20 {
		return 0, false
	}
	for _, b := range w {
		if b < '0' || b > '9' {
			return 0, false
		}
		d := uint64(b - '0')
		if d > limit || n > (limit-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
