package lua

func (l *thread) checkAny(i int) value {
	if l.none(i) {
		l.argError(i, "value expected")
	}
	return l.arg(i)
}

func (l *thread) checkNum(i int) float64 {
	v := l.arg(i)
	if v.isNum() {
		return v.n
	}
	n, ok := l.st.toNumber(&v)
	if !ok {
		l.argTypeError(i, "number")
	}
	return n
}

// checkInt64 is luaL_checkinteger, checkInt is luaL_checkint.
func (l *thread) checkInt64(i int) int64 { return toInt64(l.checkNum(i)) }
func (l *thread) checkInt(i int) int     { return toInt32(l.checkNum(i)) }

func (l *thread) optInt(i, def int) int {
	if v := l.arg(i); v.o == nil {
		return def
	}
	return l.checkInt(i)
}

func (l *thread) optInt64(i int, def int64) int64 {
	if v := l.arg(i); v.o == nil {
		return def
	}
	return l.checkInt64(i)
}

func (l *thread) checkStr(i int) string {
	v := l.arg(i)
	if s, ok := v.o.(*str); ok {
		return s.s
	}
	s, ok := toText(&v)
	if !ok {
		l.argTypeError(i, "string")
	}
	return s
}

// checkCString is checkStr up to its first zero byte.
func (l *thread) checkCString(i int) string {
	s := l.checkStr(i)
	l.st.workBytes(len(s))
	return cString(s)
}

func (l *thread) optStr(i int, def string) string {
	if v := l.arg(i); v.o == nil {
		return def
	}
	return l.checkStr(i)
}

// checkTable returns the first argument, which must be a table.
func (l *thread) checkTable() *table {
	v := l.arg(1)
	t, ok := v.o.(*table)
	if !ok {
		l.argTypeError(1, "table")
	}
	return t
}

func (l *thread) checkFn(i int) value {
	v := l.arg(i)
	if !isFn(v) {
		l.argTypeError(i, "function")
	}
	return v
}
