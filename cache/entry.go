package cache

import (
	"encoding/binary"
	"time"
)

// An entry is the value of a key: a head of 47 bytes, the payload, and the waiters while processes
// wait for a load. doc.go has the layout.
type entry struct {
	kind     byte
	encoding byte
	fresh    int64  // when it stops being fresh, in µs of the server's clock
	delta    int64  // how long the load took, in µs
	lease    int64  // when the lease ends, in µs of the server's clock; 0: no lease
	id       string // the id of the value
	owner    string // the owner of the lease
	payload  string
}

const (
	headBytes = 47
	layoutV1  = 1

	kindNone     = '-' // only a lease
	kindValue    = 'v'
	kindNegative = 'n' // the source does not have the key

	plain    = '.'
	deflated = 'z'
)

// parseEntry reads an entry. A value that is empty, of another version or of another program counts
// as no entry.
func parseEntry(raw string) entry {
	if len(raw) < headBytes || raw[0] != layoutV1 {
		return entry{kind: kindNone}
	}
	e := entry{
		kind: raw[1], encoding: raw[2],
		fresh: int64At(raw, 3), delta: int64At(raw, 11), lease: int64At(raw, 19),
		id: raw[27:35], owner: raw[35:43],
	}
	size := int(binary.BigEndian.Uint32([]byte(raw[43:47])))
	if size > len(raw)-headBytes || e.kind != kindNone && !e.has() {
		return entry{kind: kindNone}
	}
	e.payload = raw[headBytes : headBytes+size]
	return e
}

// has reports whether the entry has an answer of the source.
func (e entry) has() bool { return e.kind == kindValue || e.kind == kindNegative }

func int64At(s string, at int) int64 {
	return int64(binary.BigEndian.Uint64([]byte(s[at : at+8]))) //nolint:gosec // scripts write numbers that fit
}

// mark is the beginning of an entry. Scripts do not change it.
func mark(kind, encoding byte) string { return string([]byte{layoutV1, kind, encoding}) }

func micros(d time.Duration) int64 { return d.Microseconds() }
