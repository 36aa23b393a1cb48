package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxLimits is how many limits a call may be held to at once.
const MaxLimits = 8

// A Limit is a rate and a burst: Rate tokens come back in each Period, and at most Burst are
// available at once.
type Limit struct {
	Rate   int
	Period time.Duration
	Burst  int
}

// gcra returns the limit in the terms of the algorithm. The error joins all that is wrong with it.
func (l Limit) gcra() (GCRA, error) {
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
		return GCRA{}, errors.Join(errs...)
	}
	interval := int64(l.Period) / int64(l.Rate)
	// The part of each Period that is cut off, all intervals together.
	cut := int64(l.Period) % int64(l.Rate)
	if cut > (int64(l.Period)-cut)/100 {
		return GCRA{}, fmt.Errorf("ratelimit: rate of %d in %v is too fast: its interval, cut to whole nanoseconds, "+
			"would be off by more than 1%%; count in larger units", l.Rate, l.Period)
	}
	g := GCRA{Interval: interval, Tolerance: Mul(interval, int64(l.Burst))}
	if g.Tolerance == math.MaxInt64 {
		return GCRA{}, fmt.Errorf("ratelimit: burst is %d; at %d in %v it takes more than 292 years to come back",
			l.Burst, l.Rate, l.Period)
	}
	return g, nil
}

// Terms are the limits that decide a call.
type Terms struct {
	Limits []Limit
	Rates  []GCRA // of each limit
}

// NewTerms checks limits, the Limit of the options and then And, and fills in their bursts.
func NewTerms(limits []Limit) (Terms, error) {
	if len(limits) > MaxLimits {
		return Terms{}, fmt.Errorf("ratelimit: %d limits at once; want at most %d", len(limits), MaxLimits)
	}
	var t Terms
	var errs []error
	for i, l := range limits {
		if l.Burst == 0 {
			l.Burst = l.Rate
		}
		g, err := l.gcra()
		if err != nil && i > 0 {
			err = fmt.Errorf("limit %d of And: %w", i-1, err)
		}
		t.Limits, t.Rates, errs = append(t.Limits, l), append(t.Rates, g), append(errs, err)
	}
	return t, errors.Join(errs...)
}

// Args returns lead and the arguments of gcra.lua for n tokens, at least 0.
func (t *Terms) Args(lead []string, n int64) []string {
	args := slices.Grow(slices.Clone(lead), 4*len(t.Rates))
	for _, g := range t.Rates {
		args = g.argsFor(args, n)
	}
	return args
}

// String returns the limits as the server keeps them. Each has its rate, period in ns and burst, for
// [ParseTerms], and its interval and tolerance, each in seconds and ns, for the scripts.
func (t *Terms) String() string {
	var words []string
	for i, l := range t.Limits {
		words = append(words, strconv.Itoa(l.Rate), strconv.FormatInt(int64(l.Period), 10), strconv.Itoa(l.Burst))
		words = t.Rates[i].args(words, t.Rates[i].Interval)
	}
	return strings.Join(words, " ")
}

// ParseTerms reads the text of String.
func ParseTerms(text string) (Terms, error) {
	var limits []Limit
	words := strings.Fields(text)
	for ; len(words) >= 7; words = words[7:] {
		var n [3]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
				return Terms{}, fmt.Errorf("ratelimit: stored limit: %w", err)
			}
		}
		limits = append(limits, Limit{Rate: int(n[0]), Period: time.Duration(n[1]), Burst: int(n[2])})
	}
	if len(limits) == 0 || len(words) != 0 {
		return Terms{}, fmt.Errorf("ratelimit: stored limits %q are none", text)
	}
	return NewTerms(limits)
}
