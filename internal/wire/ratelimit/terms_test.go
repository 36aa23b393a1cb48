package ratelimit_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// FuzzTerms wants stored limits that are taken to be the same when they are stored again.
func FuzzTerms(f *testing.F) {
	terms, err := ratelimit.NewTerms([]ratelimit.Limit{{Rate: 10, Period: 1e9, Burst: 5}, {Rate: 100, Period: 60e9, Burst: 100}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(terms.String())
	f.Add("1 1000000000 1 0 0 0 0")
	f.Add("-1 99999999999999999999 x")
	f.Fuzz(func(t *testing.T, text string) {
		terms, err := ratelimit.ParseTerms(text)
		if err != nil {
			return
		}
		again, err := ratelimit.ParseTerms(terms.String())
		if err != nil || again.String() != terms.String() {
			t.Fatalf("%q is %q, and then %q, %v", text, terms.String(), again.String(), err)
		}
	})
}
