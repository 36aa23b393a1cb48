// Package glob matches the glob-style patterns of Redis.
package glob

import (
	"bytes"
	"math/bits"
)

// Match says whether s matches a glob-style pattern: ? one byte, * any bytes,
// [a-z] and [^a-z] one of a set, \ takes the next byte literally. It answers
// what Redis answers, but for patterns with more than a thousand stars, which
// Redis says match nothing.
//
// The time is that of the two lengths added up. Only what is between two stars
// and has a ? or a set in it takes longer: one step for each byte of s and each
// 64 bytes of the pattern.
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

// match goes from star to star. Each part between two is taken where it is
// found first: what is left for the others is then longest.
func (g globber) match(p, s []byte) bool {
	if len(s) == 0 {
		return len(p) == 0
	}
	p, n := g.prefix(p, s)
	if n < 0 {
		return false
	}
	s = s[n:]
	for len(p) > 0 {
		p = bytes.TrimLeft(p, "*")
		if len(p) == 0 {
			return true
		}
		part, width := g.part(p)
		p = p[len(part):]
		if len(p) == 0 {
			return len(s) >= width && g.here(part, s[len(s)-width:])
		}
		at := g.find(part, width, s)
		if at < 0 {
			return false
		}
		s = s[at+width:]
	}
	return len(s) == 0
}

// prefix matches what is in front of the first star, and returns the rest of
// the pattern and how many bytes of s that was, -1 for none that match.
func (g globber) prefix(p, s []byte) ([]byte, int) {
	n := 0
	for len(p) > 0 && p[0] != '*' {
		if n == len(s) {
			return p, -1
		}
		rest, ok := g.one(p, s[n])
		if !ok {
			return p, -1
		}
		p = rest
		n++
	}
	return p, n
}

// here reports whether a part without stars matches the beginning of s, which
// is long enough.
func (g globber) here(part, s []byte) bool {
	rest, n := g.prefix(part, s)
	return n >= 0 && len(rest) == 0
}

// part returns the pattern up to its next star, and how many bytes that matches.
func (g globber) part(p []byte) (part []byte, width int) {
	rest := p
	for len(rest) > 0 && rest[0] != '*' {
		rest, _ = g.one(rest, 0)
		width++
	}
	return p[:len(p)-len(rest)], width
}

// few is how many steps find takes before it changes to search.
const few = 1 << 12

// find returns the first place in s where part matches width bytes, or -1.
func (g globber) find(part []byte, width int, s []byte) int {
	if !g.fold && width == len(part) && !bytes.ContainsAny(part, `?[\`) {
		return bytes.Index(s, part)
	}
	at, places := 0, len(s)-width+1
	for ; at < min(places, few/len(part)); at++ {
		if g.here(part, s[at:]) {
			return at
		}
	}
	for at < places {
		n := min(places-at, 1<<10+4*len(part))
		if i := g.search(part, width, s[at:at+n+width-1]); i >= 0 {
			return at + i
		}
		at += n
	}
	return -1
}

// search is find for long texts. It goes over s once for each 64 elements of
// the part, with a bit for each element that has matched so far (Baeza-Yates
// and Gonnet, shift-and), and keeps the places where all were found.
func (g globber) search(part []byte, width int, s []byte) int {
	places := len(s) - width + 1
	var alive []uint64 // bit i: all elements so far match from s[i] on
	for done := 0; done < width; {
		n := min(64, width-done)
		var accept [256]uint64
		for e := range n {
			var rest []byte
			for b := range accept {
				var ok bool
				if rest, ok = g.one(part, byte(b)); ok {
					accept[b] |= 1 << e
				}
			}
			part = rest
		}
		found := make([]uint64, (places+63)/64)
		state, last, some := uint64(0), uint64(1)<<(n-1), false
		for i, b := range s[done : done+places+n-1] {
			state = (state<<1 | 1) & accept[b]
			if state&last != 0 {
				at := i - n + 1
				found[at/64] |= 1 << (at % 64)
			}
		}
		for i := range found {
			if alive != nil {
				found[i] &= alive[i]
			}
			some = some || found[i] != 0
		}
		if !some {
			return -1
		}
		alive = found
		done += n
	}
	for i, word := range alive {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
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
	for {
		switch {
		case len(p) >= 2 && p[0] == '\\':
			p = p[1:]
			found = found || p[0] == b // in its own case
		case len(p) == 0:
			return p, found != not
		case p[0] == ']':
			return p[1:], found != not
		case len(p) >= 3 && p[1] == '-':
			// Redis orders bytes as signed numbers, and before it changes their case.
			from, to := min(int8(p[0]), int8(p[2])), max(int8(p[0]), int8(p[2]))
			c := int8(g.lower(b))
			found = found || int8(g.lower(byte(from))) <= c && c <= int8(g.lower(byte(to)))
			p = p[2:]
		default:
			found = found || g.lower(p[0]) == g.lower(b)
		}
		p = p[1:]
	}
}
