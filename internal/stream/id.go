package stream

import (
	"bytes"
	"math"
	"strconv"
)

// An ID is the ID of an entry: milliseconds and a sequence number.
type ID struct{ MS, Seq uint64 }

// Largest is the largest ID.
var Largest = ID{math.MaxUint64, math.MaxUint64}

// Compare returns -1, 0 or 1.
func (a ID) Compare(b ID) int {
	switch {
	case a.MS < b.MS || a.MS == b.MS && a.Seq < b.Seq:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Less reports whether a comes before b.
func (a ID) Less(b ID) bool { return a.MS < b.MS || a.MS == b.MS && a.Seq < b.Seq }

// IsZero reports whether the ID is 0-0, which no entry has.
func (a ID) IsZero() bool { return a == ID{} }

// Next returns the ID behind a. It reports false, with 0-0, behind [Largest].
func (a ID) Next() (ID, bool) {
	if a.Seq++; a.Seq == 0 {
		a.MS++
	}
	return a, !a.IsZero()
}

// Prev returns the ID before a. It reports false, with [Largest], before 0-0.
func (a ID) Prev() (ID, bool) {
	if a.Seq--; a.Seq == math.MaxUint64 {
		a.MS--
	}
	return a, a != Largest
}

// Append appends the ID as text, like 1526919030474-55.
func (a ID) Append(b []byte) []byte {
	b = append(strconv.AppendUint(b, a.MS, 10), '-')
	return strconv.AppendUint(b, a.Seq, 10)
}

// String returns the ID as text.
func (a ID) String() string { return string(a.Append(nil)) }

// longestID is how many bytes Redis reads of an ID.
const longestID = 127

// ParseID reads MS, MS-SEQ or, for XADD, MS-*, with Redis' oddities in what counts as a number. An ID without a
// sequence number gets the sequence missing. With MS-* auto is true. Unless strict, - is the smallest ID and +
// the largest.
func ParseID(b []byte, missing uint64, strict bool) (id ID, auto, ok bool) {
	if len(b) > longestID {
		return id, false, false
	}
	b, _, _ = bytes.Cut(b, []byte{0}) // Redis has it as a C string
	switch string(b) {
	case "-":
		return ID{}, false, !strict
	case "+":
		return Largest, false, !strict
	}
	ms, seq, hasSeq := bytes.Cut(b, []byte{'-'})
	if id.MS, ok = parseUint(ms); !ok {
		return id, false, false
	}
	switch {
	case !hasSeq:
		id.Seq = missing
	case string(seq) == "*":
		return id, true, true
	default:
		id.Seq, ok = parseUint(seq)
	}
	return id, false, ok
}

// parseUint reads a number as Redis' string2ull does: first strictly, and then as C's strtoull,
// which skips white space and allows a sign.
func parseUint(b []byte) (uint64, bool) {
	if n, ok := integer(b); ok {
		return uint64(n), n >= 0 //nolint:gosec // not negative
	}
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b = b[1:]
	}
	negative := false
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		negative = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 || b[0] == '+' || b[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if negative {
		n = -n
	}
	return n, err == nil
}
