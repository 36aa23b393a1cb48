package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"time"
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

// gcra returns the limit in the terms of the algorithm, or all that is wrong
// with it.
func (l Limit) gcra() (gcra, error) {
	var errs []error
	if l.Rate < 1 {
		errs = append(errs, fmt.Errorf("ratelimit: rate is %d; want at least 1", l.Rate))
	}
	if l.Period <= 0 {
		errs = append(errs, fmt.Errorf("ratelimit: period is %v; want more than 0", l.Period))
	}
	if l.Burst < 1 {
		errs = append(errs, fmt.Errorf("ratelimit: burst is %d; want at least 1", l.Burst))
	}
	if len(errs) > 0 {
		return gcra{}, errors.Join(errs...)
	}
	interval := int64(l.Period) / int64(l.Rate)
	// What is cut off each Period, all intervals together.
	cut := int64(l.Period) % int64(l.Rate)
	if cut > (int64(l.Period)-cut)/100 {
		return gcra{}, fmt.Errorf("ratelimit: rate of %d in %v is too fast: its interval, cut to whole nanoseconds, "+
			"would be off by more than 1%%; count in larger units", l.Rate, l.Period)
	}
	g := gcra{interval: interval, tolerance: mul(interval, int64(l.Burst))}
	if g.tolerance == math.MaxInt64 {
		return gcra{}, fmt.Errorf("ratelimit: burst is %d; at %d in %v it takes more than 292 years to come back",
			l.Burst, l.Rate, l.Period)
	}
	return g, nil
}
