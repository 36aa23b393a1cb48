package lua

import "fmt"

// A luaError is an error raised by a script, thrown as a panic and caught by
// protect. A fatal one stops the run: pcall does not see it.
type luaError struct {
	v     value
	fatal bool
	cause error // of a fatal one
}

func (l *thread) throw(v value) { panic(&luaError{v: v}) }

// fail raises an error of the machine, with the position when Lua code runs.
func (l *thread) fail(msg string) {
	l.st.workBytes(len(msg))
	if ci := l.ci; ci.cl != nil {
		msg = position(ci) + msg
	}
	l.throw(l.st.str(msg))
}

// errorf raises an error of a native, with the position of its caller.
func (l *thread) errorf(format string, args ...any) {
	for _, a := range args {
		if s, ok := a.(string); ok {
			l.st.workSlow(len(s))
			l.st.charge(2 * len(s)) // copies that formatting makes
		}
	}
	l.throw(l.st.str(l.where(1) + fmt.Sprintf(format, args...)))
}

// prefixed is a message with its position.
func (l *thread) prefixed(where, msg string) value {
	l.st.workBytes(len(msg))
	l.st.charge(len(msg))
	return l.st.str(where + msg)
}

func (st *state) fail(msg string) { st.cur.fail(msg) }

func (ci *frame) line() int {
	if ci.pc == 0 {
		return ci.cl.p.line
	}
	return int(ci.cl.p.lines[ci.pc-1])
}

func position(ci *frame) string {
	return ci.cl.p.chunk + ":" + formatNumber(float64(ci.line())) + ": "
}

// level finds the frame of a call level: 0 is the running function. Calls
// lost to tail calls count as levels; then lost is true.
func (l *thread) level(n int) (ci *frame, lost bool) {
	ci = l.ci
	for ; n > 0 && ci != &l.bottom; ci = ci.prev {
		n--
		if ci.cl != nil {
			n -= ci.tailCalls
		}
	}
	switch {
	case n < 0:
		return nil, true
	case n == 0 && ci != &l.bottom:
		return ci, false
	}
	return nil, false
}

// where is the position of a level as error messages begin, or nothing.
func (l *thread) where(n int) string {
	if ci, _ := l.level(n); ci != nil && ci.cl != nil {
		if ci.line() > 0 {
			return position(ci)
		}
	}
	return ""
}

// typeError raises "attempt to op a value". reg is the register that holds
// it, counted from the frame's base, or -1.
func (l *thread) typeError(v value, reg int, op string) {
	if l.ci.cl != nil && reg >= 0 && reg < l.ci.cl.p.maxStack {
		if kind, name := l.objName(l.ci.cl.p, l.ci.pc-1, reg); kind != "" {
			l.st.charge(3 * len(name)) // the message, as it is put together
			l.fail("attempt to " + op + " " + kind + " '" + cString(name) + "' (a " + kindName(v) + " value)")
		}
	}
	l.fail("attempt to " + op + " a " + kindName(v) + " value")
}

func (l *thread) orderError(a, b value) {
	t1, t2 := kindName(a), kindName(b)
	if t1[2] == t2[2] { // as C Lua tells kinds apart
		l.fail("attempt to compare two " + t1 + " values")
	}
	l.fail("attempt to compare " + t1 + " with " + t2)
}

// localName is the variable held by a register at a pc, if it is one.
func (p *proto) localName(reg, pc int) string {
	for i := range p.locals {
		v := &p.locals[i]
		if v.start > pc {
			break
		}
		if pc < v.end {
			if reg == 0 {
				return v.name
			}
			reg--
		}
	}
	return ""
}

// objName finds what a register holds at a pc, for messages: the variable,
// or how the instruction that filled it read it.
func (l *thread) objName(p *proto, pc, reg int) (kind, name string) {
	l.st.workSlow(min(len(p.locals), pc) + pc)
	if name := p.localName(reg, pc); name != "" {
		return "local", name
	}
	i := p.trace(pc, reg)
	keyName := func(c int) string {
		if c >= constBit {
			if s, ok := p.k[c-constBit].o.(*str); ok {
				return s.s
			}
		}
		return "?"
	}
	switch i.op() {
	case opGetGlobal:
		if s, ok := p.k[i.bx()].o.(*str); ok {
			return "global", s.s
		}
	case opMove:
		if i.b() < i.a() {
			return l.objName(p, pc, i.b())
		}
	case opGetTable:
		return "field", keyName(i.c())
	case opGetUpval:
		return "upvalue", p.upNames[i.b()]
	case opSelf:
		return "method", keyName(i.c())
	}
	return "", ""
}

// trace follows the code to lastPC and returns the instruction that last
// changed a register, the final return when none did.
func (p *proto) trace(lastPC, reg int) instr {
	last := len(p.code) - 1
	for pc := 0; pc < lastPC; pc++ {
		i := p.code[pc]
		op, a := i.op(), i.a()
		if setsA(op) && a == reg {
			last = pc
		}
		switch op {
		case opLoadNil:
			if a <= reg && reg <= i.b() {
				last = pc
			}
		case opSelf:
			if reg == a+1 {
				last = pc
			}
		case opTForLoop:
			if reg >= a+2 {
				last = pc
			}
		case opJmp, opForLoop, opForPrep:
			if dest := pc + 1 + i.sbx(); pc < dest && dest <= lastPC {
				pc += i.sbx()
			}
		case opCall, opTailCall:
			if reg >= a {
				last = pc
			}
		case opSetList:
			if i.c() == 0 {
				pc++
			}
		case opClosure:
			pc += p.protos[i.bx()].nups
		}
	}
	return p.code[last]
}

// calleeName is how the calling function names the running native.
func (l *thread) calleeName() (kind, name string) {
	caller := l.ci.prev
	if caller == nil || caller.cl == nil || caller.pc == 0 {
		return "", ""
	}
	p := caller.cl.p
	i := p.code[caller.pc-1]
	switch i.op() {
	case opCall, opTailCall, opTForLoop:
		return l.objName(p, caller.pc-1, i.a())
	}
	return "", ""
}

// argError raises luaL_argerror's message for argument n of a native.
func (l *thread) argError(n int, msg string) {
	kind, name := l.calleeName()
	if kind == "method" {
		n--
		if n == 0 {
			l.errorf("calling '%s' on bad self (%s)", name, msg)
		}
	}
	if kind == "" {
		name = "?"
	}
	l.errorf("bad argument #%d to '%s' (%s)", n, name, msg)
}

func (l *thread) argTypeError(n int, want string) {
	got := "no value"
	if !l.none(n) {
		got = kindName(l.arg(n))
	}
	l.argError(n, want+" expected, got "+got)
}
