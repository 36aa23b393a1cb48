package lua

import "math"

// discharge turns a variable into a value: in a register, or in an
// instruction whose target is open.
func (fs *funcState) discharge(e *expr) {
	switch e.kind {
	case exLocal:
		e.kind = exReg
	case exUpval:
		e.info = fs.emitABC(opGetUpval, 0, e.info, 0)
		e.kind = exReloc
	case exGlobal:
		e.info = fs.emitABx(opGetGlobal, 0, e.info)
		e.kind = exReloc
	case exIndexed:
		fs.release(e.aux)
		fs.release(e.info)
		e.info = fs.emitABC(opGetTable, 0, e.info, e.aux)
		e.kind = exReloc
	case exCall, exVararg:
		fs.setOneReturn(e)
	}
}

func (fs *funcState) dischargeTo(e *expr, reg int) {
	fs.discharge(e)
	switch e.kind {
	case exNil:
		fs.loadNil(reg, 1)
	case exFalse:
		fs.emitABC(opLoadBool, reg, 0, 0)
	case exTrue:
		fs.emitABC(opLoadBool, reg, 1, 0)
	case exConst:
		fs.emitABx(opLoadK, reg, e.info)
	case exNum:
		fs.emitABx(opLoadK, reg, fs.numConst(e.nval))
	case exReloc:
		fs.p.code[e.info].setA(reg)
	case exReg:
		if reg != e.info {
			fs.emitABC(opMove, reg, e.info, 0)
		}
	default:
		return // void or jump
	}
	e.kind, e.info = exReg, reg
}

func (fs *funcState) dischargeToAny(e *expr) {
	if e.kind != exReg {
		fs.reserve(1)
		fs.dischargeTo(e, fs.freeReg-1)
	}
}

func (fs *funcState) codeBool(reg, b, skip int) int {
	fs.label()
	return fs.emitABC(opLoadBool, reg, b, skip)
}

// toReg puts the value of e, with its jumps resolved, in reg.
func (fs *funcState) toReg(e *expr, reg int) {
	fs.dischargeTo(e, reg)
	if e.kind == exJump {
		e.t = fs.concat(e.t, e.info)
	}
	if e.jumps() {
		pf, pt := noJump, noJump
		if fs.needValue(e.t) || fs.needValue(e.f) {
			fj := noJump
			if e.kind != exJump {
				fj = fs.jump()
			}
			pf = fs.codeBool(reg, 0, 1)
			pt = fs.codeBool(reg, 1, 0)
			fs.patchHere(fj)
		}
		final := fs.label()
		fs.patchListTo(e.f, final, reg, pf)
		fs.patchListTo(e.t, final, reg, pt)
	}
	e.is(exReg, reg)
}

func (fs *funcState) toNextReg(e *expr) {
	fs.discharge(e)
	fs.releaseExpr(e)
	fs.reserve(1)
	fs.toReg(e, fs.freeReg-1)
}

func (fs *funcState) toAnyReg(e *expr) int {
	fs.discharge(e)
	if e.kind == exReg {
		if !e.jumps() {
			return e.info
		}
		if e.info >= len(fs.actives) {
			fs.toReg(e, e.info)
			return e.info
		}
	}
	fs.toNextReg(e)
	return e.info
}

func (fs *funcState) toValue(e *expr) {
	if e.jumps() {
		fs.toAnyReg(e)
	} else {
		fs.discharge(e)
	}
}

func (fs *funcState) toRK(e *expr) int {
	fs.toValue(e)
	switch e.kind {
	case exNum, exTrue, exFalse, exNil:
		if len(fs.p.k) > maxRK {
			break
		}
		switch e.kind {
		case exNil:
			e.info = fs.addConst(constKey{kind: '0'}, vNil)
		case exNum:
			e.info = fs.numConst(e.nval)
		case exTrue:
			e.info = fs.addConst(constKey{kind: 't'}, vTrue)
		case exFalse:
			e.info = fs.addConst(constKey{kind: 'f'}, vFalse)
		}
		e.kind = exConst
		return e.info | constBit
	case exConst:
		if e.info <= maxRK {
			return e.info | constBit
		}
	}
	return fs.toAnyReg(e)
}

