package ratelimit

import (
	"errors"
	"math"
	"math/big"

	"github.com/redoubt-go/redoubt"
)

var (
	// ErrZeroRate is returned by [NewThrottle] for a count or a period of
	// zero, or for more than one token a nanosecond.
	ErrZeroRate = errors.New("ratelimit: zero rate")

	// ErrNegativeRate is returned by [NewThrottle] when either the count or
	// the period is negative.
	ErrNegativeRate = errors.New("ratelimit: negative rate")

	// ErrTooLong is returned by [NewThrottle] for a burst that takes more
	// than 292 years to come back: 64 bits of nanoseconds.
	ErrTooLong = errors.New("ratelimit: burst takes more than 292 years to come back")
)

// A Throttle is one call of CL.THROTTLE, the command of the redis-cell module,
// with the module's arithmetic. It runs the script that a [Limiter] runs.
//
// It differs from the module where the module does harm: a negative rate is
// refused before anything is written, tokens given back beyond those taken are
// dropped, products don't overflow, and at most the limit is said to remain.
type Throttle struct {
	gcra      GCRA
	limit     int64 // tokens available at once
	increment int64
}

// NewThrottle returns the call for quantity tokens under a limit of count
// tokens in period seconds, with maxBurst + 1 available at once. A quantity of 0 takes nothing, a
// negative one gives back. The error is [ErrZeroRate],
// [ErrNegativeRate] or [ErrTooLong].
func NewThrottle(maxBurst, count, period, quantity int64) (Throttle, error) {
	interval := cellInterval(count, period)
	switch {
	case interval == 0:
		return Throttle{}, ErrZeroRate
	case interval < 0:
		return Throttle{}, ErrNegativeRate
	}
	limit := Add(maxBurst, 1)
	g := GCRA{Interval: interval, Tolerance: Mul(interval, limit)}
	if g.Tolerance == math.MaxInt64 || g.Tolerance == math.MinInt64 {
		return Throttle{}, ErrTooLong
	}
	return Throttle{gcra: g, limit: limit, increment: g.Cost(quantity)}, nil
}

// cellInterval is the module's emission interval: a quotient of doubles,
// truncated, and 0 without a count.
func cellInterval(count, period int64) int64 {
	if count == 0 {
		return 0
	}
	const exact = math.MaxInt64 / second // seconds
	ns := float64(period * second)
	if period > exact || period < -exact {
		product := new(big.Int).Mul(big.NewInt(period), big.NewInt(second))
		ns, _ = new(big.Float).SetInt(product).Float64() // rounds once, as a conversion does
	}
	switch f := ns / float64(count); {
	case f >= math.MaxInt64: // which is 2^63 as a double
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	default:
		return int64(f)
	}
}

// Takes reports whether the call takes tokens, and does not only look or give back.
func (t Throttle) Takes() bool { return t.increment > 0 }

// Cmd returns the call as a command on key, which is used unchanged.
func (t Throttle) Cmd(key string) redoubt.Cmd {
	args := make([]string, 0, 6) // all that there will be: it need not grow
	return gcraCmd(key, t.gcra.args(append(args, now...), t.increment), t.increment)
}

// Reply turns the reply to [Throttle.Cmd] into that of CL.THROTTLE: limited 0
// or 1, limit, remaining, seconds until a retry succeeds or −1, seconds until
// the limit is as good as new.
//
// Seconds are cut, and one is added only for a part of at least a millisecond:
// a limited caller may be told to retry after 0 s.
func (t Throttle) Reply(r redoubt.Reply) ([5]int64, error) {
	o, err := readOutcome(r, 1)
	if err != nil {
		return [5]int64{}, err
	}
	reset := o.Ahead[0]
	reply := [5]int64{0, t.limit, t.remaining(reset), -1, cellSeconds(reset)}
	if o.First == 0 {
		reply[0] = 1
		if t.increment <= t.gcra.Tolerance {
			reply[3] = cellSeconds(t.gcra.Wait(reset, t.increment))
		}
	}
	return reply, nil
}

// remaining counts whole µs, as the module does, so that it is coarse for
// intervals of few µs.
func (t Throttle) remaining(reset int64) int64 {
	next := Add(t.gcra.Tolerance, -reset)
	if next <= -t.gcra.Interval {
		return 0
	}
	most := max(t.limit, 0)
	next, interval := next/1000, t.gcra.Interval/1000
	switch {
	case interval != 0:
		return min(next/interval, most)
	case next > 0: // the module's division gives +Inf
		return most
	}
	return 0
}

func cellSeconds(ns int64) int64 {
	s := ns / second
	if ns%second >= 1_000_000 {
		s++
	}
	return s
}
