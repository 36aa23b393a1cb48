package ratelimit

import (
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A Decision is the answer to one call. Being refused is no error.
type Decision struct {
	// Allowed tells whether the tokens were taken. After Peek: whether there
	// is a token to take.
	Allowed bool
	// Taken is how many tokens the call took: all that were asked for or none,
	// and after TakeUpTo any number between. A peek takes none.
	Taken int
	// Limit is the one that the call has come closest to, its Burst filled in:
	// of several, the one that refuses longest, or that has the fewest tokens
	// left.
	Limit Limit
	// Violated is the place of the limit that refuses longest: 0 for the Limit
	// of the options, from 1 on those of And, and -1 when allowed.
	Violated int
	// Remaining is how many tokens are left now, under every limit: 0 to the
	// least Burst.
	Remaining int
	// RetryAfter is 0 when allowed, and [Never] when the call asked for more
	// than Limit.Burst. Otherwise it is the time after which the same call is
	// allowed, if nobody else takes tokens and the limits stay the same.
	RetryAfter time.Duration
	// ResetAfter is the time after which all tokens are back, under every
	// limit, if nobody takes any.
	ResetAfter time.Duration
	// Degraded is why the answer is not the server's, but that of
	// Options.OnFailure. It is nil as long as the server answers.
	Degraded error
}

func decision(d wire.Decision) Decision {
	return Decision{
		Allowed: d.Allowed, Taken: d.Taken, Limit: Limit(d.Limit), Violated: d.Violated,
		Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
	}
}
