package lua

func (st *state) openTable() {
	t := st.newTable(0, 16)
	st.register(t, map[string]native{
		"concat": tabConcat, "foreach": tabForeach, "foreachi": tabForeachi,
		"getn": tabGetn, "insert": tabInsert, "maxn": tabMaxn,
		"remove": tabRemove, "setn": tabSetn, "sort": tabSort,
	})
	st.globals.setField(st, "table", value{o: t})
}

func (l *thread) rawInt(t *table, i int) value {
	if p := t.getInt(i); p != nil {
		return *p
	}
	return vNil
}

func (l *thread) setInt(t *table, i int, v value) {
	if t.readonly {
		l.fail("Attempt to modify a readonly table")
	}
	*t.slotInt(l.st, i) = v
}

func tabConcat(l *thread) int {
	sep := l.optStr(2, "")
	t := l.checkTable()
	i := l.optInt(3, 1)
	last := 0
	if v := l.arg(4); v.o == nil {
		last = t.length(l.st)
	} else {
		last = l.checkInt(4)
	}
	out := l.st.scratch[:0]
	held := l.st.held
	for ; i <= last; i++ {
		l.st.work(1)
		v := l.rawInt(t, i)
		switch x := v.o.(type) {
		case *str:
			l.st.workBytes(len(x.s) + len(sep))
			out = l.st.room(out, len(x.s)+len(sep))
			out = append(out, x.s...)
		case number:
			out = l.st.room(out, numberSize+len(sep))
			out = appendNumber(out, v.n)
		default:
			l.errorf("invalid value (%s) at index %d in table for 'concat'", kindName(v), i)
		}
		if i != last {
			out = append(out, sep...)
		}
	}
	l.push(l.st.bytes(out))
	l.st.held = held
	l.st.keepScratch(out)
	return 1
}

func tabForeach(l *thread) int {
	t := l.checkTable()
	f := l.checkFn(2)
	var k value
	for {
		key, val, ok, found := t.next(l.st, &k)
		if !found {
			l.fail("invalid key to 'next'")
		}
		if !ok {
			return 0
		}
		if r := l.call1(f, key, val); r.o != nil {
			l.push(r)
			return 1
		}
		k = key
	}
}

func tabForeachi(l *thread) int {
	t := l.checkTable()
	n := t.length(l.st)
	f := l.checkFn(2)
	for i := 1; i <= n; i++ {
		if r := l.call1(f, num(float64(i)), l.rawInt(t, i)); r.o != nil {
			l.push(r)
			return 1
		}
	}
	return 0
}

func tabGetn(l *thread) int {
	l.pushNum(float64(l.checkTable().length(l.st)))
	return 1
}

func tabSetn(l *thread) int {
	l.checkTable()
	l.errorf("'setn' is obsolete")
	return 0
}

func tabMaxn(l *thread) int {
	t := l.checkTable()
	l.st.workSlow(t.slots())
	m := 0.0
	t.each(func(k, _ value) {
		if k.isNum() && k.n > m {
			m = k.n
		}
	})
	l.pushNum(m)
	return 1
}

func tabInsert(l *thread) int {
	t := l.checkTable()
	e := t.length(l.st) + 1
	pos := e
	switch l.nargs() {
	case 2:
	case 3:
		pos = l.checkInt(2)
		if pos > e {
			e = pos
		}
		l.st.keepWhole()
		for i := e; i > pos; i-- {
			l.st.work(1)
			l.setInt(t, i, l.rawInt(t, i-1))
		}
		l.st.mayEnd()
	default:
		l.errorf("wrong number of arguments to 'insert'")
	}
	l.setInt(t, pos, l.stack[l.top-1])
	return 0
}

func tabRemove(l *thread) int {
	t := l.checkTable()
	e := t.length(l.st)
	pos := l.optInt(2, e)
	if pos < 1 || pos > e {
		return 0
	}
	l.push(l.rawInt(t, pos))
	l.st.keepWhole()
	for ; pos < e; pos++ {
		l.st.work(1)
		l.setInt(t, pos, l.rawInt(t, pos+1))
	}
	l.st.mayEnd()
	l.setInt(t, e, vNil)
	return 1
}

// tabSort is C Lua's quicksort, step for step: the order of equal elements
// and of calls of the comparison are the same.
func tabSort(l *thread) int {
	t := l.checkTable()
	n := t.length(l.st)
	cmp := l.arg(2)
	if cmp.o != nil {
		l.checkFn(2)
	}
	s := sorter{l: l, t: t, cmp: cmp}
	s.sort(1, n)
	return 0
}

type sorter struct {
	l   *thread
	t   *table
	cmp value
}

func (s *sorter) get(i int) value    { return s.l.rawInt(s.t, i) }
func (s *sorter) set(i int, v value) { s.l.setInt(s.t, i, v) }

func (s *sorter) less(a, b value) bool {
	s.l.st.work(1)
	if s.cmp.o != nil {
		r := s.l.call1(s.cmp, a, b)
		return !r.falsy()
	}
	return s.l.less(a, b)
}

func (s *sorter) sort(lo, up int) {
	for lo < up {
		a, b := s.get(lo), s.get(up)
		if s.less(b, a) {
			s.set(lo, b)
			s.set(up, a)
		}
		if up-lo == 1 {
			return
		}
		mid := (lo + up) / 2
		p, a := s.get(mid), s.get(lo)
		if s.less(p, a) {
			s.set(mid, a)
			s.set(lo, p)
		} else if b := s.get(up); s.less(b, p) {
			s.set(mid, b)
			s.set(up, p)
		}
		if up-lo == 2 {
			return
		}
		p = s.get(mid)
		b = s.get(up - 1)
		s.set(mid, b)
		s.set(up-1, p)
		i, j := lo, up-1
		for {
			var x, y value
			for i++; ; i++ {
				if x = s.get(i); !s.less(x, p) {
					break
				}
				if i > up {
					s.l.errorf("invalid order function for sorting")
				}
			}
			for j--; ; j-- {
				if y = s.get(j); !s.less(p, y) {
					break
				}
				if j < lo {
					s.l.errorf("invalid order function for sorting")
				}
			}
			if j < i {
				break
			}
			s.set(i, y)
			s.set(j, x)
		}
		x, y := s.get(up-1), s.get(i)
		s.set(up-1, y)
		s.set(i, x)
		if i-lo < up-i {
			j, i = lo, i-1
			lo = i + 2
		} else {
			j, i, up = i+1, up, i-1
		}
		s.sort(j, i)
	}
}
