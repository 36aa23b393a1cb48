package lua

import "math"

// A parser reads a chunk and emits code as it goes: one pass, no tree.
type parser struct {
	lexer
	fs     *funcState
	depth  int
	scope  map[string][]binding // the variables of each name, the innermost last
	loaded *loaded
}

// maxDepth bounds nesting of syntax, as it bounds nesting of calls.
const maxDepth = 200

// compile translates a chunk. The chunk name is as loadstring takes it:
// '@' before a file's name, '=' before any other. depth is the nesting of
// calls it happens in. st is the script that calls loadstring, whose memory and
// steps it takes; nil for [Compile].
func compile(st *state, source, name string, depth int) (p *proto, size int, err *syntaxError) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			p, size, err = nil, 0, e
		}
	}()
	ps := &parser{lexer: lexer{src: source, line: 1, lastLine: 1, chunk: chunkID(name, 80), st: st}, depth: depth, scope: map[string][]binding{}}
	if len(source) > 0 && source[0] == '\x1b' {
		return nil, 0, &syntaxError{"Attempt to load bytecode"}
	}
	if st != nil {
		ps.own = map[string]string{}
		ps.loaded = &loaded{}
		ps.use(4 * len(source)) // tokens, as they are read
	}
	ps.keep(len(name))
	fs := ps.open(name)
	fs.p.vararg = true
	ps.next()
	ps.chunkBody()
	ps.check(tkEOS)
	p = ps.closeFunc()
	if st != nil {
		ps.loaded.size = ps.size
	}
	return p, ps.size, nil
}

func (ps *parser) open(source string) *funcState {
	ps.keep(protoSize)
	ps.use(compileSize)
	fs := &funcState{
		p:      &proto{source: source, chunk: chunkID(source, 60), maxStack: 2, loaded: ps.loaded},
		prev:   ps.fs,
		lx:     &ps.lexer,
		jpc:    noJump,
		consts: map[constKey]int{},
	}
	fs.lastTarget = -1
	ps.fs = fs
	return fs
}

func (ps *parser) closeFunc() *proto {
	fs := ps.fs
	ps.removeLocals(0)
	fs.ret(0, 0)
	fs.patchPending()
	ps.fs = fs.prev
	return fs.p
}

func (ps *parser) enter() {
	ps.depth++
	if ps.depth > maxDepth {
		ps.fail("chunk has too many syntax levels", 0)
	}
}

func (ps *parser) leave() { ps.depth-- }

func (ps *parser) accept(kind int) bool {
	if ps.tok.kind == kind {
		ps.next()
		return true
	}
	return false
}

func (ps *parser) check(kind int) {
	if ps.tok.kind != kind {
		ps.syntax("'" + tokenText(kind) + "' expected")
	}
}

func (ps *parser) expect(kind int) {
	ps.check(kind)
	ps.next()
}

// closing expects the word what, the end of a construct that the word who opened on line.
func (ps *parser) closing(what, who, line int) {
	if ps.accept(what) {
		return
	}
	if line == ps.line {
		ps.check(what)
	}
	ps.syntax("'" + tokenText(what) + "' expected (to close '" + tokenText(who) +
		"' at line " + formatNumber(float64(line)) + ")")
}

func (ps *parser) name() string {
	ps.check(tkName)
	s := ps.apart(ps.tok.s)
	ps.next()
	return s
}

func (ps *parser) limit(v, limit int, what string) {
	if v <= limit {
		return
	}
	msg := "main function has more than "
	if ps.fs.p.line != 0 {
		msg = "function at line " + formatNumber(float64(ps.fs.p.line)) + " has more than "
	}
	ps.fail(msg+formatNumber(float64(limit))+" "+what, 0)
}

// Scopes and variables.

func (ps *parser) newLocal(name string, n int) {
	fs := ps.fs
	ps.limit(len(fs.actives)+n+1, maxLocals, "local variables")
	if len(fs.p.locals) >= math.MaxInt16 {
		ps.syntax("too many local variables")
	}
	ps.keep(localSize)
	ps.use(localSize)
	fs.p.locals = append(fs.p.locals, localVar{name: name})
}

// activate opens the scope of the next n variables declared.
func (ps *parser) activate(n int) {
	fs := ps.fs
	for range n {
		v := &fs.p.locals[fs.activated]
		v.start = fs.pc()
		ps.scope[v.name] = append(ps.scope[v.name], binding{fs, len(fs.actives)})
		fs.actives = append(fs.actives, fs.activated)
		fs.activated++
	}
}

func (ps *parser) removeLocals(to int) {
	fs := ps.fs
	for len(fs.actives) > to {
		last := len(fs.actives) - 1
		v := &fs.p.locals[fs.actives[last]]
		v.end = fs.pc()
		same := ps.scope[v.name]
		ps.scope[v.name] = same[:len(same)-1]
		fs.actives = fs.actives[:last]
	}
}

// capture returns the upvalue of fs that is a variable of a function around it.
func (ps *parser) capture(fs *funcState, name string, v binding) int {
	if i, ok := fs.captures[v]; ok {
		return i
	}
	ref := upvalRef{fromLocal: fs.prev == v.fs, index: v.reg}
	if ref.fromLocal {
		bl := v.fs.block
		for bl != nil && bl.actives > v.reg {
			bl = bl.prev
		}
		if bl != nil {
			bl.captured = true
		}
	} else {
		ref.index = ps.capture(fs.prev, name, v)
	}
	cur := ps.fs
	ps.fs = fs
	ps.limit(len(fs.upvals)+1, maxUpvals, "upvalues")
	ps.fs = cur
	i := len(fs.upvals)
	ps.keep(localSize)
	ps.use(indexSize)
	fs.upvals = append(fs.upvals, ref)
	fs.p.upNames = append(fs.p.upNames, name)
	fs.p.nups = len(fs.upvals)
	if fs.captures == nil {
		fs.captures = map[binding]int{}
	}
	fs.captures[v] = i
	return i
}

// variable finds the variable of a name in the function and those around it.
func (ps *parser) variable(name string, e *expr) {
	fs, named := ps.fs, ps.scope[name]
	if len(named) == 0 {
		e.is(exGlobal, fs.strConst(name))
		return
	}
	if v := named[len(named)-1]; v.fs == fs {
		e.is(exLocal, v.reg)
	} else {
		e.is(exUpval, ps.capture(fs, name, v))
	}
}

func (ps *parser) enterBlock(bl *block, breakable bool) {
	fs := ps.fs
	*bl = block{prev: fs.block, breaks: noJump, actives: len(fs.actives), breakable: breakable}
	fs.block = bl
}

func (ps *parser) leaveBlock() {
	fs := ps.fs
	bl := fs.block
	fs.block = bl.prev
	ps.removeLocals(bl.actives)
	if bl.captured {
		fs.emitABC(opClose, bl.actives, 0, 0)
	}
	fs.freeReg = len(fs.actives)
	fs.patchHere(bl.breaks)
}

// adjust makes nexps values of an expression list fit nvars variables.
func (ps *parser) adjust(nvars, nexps int, e *expr) {
	fs := ps.fs
	extra := nvars - nexps
	if e.multi() {
		extra = max(extra+1, 0)
		fs.setReturns(e, extra)
		if extra > 1 {
			fs.reserve(extra - 1)
		}
		return
	}
	if e.kind != exVoid {
		fs.toNextReg(e)
	}
	if extra > 0 {
		reg := fs.freeReg
		fs.reserve(extra)
		fs.loadNil(reg, extra)
	}
}
