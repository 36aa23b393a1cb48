package lua

import "math"

// execute runs the current frame, and those it calls, until the frame that
// was marked fresh returns or the thread yields.
func (l *thread) execute() {
	st := l.st
frames:
	for {
		ci := l.ci
		cl := ci.cl
		p := cl.p
		code, k := p.code, p.k
		base := ci.base
		regs := l.stack[base : base+p.maxStack]
		pc := ci.pc
		for {
			i := code[pc]
			pc++
			ci.pc = pc
			a := int(i>>6) & 255
			switch i & 63 {
			case opMove:
				regs[a] = regs[i>>23]
			case opLoadK:
				regs[a] = k[i>>14]
			case opLoadBool:
				regs[a] = boolean(i.b() != 0)
				if i.c() != 0 {
					pc++
				}
			case opLoadNil:
				clear(regs[a : i.b()+1])
			case opGetUpval:
				regs[a] = *cl.ups[i>>23].v
			case opGetGlobal:
				key, _ := k[i>>14].o.(*str)
				if v := st.globals.getStr(key); v != nil && v.o != nil {
					regs[a] = *v
					continue
				}
				v := l.index(value{o: st.globals}, k[i>>14], -1)
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opGetTable:
				key := rk(regs, k, i.c())
				if t, ok := regs[i>>23].o.(*table); ok {
					var v *value
					if s, ok := key.o.(*str); ok {
						if len(s.s) > longKey {
							st.workBytes(len(s.s))
						}
						v = t.getStr(s)
					} else if n := int(key.n); uint(n-1) < uint(len(t.arr)) && float64(n) == key.n && key.isNum() {
						v = &t.arr[n-1]
					} else {
						v = t.find(key)
					}
					if v != nil && v.o != nil {
						regs[a] = *v
						continue
					}
					if t.meta == nil {
						regs[a] = vNil
						continue
					}
				}
				v := l.index(regs[i>>23], *key, i.b())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opSetGlobal:
				l.setIndex(value{o: st.globals}, k[i>>14], regs[a], -1)
				regs = l.stack[base : base+p.maxStack]
			case opSetUpval:
				*cl.ups[i>>23].v = regs[a]
			case opSetTable:
				key, val := rk(regs, k, i.b()), rk(regs, k, i.c())
				if t, ok := regs[a].o.(*table); ok && !t.readonly && t.meta == nil {
					var v *value
					if s, ok := key.o.(*str); ok {
						if len(s.s) > longKey {
							st.workBytes(len(s.s))
						}
						v = t.getStr(s)
					} else if n := int(key.n); uint(n-1) < uint(len(t.arr)) && float64(n) == key.n && key.isNum() {
						v = &t.arr[n-1]
					} else {
						v = t.find(key)
					}
					if v != nil {
						t.absent = 0
						*v = *val
						continue
					}
				}
				l.setIndex(regs[a], *key, *val, a)
				regs = l.stack[base : base+p.maxStack]
			case opNewTable:
				regs[a] = value{o: st.newTable(fromFloatByte(i.b()), fromFloatByte(i.c()))}
			case opSelf:
				o := regs[i>>23]
				regs[a+1] = o
				v := l.index(o, *rk(regs, k, i.c()), i.b())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opAdd:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				if x.isNum() && y.isNum() {
					setNum(&regs[a], x.n+y.n)
					continue
				}
				v := l.arithSlow(i.op(), *x, *y, i.b(), i.c())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opSub:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				if x.isNum() && y.isNum() {
					setNum(&regs[a], x.n-y.n)
					continue
				}
				v := l.arithSlow(i.op(), *x, *y, i.b(), i.c())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opMul:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				if x.isNum() && y.isNum() {
					setNum(&regs[a], x.n*y.n)
					continue
				}
				v := l.arithSlow(i.op(), *x, *y, i.b(), i.c())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opDiv, opMod, opPow:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				if x.isNum() && y.isNum() {
					setNum(&regs[a], arith(i.op(), x.n, y.n))
					continue
				}
				v := l.arithSlow(i.op(), *x, *y, i.b(), i.c())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opUnm:
				if x := &regs[i>>23]; x.isNum() {
					setNum(&regs[a], -x.n)
					continue
				}
				v := l.arithSlow(opUnm, regs[i>>23], regs[i>>23], i.b(), i.b())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opNot:
				regs[a] = boolean(regs[i>>23].falsy())
			case opLen:
				v := l.length(regs[i>>23], i.b())
				regs = l.stack[base : base+p.maxStack]
				regs[a] = v
			case opConcat:
				b, c := i.b(), i.c()
				l.concat(base+b, c-b+1)
				regs = l.stack[base : base+p.maxStack]
				regs[a] = regs[b]
			case opJmp:
				off := i.sbx()
				pc += off
				if off < 0 {
					if st.fuel--; st.fuel < 0 {
						st.refuel()
					}
				}
			case opEq:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				var eq bool
				if x.isNum() && y.isNum() {
					eq = x.n == y.n
				} else {
					eq = l.equal(*x, *y)
					regs = l.stack[base : base+p.maxStack]
				}
				if eq != (a != 0) {
					pc++
				}
			case opLt, opLe:
				x, y := rk(regs, k, i.b()), rk(regs, k, i.c())
				var is bool
				switch {
				case x.isNum() && y.isNum():
					if i&63 == opLt {
						is = x.n < y.n
					} else {
						is = x.n <= y.n
					}
				case i&63 == opLt:
					is = l.less(*x, *y)
					regs = l.stack[base : base+p.maxStack]
				default:
					is = l.lessEqual(*x, *y)
					regs = l.stack[base : base+p.maxStack]
				}
				if is != (a != 0) {
					pc++
				}
			case opTest:
				if regs[a].falsy() == (i.c() != 0) {
					pc++
				}
			case opTestSet:
				if v := &regs[i>>23]; v.falsy() == (i.c() != 0) {
					pc++
				} else {
					regs[a] = *v
				}
			case opCall:
				fn := base + a
				if b := i.b(); b != 0 {
					l.top = fn + b
				}
				nres := i.c() - 1
				if st.fuel--; st.fuel < 0 {
					st.refuel()
				}
				switch f := regs[a].o.(type) {
				case *luaFn:
					l.enterLua(f, fn, nres)
					continue frames
				case *goFn:
					if !l.callNative(f, fn, nres) {
						return
					}
				default:
					l.callable(fn)
					if f, ok := l.stack[fn].o.(*luaFn); ok {
						l.enterLua(f, fn, nres)
						continue frames
					}
					if f, ok := l.stack[fn].o.(*goFn); ok && !l.callNative(f, fn, nres) {
						return
					}
				}
				if nres >= 0 {
					l.top = ci.top
				}
				regs = l.stack[base : base+p.maxStack]
			case opTailCall:
				fn := base + a
				if b := i.b(); b != 0 {
					l.top = fn + b
				}
				if st.fuel--; st.fuel < 0 {
					st.refuel()
				}
				if !isFn(regs[a]) {
					l.callable(fn)
				}
				switch f := l.stack[fn].o.(type) {
				case *luaFn:
					if l.open != nil {
						l.closeUpvals(base)
					}
					n := copy(l.stack[ci.fn:], l.stack[fn:l.top])
					l.top = ci.fn + n
					ci.pc = 0
					ci.tailCalls++
					l.setFrame(ci, f, ci.fn)
					continue frames
				case *goFn:
					if !l.callNative(f, fn, multRet) {
						return
					}
				}
				regs = l.stack[base : base+p.maxStack]
			case opReturn:
				first, n := base+a, i.b()-1
				if n < 0 {
					n = l.top - first
					if n > maxRegs {
						st.workSlow(n)
					}
				}
				if l.open != nil {
					l.closeUpvals(base)
				}
				l.finish(first, n)
				if ci.fresh {
					return
				}
				if ci.nres >= 0 {
					l.top = l.ci.top
				}
				continue frames
			case opForLoop:
				idx := &regs[a]
				step := regs[a+2].n
				idx.n += step
				if step > 0 && idx.n <= regs[a+1].n || !(step > 0) && regs[a+1].n <= idx.n {
					pc += i.sbx()
					setNum(&regs[a+3], idx.n)
					if st.fuel--; st.fuel < 0 {
						st.refuel()
					}
				}
			case opForPrep:
				l.forPrep(regs[a : a+3])
				pc += i.sbx()
			case opTForLoop:
				if st.fuel--; st.fuel < 0 {
					st.refuel()
				}
				if f, ok := regs[a].o.(*goFn); ok && f == st.nextFn {
					if t, ok := regs[a+1].o.(*table); ok {
						key, val, _, found := t.next(st, &regs[a+2])
						if !found {
							l.fail("invalid key to 'next'")
						}
						n := i.c()
						regs[a+3] = key
						if n >= 2 {
							regs[a+4] = val
							clear(regs[a+5 : max(a+3+n, a+5)])
						}
						if key.o != nil {
							regs[a+2] = key
							pc += code[pc].sbx()
						}
						pc++
						continue
					}
				}
				fn := base + a + 3
				l.stack[fn], l.stack[fn+1], l.stack[fn+2] = regs[a], regs[a+1], regs[a+2]
				l.top = fn + 3
				l.call(fn, i.c())
				l.top = ci.top
				regs = l.stack[base : base+p.maxStack]
				if regs[a+3].o != nil {
					regs[a+2] = regs[a+3]
					pc += code[pc].sbx()
				}
				pc++
			case opSetList:
				n, c := i.b(), i.c()
				if n == 0 {
					n = l.top - (base + a) - 1
					l.top = ci.top
				}
				if c == 0 {
					c = int(code[pc])
					pc++
				}
				if t, ok := regs[a].o.(*table); ok {
					l.setList(t, (c-1)*setBatch, base+a+1, n)
				}
			case opClose:
				l.closeUpvals(base + a)
			case opClosure:
				np := p.protos[i.bx()]
				st.charge(fnSize + 8*np.nups)
				f := &luaFn{p: np, id: st.newID()}
				if np.nups > 0 {
					f.ups = make([]*upval, np.nups)
					for j := range f.ups {
						u := code[pc]
						pc++
						if u.op() == opGetUpval {
							f.ups[j] = cl.ups[u.b()]
						} else {
							f.ups[j] = l.findUpval(base + u.b())
						}
					}
				}
				regs[a] = value{o: f}
			case opVararg:
				n := i.b() - 1
				have := base - ci.fn - p.nparams - 1
				from := ci.fn + 1 + p.nparams
				if n < 0 {
					n = have
					st.work(n / 16)
					l.top = base + a
					l.need(n + minStack)
					regs = l.stack[base : base+p.maxStack]
					l.top += n
				}
				m := copy(l.stack[base+a:base+a+n], l.stack[from:from+max(min(n, have), 0)])
				clear(l.stack[base+a+m : base+a+n])
			default:
				l.fail("bad instruction")
			}
		}
	}
}

// rk is a register or a constant.
func rk(regs, k []value, x int) *value {
	if x >= constBit {
		return &k[x-constBit]
	}
	return &regs[x]
}

// setNum stores a number, in place where there is one: that needs no write
// barrier.
func setNum(r *value, n float64) {
	if r.isNum() {
		r.n = n
	} else {
		*r = value{n: n, o: number{}}
	}
}

// forPrep checks and prepares index, limit and step of a numeric for.
func (l *thread) forPrep(r []value) {
	for i, what := range [...]string{"initial value", "limit", "step"} {
		if !r[i].isNum() {
			n, ok := l.st.toNumber(&r[i])
			if !ok {
				l.fail("'for' " + what + " must be a number")
			}
			r[i] = num(n)
		}
	}
	r[0].n -= r[2].n
}

func (l *thread) setList(t *table, offset, from, n int) {
	st := l.st
	if last := offset + n; last > len(t.arr) {
		t.resize(st, last, len(t.nodes))
	}
	st.workSlow(n)
	for j := range n {
		*t.slotInt(st, offset+j+1) = l.stack[from+j]
	}
}

// pow is C's pow.
func pow(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	r := math.Pow(a, b)
	if r != r {
		r = nanOf(a, b)
	}
	return r
}
