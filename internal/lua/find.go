package lua

import "strings"

// find, match, gmatch and gsub.

// capture is what capture i matched, the whole match when there are none.
func (m *matcher) capture(i, s, e int) value {
	if i >= m.level {
		if i != 0 {
			m.fail("invalid capture index")
		}
		return m.l.st.str(m.src[s:e])
	}
	c := m.caps[i]
	switch c.n {
	case capUnfinished:
		m.fail("unfinished capture")
	case capPosition:
		return num(float64(c.start + 1))
	}
	return m.l.st.str(m.src[c.start : c.start+c.n])
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
	if find && (!plain.falsy() || !strings.ContainsAny(cString(p), "^$*+?.([%-")) {
		l.st.work(len(s) / 256)
		if i := strings.Index(s[init:], p); i >= 0 {
			l.pushNum(float64(int(init) + i + 1))
			l.pushNum(float64(int(init) + i + len(p)))
			return 2
		}
		l.push(vNil)
		return 1
	}
	p = cString(p)
	m := matcher{l: l, src: s, pat: p}
	anchor := 0
	if p != "" && p[0] == '^' {
		anchor = 1
	}
	for at := int(init); ; at++ {
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
	s, p := l.checkStr(1), l.checkStr(2)
	st := l.st
	l.push(value{o: &goFn{name: "gmatch", fn: gmatchStep, id: st.newID(),
		ups: []value{st.str(s), st.str(p), num(0)}}})
	return 1
}

func gmatchStep(l *thread) int {
	ups := l.ci.nat.ups
	s, _ := toText(&ups[0])
	p, _ := toText(&ups[1])
	m := matcher{l: l, src: s, pat: cString(p)}
	for at := int(ups[2].n); at <= len(s); at++ {
		m.level = 0
		if e := m.match(at, 0); e >= 0 {
			next := e
			if e == at {
				next++
			}
			ups[2].n = float64(next)
			return m.pushCaptures(at, e, true)
		}
	}
	return 0
}

func strGsub(l *thread) int {
	src, pat := l.checkStr(1), cString(l.checkStr(2))
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
			out = append(out, src[at])
			at++
		} else {
			break
		}
		if anchor {
			break
		}
	}
	if at < len(src) {
		out = append(out, src[at:]...)
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
		l.st.hold(len(text))
		for i := 0; i < len(text); i++ {
			c := text[i]
			if c != esc {
				out = append(out, c)
				continue
			}
			i++
			c = 0
			if i < len(text) {
				c = text[i]
			}
			switch {
			case !isDigit(c):
				out = append(out, c)
			case c == '0':
				l.st.hold(e - s)
				out = append(out, m.src[s:e]...)
			default:
				v := m.capture(int(c-'1'), s, e)
				t, _ := toText(&v)
				l.st.hold(len(t))
				out = append(out, t...)
			}
		}
		return out
	}
	if v.falsy() {
		return append(out, m.src[s:e]...)
	}
	t, ok := toText(&v)
	l.st.hold(len(t))
	if !ok {
		l.errorf("invalid replacement value (a %s)", kindName(v))
	}
	return append(out, t...)
}
