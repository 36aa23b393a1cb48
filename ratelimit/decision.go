package ratelimit

import (
	"math"
	"time"
)

// Never is the RetryAfter of a call for more tokens than the burst.
const Never time.Duration = -1

// A Decision is the answer to one call. Being refused is no error.
type Decision struct {
	// Allowed tells whether the tokens were taken. After Peek: whether there
	// is a token to take.
	Allowed bool
	// Limit is the one that decided, its Burst filled in.
	Limit Limit
	// Remaining is how many tokens are left now: 0 to Limit.Burst.
	Remaining int
	// RetryAfter is 0 when allowed, and [Never] when the call asked for more
	// than Limit.Burst. Otherwise it is the time after which the same call is
	// allowed, if nobody else takes tokens and the limit stays the same.
	RetryAfter time.Duration
	// ResetAfter is the time after which all tokens are back, if nobody takes
	// any.
	ResetAfter time.Duration
}

// decide turns the outcome of a call for n tokens into a Decision. A peek takes
// nothing and answers for one token.
func (l *Limiter) decide(o outcome, n int) Decision {
	ahead := max(o.reset, 0)
	d := Decision{
		Allowed:    o.allowed,
		Limit:      l.limit,
		Remaining:  int(max(l.gcra.tolerance-ahead, 0) / l.gcra.interval),
		ResetAfter: micros(ahead),
	}
	if n == 0 {
		n, d.Allowed = 1, d.Remaining > 0
	}
	switch cost := l.gcra.cost(int64(n)); {
	case d.Allowed:
	case cost > l.gcra.tolerance:
		d.RetryAfter = Never
	default:
		d.RetryAfter = micros(l.gcra.wait(o, cost))
	}
	return d
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
