package lua

// A matcher matches one Lua pattern. Its positions are byte offsets.
type matcher struct {
	l     *thread
	src   string
	pat   string
	level int
	depth int
	held  int // the depth whose Go stack is counted
	caps  [maxCaptures]capture
}

type capture struct{ start, n int }

const (
	maxCaptures   = 32
	capUnfinished = -1
	capPosition   = -2
	// maxMatchDepth bounds recursion, which grows with the items of a pattern.
	// C Lua 5.1 has no bound and overflows the C stack somewhere beyond.
	maxMatchDepth = 20000
)

const esc = '%'

func (m *matcher) fail(msg string) { m.l.errorf("%s", msg) }

// match tries the pattern from p at s, and returns where the match ends or -1.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > m.held {
		m.deeper()
	}
	r := m.items(s, p)
	m.depth--
	return r
}

// deeper counts what recursion takes of Go's stack, until the native ends.
func (m *matcher) deeper() {
	const more = 100
	if m.depth > maxMatchDepth {
		m.fail("pattern too complex")
	}
	if m.held += more; m.held > more {
		m.l.st.hold(more * goFrame)
	}
}

// items matches one pattern item after another; what may have to be tried
// more than one way goes through match.
func (m *matcher) items(s, p int) int {
	for {
		m.l.st.fuel--
		if m.l.st.fuel < 0 {
			m.l.st.refuel()
		}
		if p == len(m.pat) {
			return s
		}
		switch m.pat[p] {
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.open(s, p+2, capPosition)
			}
			return m.open(s, p+1, capUnfinished)
		case ')':
			return m.close(s, p+1)
		case esc:
			if p+1 < len(m.pat) {
				switch c := m.pat[p+1]; {
				case c == 'b':
					if s = m.balance(s, p+2); s < 0 {
						return -1
					}
					p += 4
					continue
				case c == 'f':
					p += 2
					if p >= len(m.pat) || m.pat[p] != '[' {
						m.fail("missing '[' after '%f' in pattern")
					}
					ep := m.classEnd(p)
					var prev, cur byte
					if s > 0 {
						prev = m.src[s-1]
					}
					if s < len(m.src) {
						cur = m.src[s]
					}
					if m.inSet(prev, p, ep-1) || !m.inSet(cur, p, ep-1) {
						return -1
					}
					p = ep
					continue
				case isDigit(c):
					if s = m.backref(s, c); s < 0 {
						return -1
					}
					p += 2
					continue
				}
			}
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		}
		ep := m.classEnd(p)
		one := s < len(m.src) && m.single(m.src[s], p, ep)
		var rep byte
		if ep < len(m.pat) {
			rep = m.pat[ep]
		}
		switch rep {
		case '?':
			if one {
				if r := m.match(s+1, ep+1); r >= 0 {
					return r
				}
			}
			p = ep + 1
		case '*':
			return m.maxExpand(s, p, ep)
		case '+':
			if !one {
				return -1
			}
			return m.maxExpand(s+1, p, ep)
		case '-':
			return m.minExpand(s, p, ep)
		default:
			if !one {
				return -1
			}
			s++
			p = ep
		}
	}
}

func (m *matcher) maxExpand(s, p, ep int) int {
	i, counted := 0, 0
	for s+i < len(m.src) && m.single(m.src[s+i], p, ep) {
		if i++; i-counted == stretch {
			m.l.st.workSlow(stretch)
			counted = i
		}
	}
	m.l.st.workSlow(i - counted)
	for ; i >= 0; i-- {
		if r := m.match(s+i, ep+1); r >= 0 {
			return r
		}
	}
	return -1
}

func (m *matcher) minExpand(s, p, ep int) int {
	for {
		if r := m.match(s, ep+1); r >= 0 {
			return r
		}
		if s >= len(m.src) || !m.single(m.src[s], p, ep) {
			return -1
		}
		s++
	}
}

func (m *matcher) open(s, p, what int) int {
	if m.level >= maxCaptures {
		m.fail("too many captures")
	}
	m.caps[m.level] = capture{s, what}
	m.level++
	r := m.match(s, p)
	if r < 0 {
		m.level--
	}
	return r
}

func (m *matcher) close(s, p int) int {
	i := m.level - 1
	for ; i >= 0 && m.caps[i].n != capUnfinished; i-- {
	}
	if i < 0 {
		m.fail("invalid pattern capture")
	}
	m.caps[i].n = s - m.caps[i].start
	r := m.match(s, p)
	if r < 0 {
		m.caps[i].n = capUnfinished
	}
	return r
}

func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		m.fail("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	b, e, nest := m.pat[p], m.pat[p+1], 1
	n := m.l.st.span(m.src[s+1:], func(c byte) bool {
		switch c {
		case e:
			nest--
		case b:
			nest++
		}
		return nest > 0
	})
	if nest > 0 {
		return -1
	}
	return s + 1 + n + 1
}

func (m *matcher) backref(s int, c byte) int {
	i := int(c) - '1'
	if i < 0 || i >= m.level || m.caps[i].n == capUnfinished {
		m.fail("invalid capture index")
	}
	n := m.caps[i].n
	if n < 0 { // a position capture has a huge length in C
		return -1
	}
	m.l.st.workBytes(n)
	if len(m.src)-s >= n && m.src[m.caps[i].start:m.caps[i].start+n] == m.src[s:s+n] {
		return s + n
	}
	return -1
}

// classEnd is where the single-character class that begins at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case esc:
		if p >= len(m.pat) {
			m.fail("malformed pattern (ends with '%')")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		from := p
		for first := true; first || p >= len(m.pat) || m.pat[p] != ']'; first = false {
			if p-from > stretch {
				m.l.st.workSlow(p - from)
				from = p
			}
			if p >= len(m.pat) {
				m.fail("malformed pattern (missing ']')")
			}
			c := m.pat[p]
			p++
			if c == esc && p < len(m.pat) {
				p++
			}
		}
		m.l.st.workSlow(p - from)
		return p + 1
	}
	return p
}

func (m *matcher) single(c byte, p, ep int) bool {
	switch m.pat[p] {
	case '.':
		return true
	case esc:
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, ep-1)
	}
	return m.pat[p] == c
}

// inSet matches c with the set from p, '[', to ec, its ']'.
func (m *matcher) inSet(c byte, p, ec int) bool {
	sig := true
	p++
	if m.pat[p] == '^' {
		sig = false
		p++
	}
	for count := 0; p < ec; p++ {
		if count++; count%slowPerStep == 0 {
			m.l.st.work(1)
		}
		switch {
		case m.pat[p] == esc:
			p++
			if p < len(m.pat) && inClass(c, m.pat[p]) {
				return sig
			}
		case p+2 < ec && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return sig
			}
			p += 2
		case m.pat[p] == c:
			return sig
		}
	}
	return !sig
}

func inClass(c, cl byte) bool {
	var is bool
	switch cl | 0x20 {
	case 'a':
		is = isAlpha(c)
	case 'c':
		is = c < 32 || c == 127
	case 'd':
		is = isDigit(c)
	case 'l':
		is = c >= 'a' && c <= 'z'
	case 'p':
		is = c > 32 && c < 127 && !isAlnum(c)
	case 's':
		is = isSpace(c)
	case 'u':
		is = c >= 'A' && c <= 'Z'
	case 'w':
		is = isAlnum(c)
	case 'x':
		is = digitVal(c) < 16
	case 'z':
		is = c == 0
	default:
		return cl == c
	}
	if !isAlpha(cl) {
		return cl == c
	}
	if cl >= 'A' && cl <= 'Z' {
		return !is
	}
	return is
}
