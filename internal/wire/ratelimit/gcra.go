package ratelimit

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// GCRA is the generic cell rate algorithm with one limit. A limit's whole
// state is the theoretical arrival time (TAT): when the last token taken so far
// would be due if tokens came evenly spaced. Taking n tokens moves it n
// intervals on, and is allowed while it stays within the tolerance of now.
//
// All times are whole nanoseconds.
type GCRA struct {
	Interval  int64 // emission interval: the time in which one token comes back
	Tolerance int64 // delay variation tolerance: interval × burst
}

// Cost is the increment of the TAT by n tokens. It saturates, which changes no
// decision: an increment above the tolerance is refused however large it is.
func (g GCRA) Cost(n int64) int64 { return Mul(g.Interval, n) }

// args appends what scripts take for one limit: the increment, then the
// tolerance.
func (g GCRA) args(to []string, increment int64) []string {
	incS, incNS := split(increment)
	return g.tolerated(append(to, incS, incNS))
}

// argsFor is args for n tokens, at least 0. The increment doesn't saturate at
// 292 years: with reservations more can be out, and a refund gives it back.
func (g GCRA) argsFor(to []string, n int64) []string {
	hi, lo := bits.Mul64(uint64(g.Interval), uint64(n)) //nolint:gosec // both are at least 0
	if hi >= second/2 {
		hi, lo = second/2-1, 0 // 2^63 seconds
	}
	s, ns := bits.Div64(hi, lo, second)
	return g.tolerated(append(to, strconv.FormatUint(s, 10), strconv.FormatUint(ns, 10)))
}

func (g GCRA) tolerated(to []string) []string {
	s, ns := split(g.Tolerance)
	return append(to, s, ns)
}

// now is how long gcra.lua is to wait for tokens that are taken now or not at
// all.
var now = []string{"0", "0"}

// gcraCmd is the script as a command, for a call with one limit. A peek, which
// takes nothing, may be sent again after a lost reply; anything else is sent
// once.
func gcraCmd(key string, args []string, increment int64) redoubt.Cmd {
	cmd := redoubt.Cmd{Script: gcraScript, Keys: []string{key}, Args: args}
	if increment == 0 {
		cmd.Flags = redoubt.ReadOnly
	}
	return cmd
}

// Outcome is the reply of a script.
type Outcome struct {
	// First is what the reply begins with: whether the call was allowed, or
	// how many tokens it took.
	First int64
	// Now is the server's time, in µs since 1970.
	Now int64
	// Ahead is how far the TAT of each limit is ahead of now, after the call.
	// It is negative when tokens were refused to a TAT that is past.
	Ahead [MaxLimits]int64
}

// readOutcome reads an array of 2 + 2 × limits integers.
func readOutcome(r redoubt.Reply, limits int) (o Outcome, err error) {
	var v [2 + 2*MaxLimits]int64
	if err := r.Ints(v[:2+2*limits]); err != nil {
		return Outcome{}, err
	}
	o.First, o.Now = v[0], v[1]
	for i := range limits {
		o.Ahead[i] = Add(Mul(v[2+2*i], second), v[3+2*i])
	}
	return o, nil
}

// Wait is how long after a refusal the same increment is allowed, if it is at
// most the tolerance; a larger one never is.
func (g GCRA) Wait(ahead, increment int64) int64 {
	return Add(ahead, increment-g.Tolerance)
}

// second in nanoseconds.
const second = 1_000_000_000

// split returns t as the two numbers that gcra.lua takes: seconds, rounded
// down, and nanoseconds.
func split(t int64) (s, ns string) {
	sec, nano := t/second, t%second
	if nano < 0 {
		sec, nano = sec-1, nano+second
	}
	return strconv.FormatInt(sec, 10), strconv.FormatInt(nano, 10)
}

// Mul multiplies and saturates.
func Mul(a, b int64) int64 {
	negative := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	switch {
	case hi != 0 || lo > math.MaxInt64:
		if negative {
			return math.MinInt64
		}
		return math.MaxInt64
	case negative:
		return -int64(lo)
	}
	return int64(lo)
}

// Add adds and saturates.
func Add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a) //nolint:gosec // two's complement: right for the least int64 too
	}
	return uint64(a)
}
