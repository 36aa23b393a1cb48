package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// A mark says how much of the page at a cursor was given, for a loop that is left within
// a page: a cursor leads to the beginning of a page only.
//
// It is good for the same page, item by item and in the same order. A server gives that
// again for the same cursor and COUNT, as long as its table neither changes there nor
// grows or shrinks. Another page is given whole: what is in it and was not in the first
// one must not be skipped. Rejected: hashes of what was given, which would skip it in any
// page, but make a token of ten thousand characters.
type mark struct {
	Given int    `json:"g"`
	Count int    `json:"n"` // COUNT of the page
	Sum   string `json:"s"` // of the page; empty: not computed yet

	page []string
}

// markOf returns the mark of a page that has just come. Before is a mark of an earlier
// page at the same cursor, or nil.
func markOf(items []string, count int, before *mark) *mark {
	m := &mark{Count: count, page: items}
	if before != nil {
		if m.Sum = sum(items); m.Sum == before.sum() && before.Given <= len(items) {
			m.Given = before.Given
		}
	}
	return m
}

// sum tells one page from another: half of a SHA-256 in hex.
func sum(items []string) string {
	h := sha256.New()
	var length [8]byte
	for _, item := range items {
		binary.LittleEndian.PutUint64(length[:], uint64(len(item)))
		h.Write(length[:])
		h.Write([]byte(item))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (m *mark) sum() string {
	if m.Sum == "" {
		m.Sum = sum(m.page)
	}
	return m.Sum
}

// left is what of the page is to be given yet.
func (m *mark) left() []string { return m.page[m.Given:] }

// forToken is the mark as a token has it: nil when nothing of the page was given.
func (m *mark) forToken() *mark {
	if m == nil || m.Given == 0 {
		return nil
	}
	return &mark{Given: m.Given, Count: m.Count, Sum: m.sum()}
}

// check looks at a mark of a token.
func (m *mark) check() error {
	if m != nil && (m.Given < 1 || m.Count < 1 || m.Count > MaxCount || m.Sum == "") {
		return fmt.Errorf("mark %+v", *m)
	}
	return nil
}

// count is the COUNT of the page at a cursor.
func (m *mark) count(otherwise int) int {
	if m == nil {
		return otherwise
	}
	return m.Count
}
