package ratelimit

import (
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A Limit is a rate and a burst: Rate tokens come back in each Period, evenly
// spaced, and at most Burst are available at once.
//
// The time between two tokens, Period ÷ Rate, is cut to whole nanoseconds, as
// redis-cell does. So the rate is never lower than asked; it is exact where the
// division is, and otherwise faster by less than one part in a thousand up to
// 1,000,000 a second, and less still for slower rates. [New] refuses a limit
// that would be faster by more than one part in a hundred, which can happen
// only above 10,000,000 a second.
//
// In any time t at most Burst + t ÷ (Period ÷ Rate) tokens are given.
type Limit struct {
	// Rate is how many tokens come back in a Period: at least 1.
	Rate int
	// Period is more than 0.
	Period time.Duration
	// Burst is how many tokens are available at once, at least 1. Burst ×
	// Period ÷ Rate must be less than 292 years. Defaults to Rate.
	Burst int
}

// PerSecond returns a limit of n tokens a second, all of them available at
// once.
func PerSecond(n int) Limit { return Limit{Rate: n, Period: time.Second, Burst: n} }

// PerMinute returns a limit of n tokens a minute, all of them available at
// once.
func PerMinute(n int) Limit { return Limit{Rate: n, Period: time.Minute, Burst: n} }

// PerHour returns a limit of n tokens an hour, all of them available at once.
func PerHour(n int) Limit { return Limit{Rate: n, Period: time.Hour, Burst: n} }

// wireLimits returns limits as package wire has them.
func wireLimits(limit Limit, and []Limit) []wire.Limit {
	limits := make([]wire.Limit, 0, 1+len(and))
	limits = append(limits, wire.Limit(limit))
	for _, l := range and {
		limits = append(limits, wire.Limit(l))
	}
	return limits
}