func (fs *funcState) store(v, e *expr) {
	switch v.kind {
	case exLocal:
		fs.releaseExpr(e)
		fs.toReg(e, v.info)
		return
	case exUpval:
		r := fs.toAnyReg(e)
		fs.emitABC(opSetUpval, r, v.info, 0)
	case exGlobal:
		r := fs.toAnyReg(e)
		fs.emitABx(opSetGlobal, r, v.info)
	case exIndexed:
		r := fs.toRK(e)
		fs.emitABC(opSetTable, v.info, v.aux, r)
	}
	fs.releaseExpr(e)
}

func (fs *funcState) self(e, key *expr) {
	fs.toAnyReg(e)
	fs.releaseExpr(e)
	fn := fs.freeReg
	fs.reserve(2)
	fs.emitABC(opSelf, fn, e.info, fs.toRK(key))
	fs.releaseExpr(key)
	e.kind, e.info = exReg, fn
}

// Conditions.

func (fs *funcState) condJump(op, a, b, c int) int {
	fs.emitABC(op, a, b, c)
	return fs.jump()
}

func (fs *funcState) invert(e *expr) {
	i := fs.control(e.info)
	i.setA(1 - i.a())
}

func (fs *funcState) jumpOnCond(e *expr, cond int) int {
	if e.kind == exReloc {
		if i := fs.p.code[e.info]; i.op() == opNot {
			fs.p.code = fs.p.code[:len(fs.p.code)-1]
			fs.p.lines = fs.p.lines[:len(fs.p.lines)-1]
			return fs.condJump(opTest, i.b(), 0, 1-cond)
		}
	}
	fs.dischargeToAny(e)
	fs.releaseExpr(e)
	return fs.condJump(opTestSet, maxA, e.info, cond)
}

func (fs *funcState) goIfTrue(e *expr) {
	fs.discharge(e)
	pc := noJump
	switch e.kind {
	case exConst, exNum, exTrue:
	case exJump:
		fs.invert(e)
		pc = e.info
	default:
		pc = fs.jumpOnCond(e, 0)
	}
	e.f = fs.concat(e.f, pc)
	fs.patchHere(e.t)
	e.t = noJump
}

func (fs *funcState) goIfFalse(e *expr) {
	fs.discharge(e)
	pc := noJump
	switch e.kind {
	case exNil, exFalse:
	case exJump:
		pc = e.info
	default:
		pc = fs.jumpOnCond(e, 1)
	}
	e.t = fs.concat(e.t, pc)
	fs.patchHere(e.f)
	e.f = noJump
}

func (fs *funcState) not(e *expr) {
	fs.discharge(e)
	switch e.kind {
	case exNil, exFalse:
		e.kind = exTrue
	case exConst, exNum, exTrue:
		e.kind = exFalse
	case exJump:
		fs.invert(e)
	default:
		fs.dischargeToAny(e)
		fs.releaseExpr(e)
		e.info = fs.emitABC(opNot, 0, e.info, 0)
		e.kind = exReloc
	}
	e.f, e.t = e.t, e.f
	fs.removeValues(e.f)
	fs.removeValues(e.t)
}

func (fs *funcState) index(t, k *expr) {
	t.aux = fs.toRK(k)
	t.kind = exIndexed
}

// Operators.

// fold computes an operation on two numerals, where that changes nothing.
func fold(op int, e1, e2 *expr) bool {
	if !e1.numeral() || !e2.numeral() {
		return false
	}
	a, b, r := e1.nval, e2.nval, 0.0
	switch op {
	case opAdd:
		r = a + b
	case opSub:
		r = a - b
	case opMul:
		r = a * b
	case opDiv:
		if b == 0 {
			return false
		}
		r = a / b
	case opMod:
		if b == 0 {
			return false
		}
		r = luaMod(a, b)
	case opPow:
		r = math.Pow(a, b)
	case opUnm:
		r = -a
	default:
		return false
	}
	if math.IsNaN(r) {
		return false
	}
	e1.nval = r
	return true
}

