package lua

func blockEnds(kind int) bool {
	switch kind {
	case tkElse, tkElseif, tkEnd, tkEOS, tkUntil:
		return true
	}
	return false
}

// chunkBody reads statements to the end of a block.
func (ps *parser) chunkBody() {
	ps.enter()
	last := false
	for !last && !blockEnds(ps.tok.kind) {
		last = ps.statement()
		ps.accept(';')
		ps.fs.freeReg = len(ps.fs.actives)
	}
	ps.leave()
}

func (ps *parser) blockBody() {
	var bl block
	ps.enterBlock(&bl, false)
	ps.chunkBody()
	ps.leaveBlock()
}

// statement reads one statement and reports whether it must be the last.
func (ps *parser) statement() bool {
	line := ps.line
	switch ps.tok.kind {
	case tkIf:
		ps.ifStat(line)
	case tkWhile:
		ps.whileStat(line)
	case tkDo:
		ps.next()
		ps.blockBody()
		ps.closing(tkEnd, tkDo, line)
	case tkFor:
		ps.forStat(line)
	case tkRepeat:
		ps.repeatStat(line)
	case tkFunction:
		ps.funcStat(line)
	case tkLocal:
		ps.next()
		if ps.accept(tkFunction) {
			ps.localFunc()
		} else {
			ps.localStat()
		}
	case tkReturn:
		ps.returnStat()
		return true
	case tkBreak:
		ps.next()
		ps.breakStat()
		return true
	default:
		ps.exprStat()
	}
	return false
}

// cond reads a condition and returns the jumps taken when it is false.
func (ps *parser) cond() int {
	var e expr
	ps.expr(&e)
	if e.kind == exNil {
		e.kind = exFalse
	}
	ps.fs.goIfTrue(&e)
	return e.f
}

func (ps *parser) testThen() int {
	ps.next()
	exit := ps.cond()
	ps.expect(tkThen)
	ps.blockBody()
	return exit
}

func (ps *parser) ifStat(line int) {
	fs := ps.fs
	escape := noJump
	exit := ps.testThen()
	for ps.tok.kind == tkElseif {
		escape = fs.concat(escape, fs.jump())
		fs.patchHere(exit)
		exit = ps.testThen()
	}
	if ps.tok.kind == tkElse {
		escape = fs.concat(escape, fs.jump())
		fs.patchHere(exit)
		ps.next()
		ps.blockBody()
	} else {
		escape = fs.concat(escape, exit)
	}
	fs.patchHere(escape)
	ps.closing(tkEnd, tkIf, line)
}

func (ps *parser) whileStat(line int) {
	fs := ps.fs
	ps.next()
	start := fs.label()
	exit := ps.cond()
	var bl block
	ps.enterBlock(&bl, true)
	ps.expect(tkDo)
	ps.blockBody()
	fs.patch(fs.jump(), start)
	ps.closing(tkEnd, tkWhile, line)
	ps.leaveBlock()
	fs.patchHere(exit)
}

func (ps *parser) repeatStat(line int) {
	fs := ps.fs
	start := fs.label()
	var loop, scope block
	ps.enterBlock(&loop, true)
	ps.enterBlock(&scope, false)
	ps.next()
	ps.chunkBody()
	ps.closing(tkUntil, tkRepeat, line)
	exit := ps.cond()
	if !scope.captured {
		ps.leaveBlock()
		fs.patch(exit, start)
	} else {
		ps.breakStat()
		fs.patchHere(exit)
		ps.leaveBlock()
		fs.patch(fs.jump(), start)
	}
	ps.leaveBlock()
}

func (ps *parser) forStat(line int) {
	var bl block
	ps.enterBlock(&bl, true)
	ps.next()
	name := ps.name()
	switch ps.tok.kind {
	case '=':
		ps.numericFor(name, line)
	case ',', tkIn:
		ps.genericFor(name)
	default:
		ps.syntax("'=' or 'in' expected")
	}
	ps.closing(tkEnd, tkFor, line)
	ps.leaveBlock()
}

func (ps *parser) numericFor(name string, line int) {
	fs := ps.fs
	base := fs.freeReg
	ps.newLocal("(for index)", 0)
	ps.newLocal("(for limit)", 1)
	ps.newLocal("(for step)", 2)
	ps.newLocal(name, 3)
	one := func() {
		var e expr
		ps.expr(&e)
		fs.toNextReg(&e)
	}
	ps.expect('=')
	one()
	ps.expect(',')
	one()
	if ps.accept(',') {
		one()
	} else {
		fs.emitABx(opLoadK, fs.freeReg, fs.numConst(1))
		fs.reserve(1)
	}
	ps.forBody(base, line, 1, true)
}

func (ps *parser) genericFor(name string) {
	fs := ps.fs
	base := fs.freeReg
	ps.newLocal("(for generator)", 0)
	ps.newLocal("(for state)", 1)
	ps.newLocal("(for control)", 2)
	ps.newLocal(name, 3)
	n := 4
	for ps.accept(',') {
		ps.newLocal(ps.name(), n)
		n++
	}
	ps.expect(tkIn)
	line := ps.line
	var e expr
	ps.adjust(3, ps.exprList(&e), &e)
	fs.needRegs(3)
	fs.needRegs(3)
	ps.forBody(base, line, n-3, false)
}

