package lua

// pushFrame adds a frame for a call of the function at stack index fn.
func (l *thread) pushFrame(fn, nres int) *frame {
	f := l.ci.next
	if f == nil {
		l.st.charge(frameSize)
		l.frames++
		f = &frame{prev: l.ci}
		l.ci.next = f
	}
	if l.nframes++; l.nframes > l.maxFrames {
		l.overflow()
	}
	f.fn, f.nres, f.pc, f.tailCalls, f.fresh = fn, nres, 0, 0, false
	l.ci = f
	return f
}

func (l *thread) overflow() {
	l.nframes--
	l.fail("stack overflow")
}

func (l *thread) popFrame() {
	l.nframes--
	l.ci = l.ci.prev
}

// enterLua prepares a frame for a call of cl at fn, with arguments up to top.
func (l *thread) enterLua(cl *luaFn, fn, nres int) {
	f := l.pushFrame(fn, nres)
	l.setFrame(f, cl, fn)
}

func (l *thread) setFrame(f *frame, cl *luaFn, fn int) {
	p := cl.p
	base := fn + 1
	nargs := l.top - base
	if nargs > maxRegs {
		l.st.workSlow(nargs)
	}
	if need := l.top + p.maxStack + minStack; need > len(l.stack) {
		l.grow(need)
	}
	filled := 0
	if p.vararg {
		base = l.shiftVarargs(p, fn, nargs)
		filled = p.nparams
		if p.hasArg {
			filled++
		}
	} else {
		filled = min(nargs, p.nparams)
	}
	f.cl, f.nat, f.base, f.top = cl, nil, base, base+p.maxStack
	clear(l.stack[base+filled : f.top])
	l.top = f.top
}

// shiftVarargs moves the fixed parameters above all arguments, so that the
// others stay below the frame, and returns the new base.
func (l *thread) shiftVarargs(p *proto, fn, nargs int) int {
	l.need(max(p.nparams-nargs, 0) + p.maxStack + minStack)
	for ; nargs < p.nparams; nargs++ {
		l.push(vNil)
	}
	base := l.top
	l.top += p.nparams
	for i := range p.nparams {
		l.stack[base+i] = l.stack[fn+1+i]
		l.stack[fn+1+i] = vNil
	}
	if p.hasArg {
		l.push(vNil)
		if p.needsArg {
			n := nargs - p.nparams
			t := l.st.newTable(n, 1)
			for i := range n {
				*t.slotInt(l.st, i+1) = l.stack[fn+1+p.nparams+i]
			}
			t.setField(l.st, "n", num(float64(n)))
			l.stack[base+p.nparams] = value{o: t}
		}
	}
	return base
}

// callNative runs a native at fn and moves its results there. It reports
// false when the native yielded: then its frame stays.
func (l *thread) callNative(f *goFn, fn, nres int) bool {
	ci := l.pushFrame(fn, nres)
	ci.cl, ci.nat, ci.base = nil, f, fn+1
	if l.top+minStack > len(l.stack) {
		l.grow(l.top + minStack)
	}
	ci.top = l.top + minStack
	if n := l.top - fn; n > maxRegs {
		l.st.workSlow(n)
	}
	n := f.fn(l)
	if n < 0 {
		return false
	}
	if n > maxRegs {
		l.st.workSlow(n)
	}
	l.finish(l.top-n, n)
	return true
}

// finish ends the current frame: n results from index first go where the
// caller wants them.
func (l *thread) finish(first, n int) {
	ci := l.ci
	dst, want := ci.fn, ci.nres
	l.popFrame()
	if want == multRet {
		copy(l.stack[dst:], l.stack[first:first+n])
		l.top = dst + n
		return
	}
	if n >= want {
		copy(l.stack[dst:dst+want], l.stack[first:])
	} else {
		copy(l.stack[dst:], l.stack[first:first+n])
		clear(l.stack[dst+n : dst+want])
	}
	l.top = dst + want
}

// callable returns what to call for the value at fn: itself, or its __call
// metamethod, put before it as its first argument.
func (l *thread) callable(fn int) {
	v := l.stack[fn]
	tm := l.st.metamethod(v, tmCall)
	switch tm.o.(type) {
	case *luaFn, *goFn:
	default:
		l.typeError(v, fn-l.ci.base, "call")
	}
	l.need(1)
	copy(l.stack[fn+1:l.top+1], l.stack[fn:l.top])
	l.top++
	l.stack[fn] = tm
}

// call runs the function at stack index fn with the arguments up to top, and
// leaves nres results (or all) from fn up to top.
func (l *thread) call(fn, nres int) {
	l.st.work(1)
	if l.ccalls++; l.ccalls >= maxCCalls {
		if l.ccalls == maxCCalls {
			l.fail("C stack overflow")
		} else if l.ccalls >= maxCCalls+maxCCalls/8 {
			l.throw(value{o: constant("error in error handling")})
		}
	}
	for {
		switch f := l.stack[fn].o.(type) {
		case *luaFn:
			l.enterLua(f, fn, nres)
			l.ci.fresh = true
			l.execute()
		case *goFn:
			if !l.callNative(f, fn, nres) {
				l.fail("attempt to yield across metamethod/C-call boundary")
			}
		default:
			l.callable(fn)
			continue
		}
		break
	}
	l.ccalls--
}

// call1 calls f with two arguments for one result, as metamethods are.
func (l *thread) call1(f, a, b value) value {
	fn := l.top
	l.need(3)
	l.stack[fn], l.stack[fn+1], l.stack[fn+2] = f, a, b
	l.top = fn + 3
	l.call(fn, 1)
	l.top = fn
	return l.stack[fn]
}

func (l *thread) call3(f, a, b, c value) {
	fn := l.top
	l.need(4)
	l.stack[fn], l.stack[fn+1], l.stack[fn+2], l.stack[fn+3] = f, a, b, c
	l.top = fn + 4
	l.call(fn, 0)
	l.top = fn
}

// protect calls the function at fn like call. When that raises an error it
// puts the thread back as it was and returns the error's value; handler, when
// not nil, makes that value while the failed frames are still there.
func (l *thread) protect(fn, nres int, handler func(*luaError) value) (failed bool, errVal value) {
	ci, nframes, ccalls, cur, depth := l.ci, l.nframes, l.ccalls, l.st.cur, l.st.depth
	held, building, whole := l.st.held, len(l.st.building), l.st.whole
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		e, ok := r.(*luaError)
		if !ok || e.fatal {
			panic(r)
		}
		failed, errVal = true, e.v
		l.st.cur, l.st.depth = cur, depth
		l.st.settle(held, building)
		l.st.whole = whole
		if handler != nil {
			errVal = handler(e)
		}
		l.closeUpvals(fn)
		l.ci, l.nframes, l.ccalls, l.top = ci, nframes, ccalls, fn
	}()
	l.call(fn, nres)
	return false, vNil
}