func (fs *funcState) arith(op int, e1, e2 *expr) {
	if fold(op, e1, e2) {
		return
	}
	r2 := 0
	if op != opUnm && op != opLen {
		r2 = fs.toRK(e2)
	}
	r1 := fs.toRK(e1)
	if r1 > r2 {
		fs.releaseExpr(e1)
		fs.releaseExpr(e2)
	} else {
		fs.releaseExpr(e2)
		fs.releaseExpr(e1)
	}
	e1.info = fs.emitABC(op, 0, r1, r2)
	e1.kind = exReloc
}

func (fs *funcState) compare(op, cond int, e1, e2 *expr) {
	r1, r2 := fs.toRK(e1), fs.toRK(e2)
	fs.releaseExpr(e2)
	fs.releaseExpr(e1)
	if cond == 0 && op != opEq {
		r1, r2 = r2, r1
		cond = 1
	}
	e1.info = fs.condJump(op, cond, r1, r2)
	e1.kind = exJump
}

func (fs *funcState) prefix(op int, e *expr) {
	var e2 expr
	e2.is(exNum, 0)
	switch op {
	case opUnm:
		if !e.numeral() {
			fs.toAnyReg(e) // a constant can't be an operand here
		}
		fs.arith(opUnm, e, &e2)
	case opNot:
		fs.not(e)
	case opLen:
		fs.toAnyReg(e)
		fs.arith(opLen, e, &e2)
	}
}

// infix runs between the two operands of a binary operator.
func (fs *funcState) infix(op int, e *expr) {
	switch op {
	case binAnd:
		fs.goIfTrue(e)
	case binOr:
		fs.goIfFalse(e)
	case binConcat:
		fs.toNextReg(e)
	case binAdd, binSub, binMul, binDiv, binMod, binPow:
		if !e.numeral() {
			fs.toRK(e)
		}
	default:
		fs.toRK(e)
	}
}

func (fs *funcState) postfix(op int, e1, e2 *expr) {
	switch op {
	case binAnd:
		fs.discharge(e2)
		e2.f = fs.concat(e2.f, e1.f)
		*e1 = *e2
	case binOr:
		fs.discharge(e2)
		e2.t = fs.concat(e2.t, e1.t)
		*e1 = *e2
	case binConcat:
		fs.toValue(e2)
		if e2.kind == exReloc && fs.p.code[e2.info].op() == opConcat {
			fs.releaseExpr(e1)
			fs.p.code[e2.info].setB(e1.info)
			e1.kind, e1.info = exReloc, e2.info
			return
		}
		fs.toNextReg(e2)
		fs.arith(opConcat, e1, e2)
	case binAdd, binSub, binMul, binDiv, binMod, binPow:
		fs.arith(opAdd+op-binAdd, e1, e2)
	case binEq:
		fs.compare(opEq, 1, e1, e2)
	case binNe:
		fs.compare(opEq, 0, e1, e2)
	case binLt:
		fs.compare(opLt, 1, e1, e2)
	case binLe:
		fs.compare(opLe, 1, e1, e2)
	case binGt:
		fs.compare(opLt, 0, e1, e2)
	case binGe:
		fs.compare(opLe, 0, e1, e2)
	}
}

func (fs *funcState) setList(base, total, batch int) {
	c := (total-1)/setBatch + 1
	b := batch
	if batch == multRet {
		b = 0
	}
	if c <= maxC {
		fs.emitABC(opSetList, base, b, c)
	} else {
		fs.emitABC(opSetList, base, b, 0)
		fs.emit(instr(c))
	}
	fs.freeReg = base + 1
}
