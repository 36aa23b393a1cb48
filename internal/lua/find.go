package lua

import "strings"

// find, match, gmatch and gsub.

// capture is what capture i matched, the whole match when there are none.
func (m *matcher) capture(i, s, e int) value {
	if i >= m.level {
		if i != 0 {
			m.fail("invalid capture index")
		}
		return m.l.st.part(m.src, m.src[s:e])
	}
	c := m.caps[i]
	switch c.n {
	case capUnfinished:
		m.fail("unfinished capture")
	case capPosition:
		return num(float64(c.start + 1))
	}
	return m.l.st.part(m.src, m.src[c.start:c.start+c.n])
}

// pushCaptures pushes all captures; whole adds the match when there are none.
func (m *matcher) pushCaptures(s, e int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.l.push(m.capture(i, s, e))
	}
	return n
}

func startPos(pos int64, n int) int64 {
	if pos < 0 {
		pos += int64(n) + 1
	}
	return max(pos, 0)
}

func (l *thread) find(find bool) int {
	s, p := l.checkStr(1), l.checkStr(2)
	init := startPos(l.optInt64(3, 1), len(s)) - 1
	init = min(max(init, 0), int64(len(s)))
	plain := l.arg(4)
	l.st.workSlow(len(p)) // that looks for special characters
	if find && (!plain.falsy() || !strings.ContainsAny(cString(p), "^$*+?.([%-")) {
		if i := l.st.indexIn(s[init:], p); i >= 0 {
			l.pushNum(float64(int(init) + i + 1))
			l.pushNum(float64(int(init) + i + len(p)))
			return 2
		}
		l.push(vNil)
		return 1
	}
	p = cString(p)
	m := matcher{l: l, src: s, pat: p}
	held := l.st.held
	n := m.search(int(init), find)
	l.st.held = held
	return n
}

// search looks for the first match from at on, and pushes what find or match
// return.
func (m *matcher) search(at int, find bool) int {
	l, s, p := m.l, m.src, m.pat
	anchor := 0
	if p != "" && p[0] == '^' {
		anchor = 1
	}
	for ; ; at++ {
		m.level = 0
		if e := m.match(at, anchor); e >= 0 {
			if find {
				l.pushNum(float64(at + 1))
				l.pushNum(float64(e))
				return m.pushCaptures(0, 0, false) + 2
			}
			return m.pushCaptures(at, e, true)
		}
		if at >= len(s) || anchor > 0 {
			break
		}
	}
	l.push(vNil)
	return 1
}

func strFind(l *thread) int  { return l.find(true) }
func strMatch(l *thread) int { return l.find(false) }

func strGmatch(l *thread) int {
	l.checkStr(1)
	l.checkStr(2)
	l.push(l.st.closure("gmatch", gmatchStep, l.arg(1), l.arg(2), num(0)))
	return 1
}

func gmatchStep(l *thread) int {
	ups := l.ci.nat.ups
	s, _ := toText(&ups[0])
	p, _ := toText(&ups[1])
	l.st.workBytes(len(p))
	m := matcher{l: l, src: s, pat: cString(p)}
	held := l.st.held
	n := 0
	for at := int(ups[2].n); at <= len(s); at++ {
		m.level = 0
		if e := m.match(at, 0); e >= 0 {
			next := e
			if e == at {
				next++
			}
			ups[2].n = float64(next)
			n = m.pushCaptures(at, e, true)
			break
		}
	}
	l.st.held = held
	return n
}

func strGsub(l *thread) int {
	src, pat := l.checkStr(1), l.checkCString(2)
	repl := l.arg(3)
	limit := l.optInt(4, len(src)+1)
	switch repl.o.(type) {
	case number, *str, *table, *luaFn, *goFn:
	default:
		l.argError(3, "string/function/table expected")
	}
	anchor := pat != "" && pat[0] == '^'
	m := matcher{l: l, src: src, pat: pat}
	p := 0
	if anchor {
		p = 1
	}
	var out []byte
	held := l.st.held
	n, at := 0, 0
	for n < limit {
		m.level = 0
		e := m.match(at, p)
		if e >= 0 {
			n++
			out = m.replacement(out, repl, at, e)
		}
		if e > at {
			at = e
		} else if at < len(src) {
			out = append(l.st.room(out, 1), src[at])
			at++
		} else {
			break
		}
		if anchor {
			break
		}
	}
	if at < len(src) {
		l.st.workBytes(len(src) - at)
		out = append(l.st.room(out, len(src)-at), src[at:]...)
	}
	l.push(l.st.bytes(out))
	l.st.held = held
	l.pushNum(float64(n))
	return 2
}

// replacement appends what gsub puts for the match from s to e.
func (m *matcher) replacement(out []byte, repl value, s, e int) []byte {
	l := m.l
	var v value
	switch r := repl.o.(type) {
	case *luaFn, *goFn:
		fn := l.top
		l.push(repl)
		m.pushCaptures(s, e, true)
		l.call(fn, 1)
		v = l.stack[fn]
		l.top = fn
	case *table:
		v = l.index(repl, m.capture(0, s, e), -1)
	default:
		text, _ := toText(&value{n: repl.n, o: r})
		for text != "" {
			i := strings.IndexByte(text, esc)
			if i < 0 {
				return m.put(out, text)
			}
			out = m.put(out, text[:i])
			var c byte
			if text = text[i+1:]; text != "" {
				c, text = text[0], text[1:]
			}
			l.st.work(1)
			switch {
			case !isDigit(c):
				out = append(l.st.room(out, 1), c)
			case c == '0':
				out = m.put(out, m.src[s:e])
			default:
				v := m.capture(int(c-'1'), s, e)
				t, _ := toText(&v)
				out = m.put(out, t)
			}
		}
		return out
	}
	if v.falsy() {
		return m.put(out, m.src[s:e])
	}
	t, ok := toText(&v)
	if !ok {
		l.errorf("invalid replacement value (a %s)", kindName(v))
	}
	return m.put(out, t)
}

// put appends a text to the result of gsub.
func (m *matcher) put(out []byte, text string) []byte {
	m.l.st.workBytes(len(text))
	return append(m.l.st.room(out, len(text)), text...)
}

// longNeedle is how many bytes of a text indexIn searches for at once. It compares the rest
// where it finds them.
const longNeedle = 1 << 10

// indexIn is strings.Index, in stretches. It counts only the bytes that it has
// read.
func (st *state) indexIn(s, p string) int {
	head := p[:min(len(p), longNeedle)]
	const most = 16 * stretch
	for from := 0; len(s)-from >= len(p); {
		part := s[from:min(len(s), from+most+len(head)-1)]
		i := strings.Index(part, head)
		if i < 0 {
			st.workSlow(len(part))
			from += most
			continue
		}
		st.workSlow(i)
		st.workBytes(len(head))
		if from += i; len(s)-from < len(p) {
			return -1
		}
		if st.hasPrefix(s[from+len(head):], p[len(head):]) {
			return from
		}
		from++
	}
	return -1
}

// hasPrefix is strings.HasPrefix, in stretches.
func (st *state) hasPrefix(s, p string) bool {
	for ; p != ""; s, p = s[min(stretch, len(p)):], p[min(stretch, len(p)):] {
		n := min(stretch, len(p))
		st.workBytes(n)
		if s[:n] != p[:n] {
			return false
		}
	}
	return true
}
