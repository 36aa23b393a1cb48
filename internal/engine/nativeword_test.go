package engine

import "testing"

func TestWordsAreApart(t *testing.T) {
	h := &scriptHost{outer: &call{}}
	h.native(func(tx *Tx) bool {
		var words [][]byte
		for i := range len(h.words) + 2 {
			w := tx.Word()
			for range 32 {
				w = append(w, byte('a'+i))
			}
			words = append(words, w)
		}
		for i, w := range words {
			for _, b := range w {
				if len(w) != 32 || b != byte('a'+i) {
					t.Fatalf("word %d is %q", i, w)
				}
			}
		}
		return true
	}, nil, nil)
}
