package lua

import "math"

func (st *state) openMath() {
	t := st.newTable(0, 32)
	fns := map[string]native{
		"atan2": mathAtan2, "fmod": mathFmod, "mod": mathFmod, "frexp": mathFrexp,
		"ldexp": mathLdexp, "max": mathMax, "min": mathMin, "modf": mathModf,
		"pow": mathPow, "random": mathRandom, "randomseed": mathRandomSeed,
	}
	const degree = math.Pi / 180
	for name, f := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": math.Acos, "asin": math.Asin, "atan": math.Atan,
		"ceil": math.Ceil, "cos": math.Cos, "cosh": math.Cosh, "exp": math.Exp,
		"floor": math.Floor, "log": math.Log, "log10": log10,
		"sin": math.Sin, "sinh": math.Sinh, "sqrt": math.Sqrt,
		"tan": math.Tan, "tanh": math.Tanh,
		"deg": func(x float64) float64 { return x / degree },
		"rad": func(x float64) float64 { return x * degree },
	} {
		fns[name] = func(l *thread) int {
			x := l.checkNum(1)
			r := f(x)
			if r != r {
				r = cNaN(name, x)
			}
			l.pushNum(r)
			return 1
		}
	}
	st.register(t, fns)
	t.setField(st, "pi", num(math.Pi))
	t.setField(st, "huge", num(math.Inf(1)))
	st.globals.setField(st, "math", value{o: t})
}

// cNaN is the NaN that a C function makes of x, with the sign that glibc
// gives it: tostring shows it.
func cNaN(name string, x float64) float64 {
	if x == x {
		switch name {
		case "asin", "acos", "log10":
			return math.NaN()
		}
		return math.Copysign(math.NaN(), -1)
	}
	if name == "abs" {
		return math.Copysign(x, 1)
	}
	return x
}

// nanOf is the NaN of an operation on a and b: theirs, or the processor's.
func nanOf(a, b float64) float64 {
	switch {
	case a != a:
		return a
	case b != b:
		return b
	}
	return math.Copysign(math.NaN(), -1)
}

// log10 is exact for powers of ten, as C's is.
func log10(x float64) float64 {
	r := math.Log10(x)
	if n := math.Round(r); math.Abs(r-n) < 1e-9 && n >= -300 && n <= 300 && math.Pow10(int(n)) == x {
		return n
	}
	return r
}

func mathAtan2(l *thread) int {
	y := l.checkNum(2) // C reads its arguments from the right, which shows in errors
	l.pushNum(math.Atan2(l.checkNum(1), y))
	return 1
}

func mathFmod(l *thread) int {
	y := l.checkNum(2)
	x := l.checkNum(1)
	r := math.Mod(x, y)
	if r != r {
		r = nanOf(x, y)
	}
	l.pushNum(r)
	return 1
}

func mathFrexp(l *thread) int {
	f, e := math.Frexp(l.checkNum(1))
	l.pushNum(f)
	l.pushNum(float64(e))
	return 2
}

func mathLdexp(l *thread) int {
	e := l.checkInt(2)
	l.pushNum(math.Ldexp(l.checkNum(1), e))
	return 1
}

func mathModf(l *thread) int {
	x := l.checkNum(1)
	if x != x {
		l.pushNum(x)
		l.pushNum(x)
		return 2
	}
	if math.IsInf(x, 0) {
		l.pushNum(x)
		l.pushNum(math.Copysign(0, x))
		return 2
	}
	i := math.Trunc(x)
	l.pushNum(i)
	l.pushNum(math.Copysign(x-i, x))
	return 2
}

func mathPow(l *thread) int {
	y := l.checkNum(2)
	l.pushNum(pow(l.checkNum(1), y))
	return 1
}

func mathMax(l *thread) int {
	m := l.checkNum(1)
	for i := 2; i <= l.nargs(); i++ {
		if x := l.checkNum(i); x > m {
			m = x
		}
	}
	l.pushNum(m)
	return 1
}

func mathMin(l *thread) int {
	m := l.checkNum(1)
	for i := 2; i <= l.nargs(); i++ {
		if x := l.checkNum(i); x < m {
			m = x
		}
	}
	l.pushNum(m)
	return 1
}

func mathRandom(l *thread) int {
	const limit = math.MaxInt32
	r := float64(l.st.rng.next()%limit) / limit
	switch l.nargs() {
	case 0:
		l.pushNum(r)
	case 1:
		u := l.checkInt(1)
		if u < 1 {
			l.argError(1, "interval is empty")
		}
		l.pushNum(math.Floor(float64(r*float64(u))) + 1)
	case 2:
		lo, up := l.checkInt(1), l.checkInt(2)
		if lo > up {
			l.argError(2, "interval is empty")
		}
		span := int32(up) - int32(lo) + 1
		l.pushNum(math.Floor(float64(r*float64(span))) + float64(lo))
	default:
		l.errorf("wrong number of arguments")
	}
	return 1
}

func mathRandomSeed(l *thread) int {
	l.st.rng.seed(int32(l.checkInt(1)))
	return 0
}
