package redoubt

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestErrorsNameUsOnce: an error within an error doesn't repeat the name that both begin with, and
// matches what both match.
func TestErrorsNameUsOnce(t *testing.T) {
	t.Parallel()
	unknown := UnknownOutcome(&UnavailableError{Since: time.UnixMilli(0), Last: ErrClosed})
	for _, err := range []error{unknown, UnknownOutcome(unknown)} {
		if text := err.Error(); strings.Count(text, "redoubt: ") != 1 || strings.Count(text, "outcome unknown") != 1 {
			t.Error(text)
		}
		for _, target := range []error{ErrUnknownOutcome, ErrUnavailable, ErrClosed} {
			if !errors.Is(err, target) {
				t.Errorf("%v doesn't match %v", err, target)
			}
		}
	}
}
