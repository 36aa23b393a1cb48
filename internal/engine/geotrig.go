package engine

import "math"

// Redis computes distances by the sine, cosine and arcsine of glibc, which are correctly rounded nearly always. Package
// math's differ from these in the last bit of every fourth result. The functions below compute a result as the
// sum of two numbers, with an error of 2^-64 of it, and round that once.

// A double is the sum of two numbers. The second is small beside the first.
type double struct{ hi, lo float64 }

func (d double) rounded() float64 { return d.hi + d.lo }

// sum is a+b without an error.
func sum(a, b float64) double {
	s := a + b
	t := s - a
	return double{s, (a - (s - t)) + (b - t)}
}

// product is a*b, with an error of 2^-100 of it.
func product(a, b double) double {
	p := a.hi * b.hi
	return sum(p, math.FMA(a.hi, b.hi, -p)+(a.hi*b.lo+a.lo*b.hi))
}

// plus is d+e, with an error of 2^-100 of the larger one.
func (d double) plus(e double) double {
	s := sum(d.hi, e.hi)
	return sum(s.hi, s.lo+(d.lo+e.lo))
}

func (d double) negative() double { return double{-d.hi, -d.lo} }

// An angle has its sine and its cosine.
type angle struct{ sin, cos double }

var piDouble = double{math.Pi, 0x1.1a62633145c07p-53}

// angles are k/64 up to half of pi and a little more.
var angles = func() (all [102]angle) {
	step := angle{double{0x1.fffaaaaeeeed5p-7, -0x1.2ab639a9f0776p-63}, double{0x1.fff000155549fp-1, 0x1.28a28a03a5ef3p-55}}
	all[0].cos.hi = 1
	for k := 1; k < len(all); k++ {
		a := all[k-1]
		all[k] = angle{
			product(a.sin, step.cos).plus(product(a.cos, step.sin)),
			product(a.cos, step.cos).plus(product(a.sin, step.sin).negative()),
		}
	}
	return all
}()

// nearest returns the angle of the table that is nearest to x, how far x is beyond it, and for that
// t the sine of t less t, and the cosine less 1. x is from 0 to half of pi.
func nearest(x float64) (a *angle, t, sin, cos float64) {
	k := int(x*64 + .4999) // with .5, t would not be exact for x right below 1/128
	t = x - float64(k)/64
	z := t * t
	sin = t * z * (-1./6 + z*(1./120-z/5040))
	cos = z * (-.5 + z*(1./24+z*(-1./720+z/40320)))
	return &angles[k], t, sin, cos
}

// turn is a·cos(t+tail) + b·sin(t+tail), of what nearest says of t. tail is tiny.
func turn(a, b *double, t, tail, sin, cos float64) double {
	p := b.hi * t
	s := sum(a.hi, p)
	s.lo += math.FMA(b.hi, t, -p) + (a.lo + b.lo*t + (a.hi*cos + b.hi*sin) + (b.hi-a.hi*t)*tail)
	return s
}

// sine is the sine of x, which is from -pi to pi.
func sine(x float64) float64 {
	y, tail := math.Abs(x), 0.
	if y > math.Pi/2 {
		y, tail = piDouble.hi-y, piDouble.lo
	}
	a, t, sin, cos := nearest(y)
	return math.Copysign(turn(&a.sin, &a.cos, t, tail, sin, cos).rounded(), x)
}

// cosine is the cosine of x, which is from minus half of pi to half of pi. It is less exact beyond 1.5, where no latitude
// of a geohash is.
func cosine(x float64) float64 {
	a, t, sin, cos := nearest(math.Abs(x))
	minus := a.sin.negative()
	return turn(&a.cos, &minus, t, 0, sin, cos).rounded()
}

// arcsine is the arcsine of x, which is not negative, and not a number above 1.
func arcsine(x float64) float64 {
	if x <= .5 {
		return arcsineOf(double{x, 0}).rounded()
	}
	z := (1 - x) / 2
	switch {
	case z == 0:
		return math.Pi / 2
	case !(z > 0): // it may be no number
		return math.NaN()
	}
	root := math.Sqrt(z)
	y := arcsineOf(double{root, math.FMA(-root, root, z) / (2 * root)})
	r := sum(piDouble.hi/2, -2*y.hi)
	r.lo += piDouble.lo/2 - 2*y.lo
	return r.rounded()
}

// arcsineOf is the arcsine of x, which is from 0 to 1/2: one step of Newton's method.
func arcsineOf(x double) double {
	y := math.Asin(x.hi)
	a, t, sin, cos := nearest(y)
	s := turn(&a.sin, &a.cos, t, 0, sin, cos)
	minus := a.sin.negative()
	c := turn(&a.cos, &minus, t, 0, sin, cos).rounded()
	return double{y, ((x.hi - s.hi) - s.lo + x.lo) / c}
}
