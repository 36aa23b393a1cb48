// Package glob matches the glob-style patterns of Redis.
package glob

// Match says whether s matches a glob-style pattern: ? one byte, * any bytes,
// [a-z] and [^a-z] one of a set, \ takes the next byte literally. Its time
// is at most the product of the lengths, however many stars there are.
func Match(pattern, s []byte) bool { return globber{}.match(pattern, s) }

// MatchFold is Match in any case of the letters of ASCII.
func MatchFold(pattern, s []byte) bool { return globber{fold: true}.match(pattern, s) }

type globber struct{ fold bool }

func (g globber) lower(b byte) byte {
	if g.fold && b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func (g globber) match(p, s []byte) bool {
	// After a star, only the last star needs to be tried again: what an
	// earlier one could match more, the later one can match as well.
	var starP, starS []byte
	star := false
	for {
		if len(p) > 0 && p[0] == '*' {
			for len(p) > 0 && p[0] == '*' {
				p = p[1:]
			}
			if len(p) == 0 {
				return true
			}
			star, starP, starS = true, p, s
			continue
		}
		if len(p) == 0 && len(s) == 0 {
			return true
		}
		if len(p) > 0 && len(s) > 0 {
			if rest, ok := g.one(p, s[0]); ok {
				p, s = rest, s[1:]
				continue
			}
		}
		if !star || len(starS) == 0 {
			return false
		}
		starS = starS[1:]
		p, s = starP, starS
	}
}

// one matches one byte against the head of the pattern, and returns the rest.
func (g globber) one(p []byte, b byte) ([]byte, bool) {
	switch p[0] {
	case '?':
		return p[1:], true
	case '[':
		return g.class(p[1:], b)
	case '\\':
		if len(p) >= 2 {
			p = p[1:]
		}
	}
	return p[1:], g.lower(p[0]) == g.lower(b)
}

// class matches a byte against what follows a [.
func (g globber) class(p []byte, b byte) ([]byte, bool) {
	not := len(p) > 0 && p[0] == '^'
	if not {
		p = p[1:]
	}
	found := false
	b = g.lower(b)
	for {
		switch {
		case len(p) >= 2 && p[0] == '\\':
			p = p[1:]
			found = found || p[0] == b
		case len(p) == 0:
			return p, found != not
		case p[0] == ']':
			return p[1:], found != not
		case len(p) >= 3 && p[1] == '-':
			from, to := g.lower(p[0]), g.lower(p[2])
			if from > to {
				from, to = to, from
			}
			found = found || b >= from && b <= to
			p = p[2:]
		default:
			found = found || g.lower(p[0]) == b
		}
		p = p[1:]
	}
}
