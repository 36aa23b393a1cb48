package memcached

import (
	"bytes"
	"math"
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
	kinds // how many there are
)

// The replies that are memcached's own.
const (
	errCommand   = "ERROR\r\n"
	errFormat    = "CLIENT_ERROR bad command line format\r\n"
	errDataChunk = "CLIENT_ERROR bad data chunk\r\n"
	errExptime   = "CLIENT_ERROR invalid exptime argument\r\n"
	errLongLine  = "CLIENT_ERROR line too long\r\n"
	errTooLarge  = "SERVER_ERROR object too large for cache\r\n"
	errTooMany   = "ERROR Too many open connections\r\n"
	errStats     = "CLIENT_ERROR redoubt: only stats, stats reset, stats proxy and stats hotkeys are of a pool: ask a server itself\r\n"
	replyEnd     = "END\r\n"
	lineEnd      = "\r\n"
)

const (
	maxKey   = 250
	maxWords = 8 // of what is not a retrieval; memcached takes fewer of each command

	// maxShort is the greatest length of a line that is no get: of more than 2,048
	// bytes without an end memcached closes the connection.
	maxShort = 1024

	// maxBytes is the greatest length of a value that memcached understands.
	maxBytes = math.MaxInt32 - 2
)

// A command is one request of a client. Its slices lie in the client's buffer.
type command struct {
	kind    kind
	refusal string
	noreply bool
	raw     []byte // all of it, as it came
	head    []byte // the line without its end and without noreply
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

// A requestScanner finds where the requests of a client end.
type requestScanner struct {
	maxLine, maxValue int

	looked   int  // bytes in which there is no end of line
	need     int  // bytes without which the request is not complete, 0: unknown
	skip     int  // bytes of a value that was refused
	skipLine bool // the rest of a line was refused
}

// next describes the first request of buf, which is not empty, and returns its
// length. It returns 0 when there is more to come; buf must then begin with the
// same bytes again.
//
// Only what is certain to be taken by a server as the one command that it looks
// like becomes something other than refused: a value whose line a server doesn't
// understand would be taken for commands, and their answers for those of others.
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
	switch {
	case end >= 0:
		end += s.looked + 1
		s.looked = 0
	case len(buf) > s.maxLine:
		if !s.skipLine {
			c.refuse(errLongLine)
		}
		s.skipLine, s.looked = true, 0
		return len(buf)
	default:
		s.looked = len(buf)
		return 0
	}
	if s.skipLine {
		s.skipLine = false
		return end
	}
	c.raw = buf[:end]
	if end > s.maxLine {
		c.refuse(errLongLine)
		return end
	}
	line := buf[:end-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	c.head = line
	if bytes.IndexByte(line, 0) >= 0 || bytes.IndexByte(line, '\r') >= 0 {
		c.refuse(errFormat)
		return end
	}
	s.parse(c, line)
	if c.kind == storage {
		return s.value(buf, c, end)
	}
	return end
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

// parse looks at a line.
func (s *requestScanner) parse(c *command, line []byte) {
	line = bytes.TrimLeft(line, " ")
	c.raw, c.head = c.raw[len(c.head)-len(line):], line
	name, rest := word(line)
	switch string(name) {
	case "get", "gets":
		c.retrieve(line[:len(line)-len(rest)], rest)
		if c.kind == retrieval && len(c.keys) == 0 {
			c.refuse(errCommand)
		}
		return
	case "gat", "gats":
		exptime, behind := word(rest)
		switch {
		case len(exptime) == 0:
			c.refuse(errCommand)
		case !number(exptime, math.MaxInt32, true):
			c.refuse(errExptime)
		default:
			c.retrieve(line[:len(line)-len(behind)], behind)
			if c.kind == retrieval && len(c.keys) == 0 {
				c.refuse(replyEnd)
			}
		}
		return
	}
	var words [maxWords][]byte
	n := 0
	for len(rest) > 0 {
		var w []byte
		if w, rest = word(rest); len(w) == 0 {
			break
		}
		if n == maxWords {
			c.refuse(errCommand)
			return
		}
		words[n] = w
		n++
	}
	switch string(name) {
	case "set", "add", "replace", "append", "prepend":
		s.store(c, words[:n], 4)
	case "cas":
		s.store(c, words[:n], 5)
	case "delete", "incr", "decr", "touch":
		c.kind = keyed
		if n == 0 {
			c.refuse(errCommand)
		} else {
			c.quiet(words[:n], 1)
			c.key(words[0])
			c.short()
		}
	case "flush_all", "verbosity":
		c.kind = broadcast
		c.quiet(words[:n], 0)
		c.short()
	case "version":
		c.kind = version
	case "quit":
		c.kind = quit
	case "stats":
		switch {
		case n == 0:
			c.kind = stats
		case n == 1 && string(words[0]) == "reset":
			c.kind = broadcast
			c.short()
		case n == 1 && string(words[0]) == "proxy":
			c.kind = ownStats
		case n == 1 && string(words[0]) == "hotkeys":
			c.kind = hotStats
		default:
			c.refuse(errStats)
		}
	case "ms":
		// Of the meta commands, which are refused, the one with a value.
		if n > 1 {
			s.discard(words[1])
		}
		c.refuse(errCommand)
	default:
		c.refuse(errCommand)
	}
}

// retrieve takes the keys of a retrieval.
func (c *command) retrieve(verb, rest []byte) {
	c.kind, c.verb = retrieval, verb
	for {
		var k []byte
		if k, rest = word(rest); len(k) == 0 {
			return
		}
		if c.key(k); c.kind == refused {
			return
		}
	}
}

func (c *command) key(k []byte) {
	if len(k) > maxKey {
		c.refuse(errFormat)
		return
	}
	c.keys = append(c.keys, k)
}

// short refuses a line that a server might find too long.
func (c *command) short() {
	if len(c.head) > maxShort {
		c.refuse(errFormat)
	}
}

// quiet takes the words noreply from the end of the line, where they are behind
// the first few. A server is never told: on a connection that many share, each
// command has an answer, even if nobody wants it.
func (c *command) quiet(words [][]byte, behind int) {
	for n := len(words); n > behind && string(words[n-1]) == "noreply"; n-- {
		c.noreply = true
		end := len(bytes.TrimRight(c.head, " ")) - len("noreply")
		c.head = bytes.TrimRight(c.head[:end], " ")
	}
}

// store takes the line of a command with a value: key, flags, exptime, bytes, and
// for cas unique; want words.
func (s *requestScanner) store(c *command, words [][]byte, want int) {
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
	ok = len(c.head) <= maxShort && number(words[1], math.MaxUint32, false) && number(words[2], math.MaxInt32, true) &&
		(want < 5 || number(words[4], math.MaxUint64, false))
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
	c.raw, c.data = buf[:s.need], buf[end:s.need]
	s.need = 0
	if !bytes.HasSuffix(c.data, []byte(lineEnd)) {
		c.refuse(errDataChunk)
	}
	return len(c.raw)
}

// number reports whether w is a decimal number of at most limit that every
// memcached understands.
func number(w []byte, limit uint64, signed bool) bool {
	if signed && len(w) > 0 && w[0] == '-' {
		w = w[1:]
	}
	_, ok := decimal(w, limit)
	return ok
}

func length(w []byte) (int, bool) {
	n, ok := decimal(w, maxBytes)
	return int(n), ok //nolint:gosec // at most maxBytes
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
		if n > (limit-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
