package geo

import (
	"strings"
	"testing"
)

// FuzzRecord wants what the server keeps to be refused, or to be the same when it is written again.
func FuzzRecord(f *testing.F) {
	f.Add(record{step: "abcdefgh", before: "ijklmnop", to: place{1, 77}, into: cell{1, 2}, member: "m"}.text())
	f.Add(record{step: "abcdefgh", before: "ijklmnop", removed: true, member: "m"}.text())
	f.Add("4503599627370495")
	f.Add("4.503599627370495e15")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := parseRecord(text); err == nil && !r.removed && r.text() != text {
			t.Errorf("the record %q became %q", text, r.text())
		}
		if h, err := parseHome(text); err == nil && h != (home{cell: h.cell}) && h.text() != text && strings.Trim(text, "\x00") != "" {
			t.Errorf("the home %q became %q", text, h.text())
		}
		if score, err := parseScore(text); err == nil && score >= 1<<scoreBits {
			t.Errorf("the score %q is %d", text, score)
		}
	})
}
