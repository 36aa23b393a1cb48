package redoubt

import (
	"errors"
	"fmt"
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

func TestWrongType(t *testing.T) {
	const text = "WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, c := range []struct {
		err  error
		want bool
	}{
		{ServerError(text), true},
		{ServerError(text + " script: 2f1b, on @user_script:12."), true},
		{ServerError("ERR Error running script (call to f_2f1b): @user_script:12: @user_script: 12: " + text), true},
		{fmt.Errorf("queue: orders: %w", ServerError(text)), true},
		{UnknownOutcome(ServerError(text)), true},
		{ServerError("ERR redoubt: the key holds no calendar"), true},
		{ServerError("ERR redoubt: the key holds no quota script: 2f1b, on @user_script:12."), true},
		{ServerError("ERR no such key 'WRONGTYPE '"), false},
		{errors.New(text), false}, // its text alone
		{nil, false},
	} {
		if got := errors.Is(c.err, ErrWrongType); got != c.want {
			t.Errorf("errors.Is(%q, ErrWrongType) = %v", c.err, got)
		}
	}
}
