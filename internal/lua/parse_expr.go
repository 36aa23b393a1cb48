package lua

// Binary operators, in the order of the priority table.
const (
	binAdd = iota
	binSub
	binMul
	binDiv
	binMod
	binPow
	binConcat
	binNe
	binEq
	binLt
	binLe
	binGt
	binGe
	binAnd
	binOr
	binNone
)

// priority holds how strongly an operator binds to its left and right.
var priority = [...]struct{ left, right int }{
	{6, 6}, {6, 6}, {7, 7}, {7, 7}, {7, 7},
	{10, 9}, {5, 4}, // right associative
	{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3},
	{2, 2}, {1, 1},
}

const unaryPriority = 8

func binaryOp(kind int) int {
	switch kind {
	case '+':
		return binAdd
	case '-':
		return binSub
	case '*':
		return binMul
	case '/':
		return binDiv
	case '%':
		return binMod
	case '^':
		return binPow
	case tkConcat:
		return binConcat
	case tkNe:
		return binNe
	case tkEq:
		return binEq
	case '<':
		return binLt
	case tkLe:
		return binLe
	case '>':
		return binGt
	case tkGe:
		return binGe
	case tkAnd:
		return binAnd
	case tkOr:
		return binOr
	}
	return binNone
}

func (ps *parser) expr(e *expr) { ps.subexpr(e, 0) }

// subexpr reads an expression whose operators all bind more than limit, and
// returns the operator that follows it.
func (ps *parser) subexpr(e *expr, limit int) int {
	ps.enter()
	unary := -1
	switch ps.tok.kind {
	case tkNot:
		unary = opNot
	case '-':
		unary = opUnm
	case '#':
		unary = opLen
	}
	if unary >= 0 {
		ps.next()
		ps.subexpr(e, unaryPriority)
		ps.fs.prefix(unary, e)
	} else {
		ps.simple(e)
	}
	op := binaryOp(ps.tok.kind)
	for op != binNone && priority[op].left > limit {
		ps.next()
		ps.fs.infix(op, e)
		var e2 expr
		next := ps.subexpr(&e2, priority[op].right)
		ps.fs.postfix(op, e, &e2)
		op = next
	}
	ps.leave()
	return op
}

func (ps *parser) simple(e *expr) {
	switch ps.tok.kind {
	case tkNumber:
		e.is(exNum, 0)
		e.nval = ps.tok.n
	case tkString:
		e.is(exConst, ps.fs.strConst(ps.tok.s))
	case tkNil:
		e.is(exNil, 0)
	case tkTrue:
		e.is(exTrue, 0)
	case tkFalse:
		e.is(exFalse, 0)
	case tkDots:
		if !ps.fs.p.vararg {
			ps.syntax("cannot use '...' outside a vararg function")
		}
		ps.fs.p.needsArg = false
		e.is(exVararg, ps.fs.emitABC(opVararg, 0, 1, 0))
	case '{':
		ps.constructor(e)
		return
	case tkFunction:
		ps.next()
		ps.body(e, false, ps.line)
		return
	default:
		ps.primary(e)
		return
	}
	ps.next()
}

func (ps *parser) prefixExpr(e *expr) {
	switch ps.tok.kind {
	case '(':
		line := ps.line
		ps.next()
		ps.expr(e)
		ps.closing(')', '(', line)
		ps.fs.discharge(e)
	case tkName:
		ps.variable(ps.name(), e)
	default:
		ps.syntax("unexpected symbol")
	}
}

func (ps *parser) primary(e *expr) {
	ps.prefixExpr(e)
	for {
		switch ps.tok.kind {
		case '.':
			ps.field(e)
		case '[':
			ps.fs.toAnyReg(e)
			var key expr
			ps.indexKey(&key)
			ps.fs.index(e, &key)
		case ':':
			ps.next()
			var key expr
			key.is(exConst, ps.fs.strConst(ps.name()))
			ps.fs.self(e, &key)
			ps.callArgs(e)
		case '(', tkString, '{':
			ps.fs.toNextReg(e)
			ps.callArgs(e)
		default:
			return
		}
	}
}

func (ps *parser) field(e *expr) {
	ps.fs.toAnyReg(e)
	ps.next()
	var key expr
	key.is(exConst, ps.fs.strConst(ps.name()))
	ps.fs.index(e, &key)
}

func (ps *parser) indexKey(e *expr) {
	ps.next()
	ps.expr(e)
	ps.fs.toValue(e)
	ps.expect(']')
}

func (ps *parser) exprList(e *expr) int {
	n := 1
	ps.expr(e)
	for ps.accept(',') {
		ps.fs.toNextReg(e)
		ps.expr(e)
		n++
	}
	return n
}

func (ps *parser) callArgs(f *expr) {
	fs := ps.fs
	line := ps.line
	var args expr
	switch ps.tok.kind {
	case '(':
		if line != ps.lastLine {
			ps.syntax("ambiguous syntax (function call x new statement)")
		}
		ps.next()
		if ps.tok.kind == ')' {
			args.is(exVoid, 0)
		} else {
			ps.exprList(&args)
			fs.setReturns(&args, multRet)
		}
		ps.closing(')', '(', line)
	case '{':
		ps.constructor(&args)
	case tkString:
		args.is(exConst, fs.strConst(ps.tok.s))
		ps.next()
	default:
		ps.syntax("function arguments expected")
	}
	base := f.info
	n := multRet
	if !args.multi() {
		if args.kind != exVoid {
			fs.toNextReg(&args)
		}
		n = fs.freeReg - (base + 1)
	}
	f.is(exCall, fs.emitABC(opCall, base, n+1, 2))
	fs.fixLine(line)
	fs.freeReg = base + 1
}

