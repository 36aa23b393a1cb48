package lua

import "math"

// Kinds of expression during compilation.
const (
	exVoid = iota
	exNil
	exTrue
	exFalse
	exConst   // info: constant
	exNum     // nval
	exLocal   // info: register
	exUpval   // info: upvalue
	exGlobal  // info: constant of the name
	exIndexed // info: register of the table, aux: RK of the key
	exJump    // info: pc of the jump
	exReloc   // info: pc of an instruction whose A is open
	exReg     // info: register
	exCall    // info: pc
	exVararg  // info: pc
)

const noJump = -1

// Sizes of what compiling makes, with the room that slices have to grow.
const (
	codeSize    = 16
	localSize   = 64
	protoSize   = 320
	compileSize = 600
)

// An expr is an expression whose code may not be complete. t and f are lists
// of jumps taken when it is true and when it is false.
type expr struct {
	kind, info, aux int
	nval            float64
	t, f            int
}

func (e *expr) is(kind, info int) { *e = expr{kind: kind, info: info, t: noJump, f: noJump} }
func (e *expr) jumps() bool       { return e.t != e.f }
func (e *expr) numeral() bool     { return e.kind == exNum && e.t == noJump && e.f == noJump }
func (e *expr) multi() bool       { return e.kind == exCall || e.kind == exVararg }

// A block is a scope, and a loop when breakable.
type block struct {
	prev      *block
	breaks    int
	actives   int
	captured  bool
	breakable bool
}

// A funcState is one function under compilation.
type funcState struct {
	p          *proto
	prev       *funcState
	lx         *lexer
	block      *block
	lastTarget int         // pc that is a jump target: no peephole across it
	jpc        int         // jumps waiting for the next instruction
	tails      map[int]int // from the first jump of a list to its last
	freeReg    int
	actives    []int // indices into p.locals of the variables in scope
	activated  int   // how many of p.locals have come into scope so far
	upvals     []upvalRef
	captures   map[binding]int // from a variable of an outer function to its upvalue here
	consts     map[constKey]int
}

// A binding is a variable in scope: the register it has in its function.
type binding struct {
	fs  *funcState
	reg int
}

type upvalRef struct {
	fromLocal bool
	index     int
}

type constKey struct {
	kind byte
	bits uint64
	s    string
}

func (fs *funcState) pc() int { return len(fs.p.code) }

func (fs *funcState) emit(i instr) int {
	fs.patchPending()
	if len(fs.p.code) >= math.MaxInt32 {
		fs.lx.syntax("code size overflow")
	}
	fs.lx.keep(codeSize)
	fs.p.code = append(fs.p.code, i)
	fs.p.lines = append(fs.p.lines, int32(fs.lx.lastLine))
	return len(fs.p.code) - 1
}

func (fs *funcState) emitABC(op, a, b, c int) int { return fs.emit(abc(op, a, b, c)) }
func (fs *funcState) emitABx(op, a, bx int) int   { return fs.emit(abx(op, a, bx)) }
func (fs *funcState) fixLine(line int)            { fs.p.lines[len(fs.p.lines)-1] = int32(line) }

// Constants.

func (fs *funcState) addConst(key constKey, v value) int {
	if i, ok := fs.consts[key]; ok {
		return i
	}
	i := len(fs.p.k)
	if i > maxBx {
		fs.lx.syntax("constant table overflow")
	}
	fs.lx.keep(2*valueSize + strSize)
	fs.lx.use(indexSize)
	fs.p.k = append(fs.p.k, v)
	fs.consts[key] = i
	return i
}

func (fs *funcState) strConst(s string) int {
	if i, ok := fs.consts[constKey{kind: 's', s: s}]; ok {
		return i
	}
	fs.lx.keep(2 * len(s))
	var c *str
	if x, ok := names.Load(s); ok {
		c = x.(*str)
	} else if fs.lx.st != nil {
		c = &str{s: s} // it counts for the script, as its other strings do
	} else {
		c = sharedStr(s)
	}
	return fs.addConst(constKey{kind: 's', s: s}, value{o: c})
}

func (fs *funcState) numConst(n float64) int {
	key := constKey{kind: 'n', bits: math.Float64bits(n)}
	if n == 0 {
		key.bits = 0 // 0 and -0 are one constant in C Lua too
	}
	return fs.addConst(key, num(n))
}

// Jumps.

func (fs *funcState) jump() int {
	waiting := fs.jpc
	fs.jpc = noJump
	j := fs.emitABx(opJmp, 0, noJump+maxSBx)
	return fs.concat(j, waiting)
}

func (fs *funcState) label() int {
	fs.lastTarget = fs.pc()
	return fs.pc()
}

