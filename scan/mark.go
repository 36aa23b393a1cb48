package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// A mark says how many items of the page at a cursor were yielded, for a loop that ended within a page: a
// cursor leads only to the beginning of a page.
//
// It is valid for the same page: the same items in the same order. A server repeats a page for the same
// cursor and COUNT as long as its table neither changes there nor grows or shrinks. Another page is
// yielded whole, because the items that are new in it must not be skipped. Rejected: hashes of the yielded
// items, which would skip them in any page but make a token of ten thousand characters.
type mark struct {
	Given int    `json:"g"`
	Count int    `json:"n"` // COUNT of the page
	Sum   string `json:"s"` // of the page; empty: not computed yet

	page []string
}

// markOf returns the mark of a page that has just arrived. before is a mark of an earlier page at the same
// cursor, or nil.
func markOf(items []string, count int, before *mark) *mark {
	m := &mark{Count: count, page: items}
	if before != nil {
		if m.Sum = sum(items); m.Sum == before.sum() && before.Given <= len(items) {
			m.Given = before.Given
		}
	}
	return m
}

// sum identifies a page: half of a SHA-256 in hex.
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

// left returns the items of the page that were not yielded yet.
func (m *mark) left() []string { return m.page[m.Given:] }

// forToken returns the mark for a token: nil when nothing of the page was yielded.
func (m *mark) forToken() *mark {
	if m == nil || m.Given == 0 {
		return nil
	}
	return &mark{Given: m.Given, Count: m.Count, Sum: m.sum()}
}

// check returns the fault of a mark from a token.
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
