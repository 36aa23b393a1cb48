package ratelimit

import (
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A Decision is the answer to one call. A refusal is no error.
type Decision struct {
	// Allowed tells whether the tokens were taken; for a call that takes none, whether
	// there is a token to take.
	Allowed bool
	// Taken is how many tokens the call took: all of n or none, and after TakeUpTo any
	// number between.
	Taken int
	// Limit is the limit that the call came closest to, its Burst filled in. With several
	// limits it is the one that refuses longest or, when allowed, has the fewest tokens
	// left.
	Limit Limit
	// Violated is the place of the limit that refuses longest: 0 for Options.Limit, from 1
	// on for Options.And, and -1 when allowed.
	Violated int
	// Remaining is how many tokens are left now, under every limit: 0 to the
	// least Burst.
	Remaining int
	// RetryAfter is 0 when allowed, and [Never] when the call asked for more than
	// Limit.Burst. Otherwise the same call is allowed after this time, if nobody else
	// takes tokens and the limits stay the same.
	RetryAfter time.Duration
	// ResetAfter is the time after which all tokens are back, under every limit, if nobody
	// takes any.
	ResetAfter time.Duration
	// Degraded is the error of the server when Options.OnFailure made the decision. It is
	// nil as long as the server answers.
	Degraded error
}

func decision(d wire.Decision) Decision {
	return Decision{
		Allowed: d.Allowed, Taken: d.Taken, Limit: Limit(d.Limit), Violated: d.Violated,
		Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
	}
}
