package lua

import "strings"

func (st *state) openString() {
	t := st.newTable(0, 16)
	st.register(t, map[string]native{
		"byte": strByte, "char": strChar, "dump": strDump, "find": strFind,
		"format": strFormatFn, "gmatch": strGmatch, "gsub": strGsub,
		"len": strLen, "lower": strLower, "match": strMatch, "rep": strRep,
		"reverse": strReverse, "sub": strSub, "upper": strUpper,
	})
	t.setField(st, "gfind", t.field(libName("gmatch")))
	st.globals.setField(st, "string", value{o: t})
	st.strMeta = st.newTable(0, 1)
	st.strMeta.setField(st, "__index", value{o: t})
}

func strLen(l *thread) int {
	l.pushNum(float64(len(l.checkStr(1))))
	return 1
}

func strSub(l *thread) int {
	s := l.checkStr(1)
	n := len(s)
	i, j := startPos(l.checkInt64(2), n), startPos(l.optInt64(3, -1), n)
	i, j = max(i, 1), min(j, int64(n))
	if i > j {
		l.pushStr("")
	} else {
		l.push(l.st.part(s, s[i-1:j]))
	}
	return 1
}

func strReverse(l *thread) int {
	s := l.checkStr(1)
	return l.mapped(len(s), func(part []byte, from int) {
		for i := range part {
			part[i] = s[len(s)-1-from-i]
		}
	})
}

// mapped pushes a string of n bytes that fill makes, stretch by stretch.
func (l *thread) mapped(n int, fill func(part []byte, from int)) int {
	l.st.charge(strSize + n)
	var sb strings.Builder
	sb.Grow(n)
	held := l.st.held
	buf := l.st.room(l.st.scratch[:0], min(n, stretch))
	l.st.keepScratch(buf)
	for from := 0; from < n; from += stretch {
		part := buf[:min(n-from, stretch)]
		l.st.workSlow(len(part))
		fill(part, from)
		sb.Write(part)
	}
	l.st.held = held
	l.push(newStr(sb.String()))
	return 1
}

// mapBytes pushes a string in which each byte of a range is shifted by delta.
func (l *thread) mapBytes(s string, from, to byte, delta int) int {
	if l.st.span(s, func(c byte) bool { return c < from || c > to }) == len(s) {
		l.pushStr(s)
		return 1
	}
	return l.mapped(len(s), func(part []byte, at int) {
		for i := range part {
			c := s[at+i]
			if c >= from && c <= to {
				c = byte(int(c) + delta)
			}
			part[i] = c
		}
	})
}

func strLower(l *thread) int { return l.mapBytes(l.checkStr(1), 'A', 'Z', 'a'-'A') }
func strUpper(l *thread) int { return l.mapBytes(l.checkStr(1), 'a', 'z', 'A'-'a') }

func strRep(l *thread) int {
	s := l.checkStr(1)
	n := l.checkInt(2)
	if n <= 0 || s == "" {
		l.pushStr("")
		return 1
	}
	if n > 1<<40/len(s) {
		l.st.charge(1 << 40)
	}
	l.st.charge(strSize + n*len(s))
	l.st.workBytes(n * len(s))
	l.push(newStr(strings.Repeat(s, n)))
	return 1
}

func strByte(l *thread) int {
	s := l.checkStr(1)
	i64 := startPos(l.optInt64(2, 1), len(s))
	e64 := startPos(l.optInt64(3, i64), len(s))
	i, e := max(i64, 1), min(e64, int64(len(s)))
	if i > e {
		return 0
	}
	n := int(e - i + 1)
	if !l.roomFor(n) {
		l.errorf("stack overflow (string slice too long)")
	}
	for k := range n {
		l.pushNum(float64(s[int(i)-1+k]))
	}
	return n
}

func strChar(l *thread) int {
	n := l.nargs()
	b := make([]byte, n)
	for i := 1; i <= n; i++ {
		c := l.checkInt(i)
		if c != int(byte(c)) {
			l.argError(i, "invalid value")
		}
		b[i-1] = byte(c)
	}
	l.push(l.st.bytes(b))
	return 1
}

// strDump gives no more than the header of Lua 5.1's bytecode: it can't be
// loaded again, here as in Redis, so nobody can tell.
func strDump(l *thread) int {
	l.checkFn(1)
	if _, ok := l.arg(1).o.(*luaFn); !ok {
		l.errorf("unable to dump given function")
	}
	l.push(l.st.str("\x1bLuaQ\x00\x01\x04\x08\x04\x08\x00"))
	return 1
}
