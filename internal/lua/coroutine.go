package lua

func (st *state) openCoroutine() {
	t := st.newTable(0, 8)
	st.register(t, map[string]native{
		"create": coCreate, "resume": coResume, "running": coRunning,
		"status": coStatus, "wrap": coWrap, "yield": coYield,
	})
	st.globals.setField(st, "coroutine", value{o: t})
}

func (l *thread) newCoroutine() *thread {
	f := l.arg(1)
	if _, ok := f.o.(*luaFn); !ok {
		l.argError(1, "Lua function expected")
	}
	st := l.st
	st.charge(threadSize + 64*valueSize)
	co := st.newThread()
	co.push(f)
	return co
}

func coCreate(l *thread) int {
	l.push(value{o: l.newCoroutine()})
	return 1
}

func coWrap(l *thread) int {
	co := l.newCoroutine()
	l.push(l.st.closure("wrap", wrapStep, value{o: co}))
	return 1
}

func (l *thread) statusName(co *thread) string {
	switch {
	case co == l:
		return "running"
	case co.resumed:
		return "normal"
	case co.status == coYielded:
		return "suspended"
	case co.status == coDead || co.top == 1:
		return "dead"
	}
	return "suspended"
}

func coStatus(l *thread) int {
	v := l.arg(1)
	co, ok := v.o.(*thread)
	if !ok {
		l.argError(1, "coroutine expected")
	}
	l.push(value{o: constant(l.statusName(co))})
	return 1
}

func coRunning(l *thread) int {
	if l == l.st.main {
		l.push(vNil)
	} else {
		l.push(value{o: l})
	}
	return 1
}

func coYield(l *thread) int {
	if l.ccalls > l.base {
		l.fail("attempt to yield across metamethod/C-call boundary")
	}
	l.status = coYielded
	return -1
}

func coResume(l *thread) int {
	v := l.arg(1)
	co, ok := v.o.(*thread)
	if !ok {
		l.argError(1, "coroutine expected")
	}
	n, ok := l.resume(co, 2)
	if !ok {
		l.pushBool(false)
		l.push(co.stack[co.top-1])
		return 2
	}
	l.pushBool(true)
	l.moveFrom(co, n)
	return n + 1
}

func wrapStep(l *thread) int {
	co, _ := l.ci.nat.ups[0].o.(*thread)
	n, ok := l.resume(co, 1)
	if !ok {
		v := co.stack[co.top-1]
		if s, ok := toText(&v); ok {
			v = l.prefixed(l.where(1), s)
		}
		l.throw(v)
	}
	l.moveFrom(co, n)
	return n
}

func (l *thread) moveFrom(co *thread, n int) {
	l.need(n)
	l.st.workSlow(n)
	copy(l.stack[l.top:], co.stack[co.top-n:co.top])
	l.top += n
	co.top -= n
}

// resume runs co with the arguments of the running native from number first.
// It leaves n results on co's stack, or an error's value when not ok.
func (l *thread) resume(co *thread, first int) (n int, ok bool) {
	if name := l.statusName(co); name != "suspended" {
		co.push(l.st.str("cannot resume " + name + " coroutine"))
		return 0, false
	}
	args := max(l.nargs()-first+1, 0)
	if args > maxCStack-co.top {
		l.errorf("too many arguments to resume")
	}
	if l.st.depth >= maxCCalls-10 {
		co.push(l.st.str("C stack overflow"))
		return 0, false
	}
	co.need(args + minStack)
	copy(co.stack[co.top:], l.stack[l.top-args:l.top])
	co.top += args
	return co.run(args)
}

func (l *thread) run(args int) (n int, ok bool) {
	st := l.st
	cur, held, building := st.cur, st.held, len(st.building)
	st.cur, l.resumed = l, true
	st.depth++
	defer func() {
		st.cur, l.resumed = cur, false
		st.depth--
		if r := recover(); r != nil {
			e, isErr := r.(*luaError)
			if !isErr || e.fatal {
				l.status = coDead // a library may keep it
				panic(r)
			}
			st.settle(held, building)
			l.status = coDead
			if l.ci.cl != nil {
				l.top = l.ci.top
			}
			l.push(e.v)
			n, ok = 0, false
		}
	}()
	l.base = 0
	if l.status == coReady {
		fn := l.top - args - 1
		f, isLua := l.stack[fn].o.(*luaFn)
		if !isLua {
			l.fail("attempt to call a non-function")
		}
		l.enterLua(f, fn, multRet)
		l.ci.fresh = true
	} else {
		l.status = coReady
		ci := l.ci
		l.finish(l.top-args, args)
		if ci.nres >= 0 {
			l.top = l.ci.top
		}
		if l.ci.cl == nil {
			l.status = coDead
			return args, true
		}
	}
	l.execute()
	if l.status == coYielded {
		return l.top - l.ci.base, true
	}
	l.status = coDead
	return l.top - 1, true
}
