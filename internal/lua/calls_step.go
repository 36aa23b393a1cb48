package lua

import "slices"

// step carries regs, which it may change, over the instruction at pc. Where
// there are two ways on, to has copied what the first is given.
func (f *flow) step(pc int, regs []fact) {
	i := f.p.code[pc]
	a, b, c, next := i.a(), i.b(), i.c(), pc+1
	other := fact{}
	switch i.op() {
	case opMove:
		f.set(regs, a, regs[b])
	case opLoadK:
		f.set(regs, a, f.constant(i.bx()))
	case opLoadBool:
		f.set(regs, a, other)
		if c != 0 {
			next++
		}
	case opLoadNil:
		f.forget(regs, a, b+1)
	case opGetUpval, opNewTable:
		f.set(regs, a, other)
	case opGetGlobal:
		f.set(regs, a, f.global(f.constant(i.bx()).text))
	case opGetTable:
		f.set(regs, a, f.element(regs[b], f.rk(regs, c)))
	case opSelf:
		f.lose(regs[b])
		f.lose(f.rk(regs, c))
		f.set(regs, a+1, other)
		f.set(regs, a, other)
	case opSetGlobal, opSetUpval:
		f.lose(regs[a])
	case opSetTable:
		f.lose(regs[a])
		f.lose(f.rk(regs, b))
		f.lose(f.rk(regs, c))
	case opAdd, opSub, opMul, opDiv, opMod, opPow:
		f.lose(f.rk(regs, b))
		f.lose(f.rk(regs, c))
		f.set(regs, a, other)
	case opUnm:
		f.lose(regs[b])
		f.set(regs, a, other)
	case opNot, opLen:
		f.set(regs, a, other)
	case opConcat:
		for r := b; r <= c; r++ {
			f.lose(regs[r])
		}
		f.forget(regs, b, c+1)
		f.set(regs, a, other)
	case opJmp:
		next += i.sbx()
	case opEq, opLt, opLe, opTest:
		f.to(pc+2, regs)
	case opTestSet:
		f.to(pc+2, regs)
		f.set(regs, a, regs[b])
	case opCall, opTailCall:
		f.call(pc, regs)
	case opReturn:
		for r := a; r < len(regs) && (b == 0 || r < a+b-1); r++ {
			f.lose(regs[r])
		}
		return
	case opForLoop:
		f.forget(regs, a, a+4)
		f.to(next+i.sbx(), regs)
	case opForPrep:
		f.forget(regs, a, a+3)
		next += i.sbx()
	case opTForLoop:
		overKeys := regs[a].kind == factWalk
		for r := a; r < a+3; r++ {
			f.lose(regs[r])
		}
		f.forget(regs, a+2, a+3+c)
		f.to(pc+2, regs)
		if overKeys && c >= 2 {
			f.set(regs, a+4, fact{kind: factKey})
		}
	case opSetList:
		for r := a; r < len(regs) && (b == 0 || r <= a+b); r++ {
			f.lose(regs[r])
		}
		if c == 0 {
			next++
		}
	case opClosure:
		for range f.p.protos[i.bx()].nups {
			if u := f.p.code[next]; u.op() == opMove {
				f.lose(regs[u.b()])
				regs[u.b()] = fact{shared: true}
			}
			next++
		}
		f.set(regs, a, other)
	case opVararg:
		if b == 0 {
			f.rest[pc] = other
			f.forget(regs, a, len(regs))
		} else {
			f.forget(regs, a, a+b-1)
		}
	case opClose:
	default:
		f.lost = true
	}
	if !f.lost {
		f.to(next, regs)
	}
}

func (f *flow) global(name string) fact {
	switch name {
	case "KEYS":
		return fact{kind: factKEYS}
	case "redis":
		return fact{kind: factRedis}
	case "unpack":
		return fact{kind: factUnpack}
	case "ipairs", "pairs":
		return fact{kind: factPairs}
	}
	// _G and its like lead to what is followed by other ways.
	f.lost = f.lost || !slices.Contains(plain, name)
	return fact{}
}

// element is what indexing gives.
func (f *flow) element(of, key fact) fact {
	f.lose(key)
	switch {
	case of.kind == factKEYS:
		return fact{kind: factKey}
	case of.kind != factRedis:
		f.lose(of)
	case key.kind != factText:
		f.lost = true
	case key.text == "call" || key.text == "pcall":
		return fact{kind: factCall}
	}
	return fact{}
}

// call carries regs over a call of the function in register a.
func (f *flow) call(pc int, regs []fact) {
	i := f.p.code[pc]
	a, last := i.a(), i.a()+i.b()-1
	rest, more := fact{}, i.b() == 0
	if more { // as many as the instruction before has left on the top
		var there bool
		if pc > 0 {
			rest, there = f.rest[pc-1]
		}
		if !there {
			f.lost = true
			return
		}
		last = f.p.code[pc-1].a() - 1
	}
	args := regs[a+1 : last+1]
	result := fact{}
	overKeys := false
	switch fn := regs[a]; fn.kind {
	case factCall:
		for _, arg := range args {
			f.lose(arg)
		}
		f.found[pc] = makeCall(args, rest, more)
	case factUnpack, factPairs:
		for n, arg := range args {
			if n > 0 || arg.kind != factKEYS {
				f.lose(arg)
			}
		}
		if overKeys = len(args) > 0 && args[0].kind == factKEYS; overKeys {
			result.kind = factKey
		}
		if overKeys && fn.kind == factPairs {
			// It returns KEYS itself, which nobody sees if a loop begins here.
			f.lost = f.lost || !f.beginsLoop(pc+1, a)
			result.kind = factOther
		}
	default:
		f.lose(fn)
		for _, arg := range args {
			f.lose(arg)
		}
	}
	walks := overKeys && regs[a].kind == factPairs
	f.forget(regs, a, len(regs))
	switch n := i.c() - 1; {
	case i.op() == opTailCall:
	case n < 0:
		f.rest[pc] = result
	default:
		for r := a; r < a+n; r++ {
			f.set(regs, r, result)
		}
	}
	if walks {
		f.set(regs, a, fact{kind: factWalk})
	}
}

// beginsLoop reports whether the instruction at pc begins a generic for whose
// hidden variables are at a.
func (f *flow) beginsLoop(pc, a int) bool {
	i := f.p.code[pc]
	if i.op() != opJmp {
		return false
	}
	loop := f.p.code[pc+1+i.sbx()]
	return loop.op() == opTForLoop && loop.a() == a
}

func makeCall(args []fact, rest fact, more bool) Call {
	c := Call{Args: make([]CallArg, len(args))}
	for n, arg := range args {
		c.Args[n] = CallArg{Key: arg.kind == factKey, Known: arg.kind == factText, Text: arg.text}
	}
	switch {
	case !more:
	case rest.kind == factKey:
		c.Rest = RestKeys
	default:
		c.Rest = RestOther
	}
	return c
}
