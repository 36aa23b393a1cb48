package resp_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// FuzzInt wants exactly those numbers to be taken that are as strconv writes them.
func FuzzInt(f *testing.F) {
	for _, text := range []string{"0", "-0", "01", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999", "+1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := strconv.ParseInt(text, 10, 64)
		canonical := err == nil && strconv.FormatInt(want, 10) == text
		if got, ok := resp.ParseInt([]byte(text)); ok != canonical || ok && got != want {
			t.Fatalf("%q is %d, %v", text, got, ok)
		}
	})
}

// FuzzWords wants words that were quoted to come out as they were.
func FuzzWords(f *testing.F) {
	f.Add([]byte("a b"), []byte(`"\x41\n" 'x'`))
	f.Add([]byte("\x00\xff\"'\\"), []byte(`"a"b`))
	f.Fuzz(func(t *testing.T, word, line []byte) {
		quoted := []byte{'"'}
		for _, b := range word {
			quoted = append(quoted, '\\', 'x', "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		}
		words, ok := resp.Words(append(quoted, '"'))
		if !ok || len(words) != 1 || !bytes.Equal(words[0], word) {
			t.Fatalf("%q became %q, %v", word, words, ok)
		}
		total := 0
		words, _ = resp.Words(line)
		for _, w := range words {
			total += len(w)
		}
		if total > len(line) {
			t.Fatalf("%q became %q", line, words)
		}
	})
}
