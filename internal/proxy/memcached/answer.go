package memcached

import (
	"bytes"
	"slices"
	"strconv"
)

// A join says what becomes of the answers of several servers to one command.
type join uint8

const (
	whole  join = iota // one server's answer, as it came
	values             // all values, and one END
	agree              // any, if there is no error
	first              // any that is no error
	sums               // the sums of the statistics
)

// An answer is what a client gets for one command. The client's mu guards it.
type answer struct {
	client *client
	join   join
	quiet  bool   // nobody wants it
	wait   int    // servers that have not answered
	buf    []byte // what has come
	fault  []byte // the first error that came
}

// part takes what came from one of the servers; last says that it has no more.
// It reports whether the caller has to flush the client.
func (a *answer) part(piece []byte, last bool) (flush bool) {
	c := a.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if last {
		a.wait--
	}
	switch {
	case a.quiet || c.dead:
	case c.held+len(piece) > c.pool.opts.MaxClientBytes:
		if a.fault == nil {
			a.fail(c.pool.tooMuch())
		}
	case !c.holds.Hold(c.held + len(piece)):
		if a.fault == nil {
			a.fail([]byte(errNoWrite))
		}
	case a.join == whole && last && len(a.buf) == 0 && a.fault == nil && c.queue.front() == a:
		c.write(piece)
	default:
		a.keep(piece, last)
	}
	if a.wait > 0 {
		return false
	}
	c.inFlight--
	if a.quiet {
		c.recycle(a)
	}
	flush = c.advance()
	if c.waiting {
		c.changed.Broadcast()
	}
	return flush
}

// keep stores a piece until its turn. The caller holds mu.
func (a *answer) keep(piece []byte, last bool) {
	line := piece[bytes.LastIndexByte(piece[:len(piece)-1], '\n')+1:]
	if a.join != whole && last {
		switch {
		case isError(line):
			if a.fault == nil && a.join != first {
				a.fail(line)
			} else if a.fault == nil {
				a.fault = bytes.Clone(line)
			}
			return
		case a.join == agree || a.join == first:
			a.client.held += len(piece) - len(a.buf)
			a.buf = append(a.buf[:0], piece...)
			return
		case string(line) == replyEnd:
			piece = piece[:len(piece)-len(line)]
		}
	}
	if a.fault != nil && a.join != first {
		return // and no values
	}
	if a.join == whole && last && len(line) == len(piece) && len(a.buf) > 0 && isError(line) {
		a.fail(line) // instead of what came before it
		return
	}
	a.client.held += len(piece)
	a.buf = append(a.buf, piece...)
}

// fail makes an error of the answer. The caller holds mu.
func (a *answer) fail(line []byte) {
	a.client.held -= len(a.buf)
	a.buf = a.buf[:0]
	a.fault = bytes.Clone(line)
}

// finish writes the answer, whose turn it is. The caller holds mu.
func (a *answer) finish() {
	c := a.client
	c.held -= len(a.buf)
	switch {
	case a.fault != nil && (a.join != first || len(a.buf) == 0):
		c.write(a.fault)
	case a.join == values:
		c.write(a.buf)
		c.write([]byte(replyEnd))
	case a.join == sums:
		c.write(sum(a.buf))
	default:
		c.write(a.buf)
	}
}

// single are statistics whose sum means nothing. The pool reports the greatest.
var single = []string{"pid", "uptime", "time", "pointer_size", "max_connections", "threads", "hash_power_level"}

// sum returns one answer to stats of the answers of all servers: sums of whole
// numbers, and of the rest the first.
func sum(lines []byte) []byte {
	type stat struct {
		text   string
		number uint64
		isNum  bool
	}
	stats := map[string]*stat{}
	var order []string
	for line := range bytes.Lines(lines) {
		_, rest := word(bytes.TrimRight(line, lineEnd))
		name, rest := word(rest)
		text := string(bytes.TrimLeft(rest, " "))
		n, err := strconv.ParseUint(text, 10, 64)
		s := stats[string(name)]
		switch {
		case s == nil:
			stats[string(name)] = &stat{text: text, number: n, isNum: err == nil}
			order = append(order, string(name))
		case !s.isNum || err != nil:
		case slices.Contains(single, string(name)):
			s.number = max(s.number, n)
		default:
			s.number += n
		}
	}
	var out []byte
	for _, name := range order {
		s := stats[name]
		if s.isNum {
			s.text = strconv.FormatUint(s.number, 10)
		}
		out = appendStat(out, name, s.text)
	}
	return append(out, replyEnd...)
}

func appendStat(dst []byte, name, text string) []byte {
	dst = append(append(dst, "STAT "...), name...)
	return append(append(append(dst, ' '), text...), lineEnd...)
}

// A queue is the answers of a client in the order of its commands.
type queue struct {
	all  []*answer
	head int
}

func (q *queue) front() *answer {
	if q.head == len(q.all) {
		return nil
	}
	return q.all[q.head]
}

func (q *queue) push(a *answer) {
	if q.head > 64 && q.head > len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, a)
}

func (q *queue) pop() {
	q.all[q.head] = nil
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
}
