package ratelimit_test

import (
	"errors"
	"math/big"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// cell is CL.THROTTLE written down from its specification, in numbers that
// can't overflow. Times are nanoseconds.
type cell struct {
	tats map[string]*big.Int
}

func newCell() *cell { return &cell{tats: map[string]*big.Int{}} }

var (
	zero     = new(big.Int)
	maxInt64 = new(big.Int).SetUint64(1<<63 - 1)
	minInt64 = new(big.Int).Neg(new(big.Int).SetUint64(1 << 63))
)

func num(n int64) *big.Int          { return big.NewInt(n) }
func plus(a, b *big.Int) *big.Int   { return new(big.Int).Add(a, b) }
func minus(a, b *big.Int) *big.Int  { return new(big.Int).Sub(a, b) }
func times(a, b *big.Int) *big.Int  { return new(big.Int).Mul(a, b) }
func over(a, b *big.Int) *big.Int   { return new(big.Int).Quo(a, b) } // truncates
func more(a, b *big.Int) bool       { return a.Cmp(b) > 0 }
func later(a, b *big.Int) *big.Int  { return pick(more(a, b), a, b) }
func sooner(a, b *big.Int) *big.Int { return pick(more(a, b), b, a) }

func pick(first bool, a, b *big.Int) *big.Int {
	if first {
		return a
	}
	return b
}

// interval = trunc(float64(period × 10⁹) ÷ float64(count)), within int64.
func interval(count, period int64) *big.Int {
	if count == 0 {
		return zero
	}
	p, _ := new(big.Float).SetInt(times(num(period), num(1e9))).Float64()
	ei, _ := big.NewFloat(p / float64(count)).Int(nil)
	return later(minInt64, sooner(maxInt64, ei))
}

func (c *cell) throttle(key string, now *big.Int, maxBurst, count, period, quantity int64) (reply [5]int64, err error) {
	ei := interval(count, period)
	switch ei.Sign() {
	case 0:
		return reply, wire.ErrZeroRate
	case -1:
		return reply, wire.ErrNegativeRate
	}
	limit := sooner(maxInt64, plus(num(maxBurst), num(1)))
	dvt := times(ei, limit)
	if !more(maxInt64, dvt) || !more(dvt, minInt64) {
		return reply, wire.ErrTooLong
	}
	inc := times(ei, num(quantity))
	tat := c.tats[key]
	if tat == nil {
		tat = now
	}
	next := plus(later(now, tat), inc)
	limited := more(minus(next, dvt), now)
	ttl := minus(tat, now)
	if !limited {
		next = later(next, now) // nothing is stored up
		ttl = minus(next, now)
		if quantity != 0 {
			c.tats[key] = next
		}
	}
	ttl = later(minInt64, sooner(maxInt64, ttl))

	remaining := zero
	if left := minus(dvt, ttl); more(left, new(big.Int).Neg(ei)) {
		leftUS, eiUS := over(left, num(1000)), over(ei, num(1000))
		switch {
		case eiUS.Sign() != 0:
			remaining = over(leftUS, eiUS)
		case leftUS.Sign() > 0: // +Inf
			remaining = maxInt64
		}
		remaining = sooner(remaining, later(limit, zero))
	}
	retry := num(-1)
	if limited && !more(inc, dvt) {
		retry = seconds(minus(minus(next, dvt), now))
	}
	reply = [5]int64{0, limit.Int64(), remaining.Int64(), retry.Int64(), seconds(ttl).Int64()}
	if limited {
		reply[0] = 1
	}
	return reply, nil
}

// seconds truncates, and adds one if the millisecond part is above 0.
func seconds(ns *big.Int) *big.Int {
	s, part := new(big.Int).QuoRem(ns, num(1e9), new(big.Int))
	if over(part, num(1e6)).Sign() > 0 {
		return plus(s, num(1))
	}
	return s
}

// sameError tells whether both are nil or the same sentinel.
func sameError(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) }
