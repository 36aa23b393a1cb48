// Package expect is how tests look at an error. A package of tests gives the checks short
// names: var must, is = expect.Must, expect.Is.
package expect

import (
	"errors"
	"strings"
	"testing"
)

// Must ends the test unless err is nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Is ends the test unless err matches want, which may be nil.
func Is(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("the error is %v, want %v", err, want)
	}
}

// Says fails the test unless err says all of parts.
func Says(tb testing.TB, err error, parts ...string) {
	tb.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			tb.Errorf("the error is %v; want one with %q", err, p)
		}
	}
}