func (ps *parser) forBody(base, line, nvars int, numeric bool) {
	fs := ps.fs
	ps.activate(3)
	ps.expect(tkDo)
	var prep int
	if numeric {
		prep = fs.emitABx(opForPrep, base, noJump+maxSBx)
	} else {
		prep = fs.jump()
	}
	var bl block
	ps.enterBlock(&bl, false)
	ps.activate(nvars)
	fs.reserve(nvars)
	ps.chunkBody()
	ps.leaveBlock()
	fs.patchHere(prep)
	if numeric {
		end := fs.emitABx(opForLoop, base, noJump+maxSBx)
		fs.fixLine(line)
		fs.patch(end, prep+1)
		return
	}
	fs.emitABC(opTForLoop, base, 0, nvars)
	fs.fixLine(line)
	fs.patch(fs.jump(), prep+1)
}

func (ps *parser) breakStat() {
	fs := ps.fs
	bl := fs.block
	captured := false
	for bl != nil && !bl.breakable {
		captured = captured || bl.captured
		bl = bl.prev
	}
	if bl == nil {
		ps.syntax("no loop to break")
	}
	if captured {
		fs.emitABC(opClose, bl.actives, 0, 0)
	}
	bl.breaks = fs.concat(bl.breaks, fs.jump())
}

func (ps *parser) funcStat(line int) {
	ps.next()
	var target, body expr
	ps.variable(ps.name(), &target)
	for ps.tok.kind == '.' {
		ps.field(&target)
	}
	method := ps.tok.kind == ':'
	if method {
		ps.field(&target)
	}
	ps.body(&body, method, line)
	ps.fs.store(&target, &body)
	ps.fs.fixLine(line)
}

func (ps *parser) localFunc() {
	fs := ps.fs
	ps.newLocal(ps.name(), 0)
	var v, b expr
	v.is(exLocal, fs.freeReg)
	fs.reserve(1)
	ps.activate(1)
	ps.body(&b, false, ps.line)
	fs.store(&v, &b)
	fs.p.locals[fs.actives[len(fs.actives)-1]].start = fs.pc()
}

func (ps *parser) localStat() {
	n := 0
	for {
		ps.newLocal(ps.name(), n)
		n++
		if !ps.accept(',') {
			break
		}
	}
	var e expr
	e.is(exVoid, 0)
	nexps := 0
	if ps.accept('=') {
		nexps = ps.exprList(&e)
	}
	ps.adjust(n, nexps, &e)
	ps.activate(n)
}

func (ps *parser) returnStat() {
	fs := ps.fs
	ps.next()
	first, n := 0, 0
	if !blockEnds(ps.tok.kind) && ps.tok.kind != ';' {
		var e expr
		n = ps.exprList(&e)
		switch {
		case e.multi():
			fs.setReturns(&e, multRet)
			if e.kind == exCall && n == 1 {
				fs.p.code[e.info].setOp(opTailCall)
			}
			first, n = len(fs.actives), multRet
		case n == 1:
			first = fs.toAnyReg(&e)
		default:
			fs.toNextReg(&e)
			first = len(fs.actives)
		}
	}
	fs.ret(first, n)
}

// A target is one left side of an assignment.
type target struct {
	prev *target
	e    expr
}

func (ps *parser) exprStat() {
	var v target
	ps.primary(&v.e)
	if v.e.kind == exCall {
		ps.fs.p.code[v.e.info].setC(1)
		return
	}
	ps.assignment(&v, 1)
}

func (ps *parser) assignment(lh *target, nvars int) {
	fs := ps.fs
	if lh.e.kind < exLocal || lh.e.kind > exIndexed {
		ps.syntax("syntax error")
	}
	var e expr
	if ps.accept(',') {
		nv := target{prev: lh}
		ps.primary(&nv.e)
		if nv.e.kind == exLocal {
			ps.conflict(lh, &nv.e)
		}
		ps.limit(nvars, maxDepth-ps.depth, "variables in assignment")
		ps.assignment(&nv, nvars+1)
	} else {
		ps.expect('=')
		nexps := ps.exprList(&e)
		if nexps == nvars {
			fs.setOneReturn(&e)
			fs.store(&lh.e, &e)
			return
		}
		ps.adjust(nvars, nexps, &e)
		if nexps > nvars {
			fs.freeReg -= nexps - nvars
		}
	}
	e.is(exReg, fs.freeReg-1)
	fs.store(&lh.e, &e)
}

// conflict copies a local that is assigned here and was used as the table or
// key of an earlier target of the same assignment.
func (ps *parser) conflict(lh *target, v *expr) {
	fs := ps.fs
	extra, found := fs.freeReg, false
	for ; lh != nil; lh = lh.prev {
		if lh.e.kind != exIndexed {
			continue
		}
		if lh.e.info == v.info {
			found = true
			lh.e.info = extra
		}
		if lh.e.aux == v.info {
			found = true
			lh.e.aux = extra
		}
	}
	if found {
		fs.emitABC(opMove, extra, v.info, 0)
		fs.reserve(1)
	}
}
