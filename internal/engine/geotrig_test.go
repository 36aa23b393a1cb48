package engine

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const exactBits = 200

func exact(x float64) *big.Float { return new(big.Float).SetPrec(exactBits).SetFloat64(x) }

// exactSine sums the series of the sine, or of the cosine.
func exactSine(x *big.Float, isCosine bool) *big.Float { //nolint:revive // two functions in one
	square := new(big.Float).Mul(x, x)
	term, n := new(big.Float).Set(x), int64(1)
	if isCosine {
		term, n = exact(1), 0
	}
	total := new(big.Float).Set(term)
	for range 25 {
		term.Mul(term, square)
		term.Quo(term, exact(float64(-(n+1)*(n+2))))
		total.Add(total, term)
		n += 2
	}
	return total
}

// roundedFrom reports whether got is the exact value, correctly rounded, or one that is as near within a thousandth of a bit.
func roundedFrom(got float64, exactly *big.Float) bool {
	bit := math.Nextafter(math.Abs(got), math.Inf(1)) - math.Abs(got)
	off, _ := new(big.Float).Sub(exactly, exact(got)).Float64()
	return math.Abs(off) <= .501*bit
}

// TestTrigonometry: sine, cosine and arcsine are correctly rounded where distances need them.
func TestTrigonometry(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	check := func(x float64) {
		t.Helper()
		if y := sine(x); !roundedFrom(y, exactSine(exact(x), false)) {
			t.Errorf("sine of %v: %v", x, y)
		}
		if sine(-x) != -sine(x) {
			t.Errorf("sine of %v", -x)
		}
		if x > math.Pi/2 {
			return
		}
		if cosine(-x) != cosine(x) {
			t.Errorf("cosine of %v", -x)
		}
		if y := cosine(x); x <= 1.5 && !roundedFrom(y, exactSine(exact(x), true)) {
			t.Errorf("cosine of %v: %v", x, y)
		}
		s := math.Min(x/(math.Pi/2), 1)
		y := arcsine(s)
		// One step of Newton's method from y: its error is the square of y's.
		off := new(big.Float).Sub(exact(s), exactSine(exact(y), false))
		if s < 1 && !roundedFrom(y, new(big.Float).Add(exact(y), off.Quo(off, exactSine(exact(y), true)))) {
			t.Errorf("arcsine of %v: %v", s, y)
		}
	}
	for k := range 203 { // the points of the table, between them, and beside these
		for _, x := range []float64{float64(k) / 128, math.Nextafter(float64(k)/128, 2), math.Nextafter(float64(k)/128, 0)} {
			check(x)
		}
	}
	for _, x := range []float64{math.Pi, math.Nextafter(math.Pi, 0), math.Pi / 2, math.Nextafter(math.Pi/2, 0), math.Nextafter(math.Pi/2, 4), 1e-9, 1e-300} {
		check(x)
	}
	for range 1000 {
		check(rng.Float64() * math.Pi)
		check(rng.Float64() * math.Pi / 2)
		check(math.Ldexp(rng.Float64(), -rng.IntN(60)))
		check(math.Pi/2 - math.Ldexp(rng.Float64(), -rng.IntN(50)))
	}
	if arcsine(1) != math.Pi/2 || !math.IsNaN(arcsine(1.5)) || !math.IsNaN(arcsine(math.NaN())) {
		t.Error("arcsine at its end")
	}
}
