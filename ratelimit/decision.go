package ratelimit

import (
	"math"
	"time"
)

// Never is the RetryAfter of a call for more tokens than a limit ever has at
// once.
const Never time.Duration = -1

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

// decide turns the outcome of a call for n tokens into a Decision. A peek takes
// nothing and answers for one token.
func (t *terms) decide(o outcome, taken, n int64) Decision {
	d := Decision{Allowed: o.first > 0, Taken: int(taken), Violated: -1, Remaining: math.MaxInt}
	closest := 0
	for i, g := range t.rates {
		ahead := max(o.ahead[i], 0)
		left := int(max(g.tolerance-ahead, 0) / g.interval)
		if left < d.Remaining {
			d.Remaining, closest = left, i
		}
		d.ResetAfter = max(d.ResetAfter, micros(ahead))
	}
	if n == 0 {
		n, d.Allowed = 1, d.Remaining > 0
	}
	if !d.Allowed {
		d.RetryAfter, closest = t.retry(o, n)
		d.Violated = closest
	}
	d.Limit = t.limits[closest]
	return d
}

// retry returns how long after a refusal n tokens are allowed, and by which
// limit it takes so long.
func (t *terms) retry(o outcome, n int64) (after time.Duration, by int) {
	for i, g := range t.rates {
		cost := g.cost(n)
		if cost > g.tolerance {
			return Never, i
		}
		if wait := g.wait(o.ahead[i], cost); micros(wait) > after {
			after, by = micros(wait), i
		}
	}
	return after, by
}

// micros rounds a time up to whole microseconds, in which the server's clock
// counts: a nanosecond less and it might not have got there.
func micros(ns int64) time.Duration {
	const µs = int64(time.Microsecond)
	if part := ns % µs; part > 0 && ns < math.MaxInt64-µs {
		ns += µs - part
	}
	return time.Duration(ns)
}