// A tableCons is a constructor in progress.
type tableCons struct {
	item    expr // the list item read last, not yet stored
	table   *expr
	nh, na  int
	pending int // list items in registers
}

func (ps *parser) constructor(e *expr) {
	fs := ps.fs
	line := ps.line
	pc := fs.emitABC(opNewTable, 0, 0, 0)
	cc := tableCons{table: e}
	e.is(exReloc, pc)
	cc.item.is(exVoid, 0)
	fs.toNextReg(e)
	ps.expect('{')
	for ps.tok.kind != '}' {
		ps.flushItem(&cc)
		switch {
		case ps.tok.kind == tkName && ps.peek() == '=', ps.tok.kind == '[':
			ps.recordField(&cc)
		default:
			ps.expr(&cc.item)
			ps.limit(cc.na, 1<<31-3, "items in a constructor")
			cc.na++
			cc.pending++
		}
		if !ps.accept(',') && !ps.accept(';') {
			break
		}
	}
	ps.closing('}', '{', line)
	ps.lastItems(&cc)
	fs.p.code[pc].setB(toFloatByte(cc.na))
	fs.p.code[pc].setC(toFloatByte(cc.nh))
}

func (ps *parser) recordField(cc *tableCons) {
	fs := ps.fs
	reg := fs.freeReg
	var key, val expr
	if ps.tok.kind == tkName {
		key.is(exConst, fs.strConst(ps.name()))
	} else {
		ps.indexKey(&key)
	}
	cc.nh++
	ps.expect('=')
	k := fs.toRK(&key)
	ps.expr(&val)
	fs.emitABC(opSetTable, cc.table.info, k, fs.toRK(&val))
	fs.freeReg = reg
}

func (ps *parser) flushItem(cc *tableCons) {
	if cc.item.kind == exVoid {
		return
	}
	ps.fs.toNextReg(&cc.item)
	cc.item.is(exVoid, 0)
	if cc.pending == setBatch {
		ps.fs.setList(cc.table.info, cc.na, cc.pending)
		cc.pending = 0
	}
}

func (ps *parser) lastItems(cc *tableCons) {
	if cc.pending == 0 {
		return
	}
	if cc.item.multi() {
		ps.fs.setReturns(&cc.item, multRet)
		ps.fs.setList(cc.table.info, cc.na, multRet)
		cc.na-- // the last item's count is not known
		return
	}
	if cc.item.kind != exVoid {
		ps.fs.toNextReg(&cc.item)
	}
	ps.fs.setList(cc.table.info, cc.na, cc.pending)
}

// toFloatByte packs a size in 8 bits (eeeeexxx), rounding up.
func toFloatByte(x int) int {
	e := 0
	for x >= 16 {
		x = (x + 1) >> 1
		e++
	}
	if x < 8 {
		return x
	}
	return (e+1)<<3 | (x - 8)
}

func fromFloatByte(x int) int {
	e := x >> 3 & 31
	if e == 0 {
		return x
	}
	return (x&7 + 8) << (e - 1)
}

// body reads parameters and statements of a function.
func (ps *parser) body(e *expr, method bool, line int) {
	fs := ps.open(ps.fs.p.source)
	fs.p.line = line
	ps.expect('(')
	if method {
		ps.newLocal("self", 0)
		ps.activate(1)
	}
	ps.params()
	ps.expect(')')
	ps.chunkBody()
	ps.closing(tkEnd, tkFunction, line)
	ps.closeFunc()
	outer := ps.fs
	if len(outer.p.protos) >= maxBx {
		ps.syntax("constant table overflow")
	}
	ps.keep(16)
	outer.p.protos = append(outer.p.protos, fs.p)
	e.is(exReloc, outer.emitABx(opClosure, 0, len(outer.p.protos)-1))
	for _, u := range fs.upvals {
		op := opGetUpval
		if u.fromLocal {
			op = opMove
		}
		outer.emitABC(op, 0, u.index, 0)
	}
}

func (ps *parser) params() {
	fs := ps.fs
	n := 0
	if ps.tok.kind != ')' {
		for {
			switch ps.tok.kind {
			case tkName:
				ps.newLocal(ps.name(), n)
				n++
			case tkDots:
				ps.next()
				fs.p.vararg = true
				// The arg table of Lua 5.0 is still there, for functions
				// that don't use '...' themselves.
				ps.newLocal("arg", n)
				n++
				fs.p.hasArg, fs.p.needsArg = true, true
			default:
				ps.syntax("<name> or '...' expected")
			}
			if fs.p.vararg || !ps.accept(',') {
				break
			}
		}
	}
	ps.activate(n)
	fs.p.nparams = len(fs.actives)
	if fs.p.hasArg {
		fs.p.nparams--
	}
	fs.reserve(len(fs.actives))
}
