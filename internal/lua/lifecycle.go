package lua

import "math/rand/v2"

// newState makes a state with all of Lua's libraries, its tables read only. A state that lasts belongs to a
// [Library]: it has neither KEYS nor ARGV.
func newState(o Options, lasts bool) *state { //nolint:revive // the parameter is what it is for
	st := &state{lasts: lasts}
	st.memLimit, st.memNext, st.fuel = 1<<40, 1<<40, refuelSteps
	st.main = st.newThread()
	st.cur = st.main
	st.globals = st.newTable(0, 32)
	st.openBase()
	st.openCoroutine()
	st.openString()
	st.openTable()
	st.openMath()
	st.openBit()
	st.openStruct()
	st.openJSON()
	st.openMsgpack()
	st.openRedis(o.Version, versionNumber(o.Version))
	mt := st.newTable(0, 1)
	mt.setField(st, "__index", value{o: &goFn{name: "", fn: unknownGlobal, id: st.newID()}})
	st.globals.meta = mt
	if !lasts {
		for _, k := range []*str{strKEYS, strARGV} {
			*st.globals.slot(st, value{o: k}) = vFalse
		}
	}
	st.protect(st.globals)
	st.protect(st.strMeta)
	return st
}

func unknownGlobal(l *thread) int {
	v := l.arg(2)
	if l.nargs() != 2 {
		l.errorf("Wrong number of arguments to luaProtectedTableError")
	}
	name, ok := toText(&v)
	if !ok {
		l.errorf("Second argument to luaProtectedTableError must be a string or number")
	}
	l.errorf("Script attempted to access nonexistent global variable '%s'", cString(name))
	return 0
}

// protect makes a table read only, and those it leads to.
func (st *state) protect(t *table) {
	if t == nil || t.readonly {
		return
	}
	t.readonly = true
	t.each(func(_, v value) {
		if sub, ok := v.o.(*table); ok {
			st.protect(sub)
		}
	})
	st.protect(t.meta)
}

// reset forgets everything of a run.
func (st *state) reset() {
	*st.globals.getStr(strKEYS) = vFalse
	*st.globals.getStr(strARGV) = vFalse
	st.keys.release()
	st.args.release()
	st.entry.p = nil
	st.forget()
}

// forget forgets everything of a run but globals and the variables of a [Library].
func (st *state) forget() {
	st.whole = 0
	st.main.closeUpvals(0)
	st.main.reset()
	st.cur, st.depth = st.main, 0
	st.host, st.interrupt, st.long, st.looked = nil, nil, nil, nil
	clear(st.building)
	if st.building = st.building[:0]; cap(st.building) > 1<<8 {
		st.building = nil
	}
	st.reply.v, st.reply.l = vNil, nil
	clear(st.reply.open[:cap(st.reply.open)])
	if cap(st.argBuf) > 1<<16 {
		st.argBuf = nil
	}
	clear(st.argv)
	if cap(st.argv) > 1<<10 {
		st.argv = nil
	}
	st.argv = st.argv[:0]
}

func (st *state) begin(inv *Invocation, rt *Runtime) {
	st.limit(rt)
	st.attend(inv, rt)
	*st.globals.getStr(strKEYS) = st.keys.fill(st, inv.Keys)
	*st.globals.getStr(strARGV) = st.args.fill(st, inv.Args)
}

// limit begins to count memory.
func (st *state) limit(rt *Runtime) {
	st.mem = 0
	st.memLimit, st.shared = rt.opts.Memory, &rt.shared
	if st.memNext = 0; !st.lasts {
		st.memNext = min(freeShare, rt.opts.Memory/4)
	}
}

// attend begins a run, without KEYS and ARGV.
func (st *state) attend(inv *Invocation, rt *Runtime) {
	o := &rt.opts
	st.refusals, st.held = 0, 0
	st.fuel, st.steps = refuelSteps, 0
	st.budget, st.deadline, st.interrupt, st.long = o.Steps, inv.Deadline, inv.Interrupt, inv.Long
	st.looked = inv.looked
	if inv.Steps > 0 {
		st.budget = inv.Steps
	}
	if st.budget > 0 && st.budget < refuelSteps {
		st.fuel = int(st.budget)
		st.steps = int64(st.fuel - refuelSteps)
	}
	st.host, st.resp3, st.answering, st.stoppedAt = inv.Host, false, false, ""
	st.rng = rng48(rand.Uint64() & (1<<48 - 1))
	st.json = defaultJSON
}

// A params is KEYS or ARGV. Nothing of a run outlives it, so the table and
// the strings are used again by the next.
type params struct {
	t    table
	strs []str
}

func (ps *params) fill(st *state, list []string) value {
	n := len(list)
	size := 0
	if n > 0 {
		size = 1 << ceilLog2(n)
	}
	arr := ps.t.arr
	if cap(arr) < size {
		arr = make([]value, size)
	}
	arr = arr[:size]
	clear(arr)
	if cap(ps.strs) < n {
		ps.strs = make([]str, n)
	}
	for i, s := range list {
		ps.strs[:n][i] = str{s: s}
		arr[i].o = &ps.strs[:n][i]
	}
	ps.t = table{arr: arr, id: st.newID()}
	return value{o: &ps.t}
}

func (ps *params) release() {
	if cap(ps.t.arr) > 64 {
		ps.t.arr, ps.strs = nil, nil
	}
	clear(ps.strs[:cap(ps.strs)])
	ps.t = table{arr: ps.t.arr[:0]}
}

// run calls a script and returns its first result.
func (st *state) run(p *Proto) (v value, err error) {
	defer st.recovered(p.sha, &err)
	l := st.main
	fn := l.top
	st.entry = luaFn{p: p.main, id: st.newID()}
	l.push(value{o: &st.entry})
	return st.finishRun(fn, p.sha)
}

// finishRun calls the function at fn with what is above it. name is that of the script or function, for errors.
func (st *state) finishRun(fn int, name string) (value, error) {
	l := st.main
	h := value{o: st.errFn}
	failed, e := l.protect(fn, 1, func(e *luaError) value { return l.handle(h, e.v) })
	if failed {
		return vNil, &ScriptError{Text: oneLine(st.errorText(e, name))}
	}
	return l.stack[fn], nil
}

// recovered, deferred, makes an error of what ended a run.
func (st *state) recovered(name string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	e, ok := r.(*luaError)
	if !ok {
		panic(r)
	}
	if e.fatal {
		*err = e.cause
		st.cur = st.main
		st.stoppedAt = " script: " + name + st.main.place()
		return
	}
	*err = &ScriptError{Text: st.errorText(e.v, name)}
}

// place is where the innermost Lua function of a thread stands.
func (l *thread) place() string {
	for ci := l.ci; ci != nil && ci != &l.bottom; ci = ci.prev {
		if ci.cl != nil {
			return ", on " + ci.cl.p.source + ":" + formatInt(ci.line()) + "."
		}
	}
	return ""
}