func (fs *funcState) fixJump(pc, dest int) {
	off := dest - (pc + 1)
	if off > maxSBx || off < -maxSBx {
		fs.lx.syntax("control structure too long")
	}
	fs.p.code[pc].setSBx(off)
}

func (fs *funcState) jumpDest(pc int) int {
	off := fs.p.code[pc].sbx()
	if off == noJump {
		return noJump
	}
	return pc + 1 + off
}

func (fs *funcState) concat(l1, l2 int) int {
	if l2 == noJump {
		return l1
	}
	if l1 == noJump {
		return l2
	}
	fs.fixJump(fs.tail(l1), l2)
	fs.lx.use(indexSize)
	if fs.tails == nil {
		fs.tails = map[int]int{}
	}
	fs.tails[l1] = fs.tail(l2)
	return l1
}

// tail is the last jump of a list. Walking to it would make a loop of n breaks
// take n*n steps.
func (fs *funcState) tail(list int) int {
	if t, ok := fs.tails[list]; ok {
		return t
	}
	return list
}

// control is the instruction that decides a jump: the test before it, if any.
func (fs *funcState) control(pc int) *instr {
	if pc >= 1 && isTest(fs.p.code[pc-1].op()) {
		return &fs.p.code[pc-1]
	}
	return &fs.p.code[pc]
}

// needValue reports whether a jump of the list leaves no value behind.
func (fs *funcState) needValue(list int) bool {
	for ; list != noJump; list = fs.jumpDest(list) {
		if fs.control(list).op() != opTestSet {
			return true
		}
	}
	return false
}

func (fs *funcState) patchTest(node, reg int) bool {
	i := fs.control(node)
	if i.op() != opTestSet {
		return false
	}
	if reg != maxA && reg != i.b() {
		i.setA(reg)
	} else {
		*i = abc(opTest, i.b(), 0, i.c())
	}
	return true
}

func (fs *funcState) removeValues(list int) {
	for ; list != noJump; list = fs.jumpDest(list) {
		fs.patchTest(list, maxA)
	}
}

func (fs *funcState) patchListTo(list, vtarget, reg, dtarget int) {
	for list != noJump {
		next := fs.jumpDest(list)
		if fs.patchTest(list, reg) {
			fs.fixJump(list, vtarget)
		} else {
			fs.fixJump(list, dtarget)
		}
		list = next
	}
}

func (fs *funcState) patchPending() {
	fs.patchListTo(fs.jpc, fs.pc(), maxA, fs.pc())
	fs.jpc = noJump
}

func (fs *funcState) patch(list, target int) {
	if target == fs.pc() {
		fs.patchHere(list)
	} else {
		fs.patchListTo(list, target, maxA, target)
	}
}

func (fs *funcState) patchHere(list int) {
	fs.label()
	fs.jpc = fs.concat(fs.jpc, list)
}

// Registers.

func (fs *funcState) needRegs(n int) {
	size := fs.freeReg + n
	if size > fs.p.maxStack {
		if size >= maxRegs {
			fs.lx.syntax("function or expression too complex")
		}
		fs.p.maxStack = size
	}
}

func (fs *funcState) reserve(n int) {
	fs.needRegs(n)
	fs.freeReg += n
}

func (fs *funcState) release(reg int) {
	if reg < constBit && reg >= len(fs.actives) {
		fs.freeReg--
	}
}

func (fs *funcState) releaseExpr(e *expr) {
	if e.kind == exReg {
		fs.release(e.info)
	}
}

func (fs *funcState) loadNil(from, n int) {
	if fs.pc() > fs.lastTarget {
		if fs.pc() == 0 {
			if from >= len(fs.actives) {
				return // registers start as nil
			}
		} else if prev := &fs.p.code[fs.pc()-1]; prev.op() == opLoadNil {
			if a, b := prev.a(), prev.b(); a <= from && from <= b+1 {
				if from+n-1 > b {
					prev.setB(from + n - 1)
				}
				return
			}
		}
	}
	fs.emitABC(opLoadNil, from, from+n-1, 0)
}

func (fs *funcState) ret(first, n int) { fs.emitABC(opReturn, first, n+1, 0) }

func (fs *funcState) setReturns(e *expr, n int) {
	switch e.kind {
	case exCall:
		fs.p.code[e.info].setC(n + 1)
	case exVararg:
		fs.p.code[e.info].setB(n + 1)
		fs.p.code[e.info].setA(fs.freeReg)
		fs.reserve(1)
	}
}

func (fs *funcState) setOneReturn(e *expr) {
	switch e.kind {
	case exCall:
		e.kind, e.info = exReg, fs.p.code[e.info].a()
	case exVararg:
		fs.p.code[e.info].setB(2)
		e.kind = exReloc
	}
}
