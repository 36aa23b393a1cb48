package cache

import (
	"encoding/binary"
	"time"
)

// An entry is what a key holds: a head of 47 bytes, the payload, and, while
// somebody waits for a load, who that is. doc.go has the layout.
type entry struct {
	kind     byte
	encoding byte
	fresh    int64  // until when, in µs of the server's clock
	delta    int64  // how long the load took, in µs
	lease    int64  // until when somebody has the right to load it; 0: nobody
	id       string // names the value
	owner    string // names who has the lease
	payload  string
}

const (
	headBytes = 47
	layoutV1  = 1

	kindNone     = '-' // only a lease
	kindValue    = 'v'
	kindNegative = 'n' // the source has none

	plain    = '.'
	deflated = 'z'
)

// parseEntry reads an entry. What is none, because it is empty, of another version or
// of another program, is absent.
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

// has reports whether the entry answers what the source has.
func (e entry) has() bool { return e.kind == kindValue || e.kind == kindNegative }

func int64At(s string, at int) int64 {
	return int64(binary.BigEndian.Uint64([]byte(s[at : at+8]))) //nolint:gosec // written by a script from what fits
}

// mark is the beginning of an entry, which scripts leave as it is.
func mark(kind, encoding byte) string { return string([]byte{layoutV1, kind, encoding}) }

func micros(d time.Duration) int64 { return d.Microseconds() }
