package randid_test

import (
	"encoding/hex"
	"regexp"
	"testing"

	"github.com/redoubt-go/redoubt/internal/randid"
)

func TestIDsHaveTheirForm(t *testing.T) {
	for _, c := range []struct {
		form *regexp.Regexp
		id   func() string
	}{
		{regexp.MustCompile(`^[0-9a-f]{16}$`), func() string { return hex.EncodeToString([]byte(randid.Bytes(8))) }},
		{regexp.MustCompile(`^[0-9a-f]{40}$`), func() string { return randid.Hex(20) }},
		{regexp.MustCompile(`^[-_0-9A-Za-z]{16}$`), func() string { return randid.Base64(12) }},
	} {
		seen := map[string]bool{}
		for range 100 {
			id := c.id()
			if !c.form.MatchString(id) || seen[id] {
				t.Fatalf("%q is not of the form %s, or came twice", id, c.form)
			}
			seen[id] = true
		}
	}
}
