package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Never is the RetryAfter of a call for more tokens than a limit ever has at
// once.
const Never time.Duration = -1

// A Decision is the answer to one call.
type Decision struct {
	Allowed    bool
	Taken      int
	Limit      Limit // the one that the call has come closest to
	Violated   int   // the place of the limit that refuses longest; -1 when allowed
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Decide turns the outcome of a call for n tokens into a Decision. A call for none answers for one
// token.
func (t *Terms) Decide(o Outcome, taken, n int64) Decision {
	d := Decision{Allowed: o.First > 0, Taken: int(taken), Violated: -1, Remaining: math.MaxInt}
	closest := 0
	for i, g := range t.Rates {
		ahead := max(o.Ahead[i], 0)
		left := int(max(g.Tolerance-ahead, 0) / g.Interval)
		if left < d.Remaining {
			d.Remaining, closest = left, i
		}
		d.ResetAfter = max(d.ResetAfter, Micros(ahead))
	}
	if n == 0 {
		n, d.Allowed = 1, d.Remaining > 0
	}
	if !d.Allowed {
		d.RetryAfter, closest = t.Retry(o, n)
		d.Violated = closest
	}
	d.Limit = t.Limits[closest]
	return d
}

// Retry returns how long after a refusal n tokens are allowed, and the limit that takes so long.
func (t *Terms) Retry(o Outcome, n int64) (after time.Duration, by int) {
	for i, g := range t.Rates {
		cost := g.Cost(n)
		if cost > g.Tolerance {
			return Never, i
		}
		if wait := g.Wait(o.Ahead[i], cost); Micros(wait) > after {
			after, by = Micros(wait), i
		}
	}
	return after, by
}

// Refuse is the refusal of n tokens by the outcome of a call some time ago.
func (t *Terms) Refuse(o Outcome, n int64, passed time.Duration) Decision {
	o.First = 0
	// Cut to microseconds, because RetryAfter was rounded up to microseconds.
	passed = passed.Truncate(time.Microsecond)
	for i := range t.Rates {
		o.Ahead[i] -= int64(passed)
	}
	return t.Decide(o, 0, n)
}

// Delay is how long after the call the tokens of an outcome are there.
func (t *Terms) Delay(o Outcome) (d time.Duration) {
	for i, g := range t.Rates {
		d = max(d, Micros(Add(o.Ahead[i], -g.Tolerance)))
	}
	return d
}

// TATs are the theoretical arrival times of an outcome, as the key has them.
func (t *Terms) TATs(o Outcome) string {
	var b strings.Builder
	for i := range t.Rates {
		if i > 0 {
			b.WriteByte(' ')
		}
		s, ns := o.Ahead[i]/second+o.Now/1e6, o.Ahead[i]%second+o.Now%1e6*1000
		fmt.Fprintf(&b, "%d%09d", s+ns/second, ns%second)
	}
	return b.String()
}

// Micros rounds a time up to whole microseconds, the unit of the server's clock, so that the clock
// has reached it.
func Micros(ns int64) time.Duration {
	const µs = int64(time.Microsecond)
	if part := ns % µs; part > 0 && ns < math.MaxInt64-µs {
		ns += µs - part
	}
	return time.Duration(ns)
}
