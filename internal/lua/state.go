package lua

import "sync"

const (
	minStack  = 20    // what a native may push without asking
	maxFrames = 16384 // nested calls, as C Lua's doubling array of them allows
	maxCStack = 8000  // values that one native may push
	maxCCalls = 200   // calls nested through natives and metamethods
)

// A frame is one call in progress. Frames of a thread are a list that is
// kept and used again.
type frame struct {
	cl         *luaFn // nil for a native
	nat        *goFn
	fn         int // stack index of the function; results go there
	base, top  int
	pc         int
	nres       int // results wanted, or multRet
	tailCalls  int
	fresh      bool // returning from it leaves execute
	prev, next *frame
}

// A thread is a coroutine, or the main program.
type thread struct {
	st      *state
	stack   []value
	top     int
	ci      *frame
	bottom  frame
	nframes int
	frames  int // allocated, in use or not
	// maxFrames bounds nframes; an error handler gets some more.
	maxFrames int
	open      *upval // variables of frames that closures hold, highest first
	status    int
	ccalls    int // nested calls through Go
	base      int // ccalls at the last resume
	resumed   bool
	id        uint32
	mark      uint32
}

const (
	coReady = iota
	coYielded
	coDead
)

// A state is one Lua machine: its globals, its main thread and its limits.
type state struct {
	main    *thread
	cur     *thread
	globals *table
	strMeta *table
	nextFn  *goFn
	ids     uint32
	depth   int      // coroutines resumed within each other
	library *Library // that is being loaded
	lasts   bool     // it belongs to a Library
	limits
	memory
	env
}

// names holds the strings that libraries use, so that a constant of a script
// is the same string and most comparisons are of pointers.
var names sync.Map // string to *str

// constant returns a string for tables and compiled constants.
func constant(s string) *str {
	if x, ok := names.Load(s); ok {
		return x.(*str)
	}
	return sharedStr(s)
}

// libName is constant for the names of a library.
func libName(s string) *str {
	x, _ := names.LoadOrStore(s, sharedStr(s))
	return x.(*str)
}

func (st *state) newID() uint32 { st.ids++; return st.ids }

func (st *state) newThread() *thread {
	l := &thread{st: st, id: st.newID()}
	l.reset()
	return l
}

// reset makes a thread as new, keeping its memory when that is small.
func (l *thread) reset() {
	if cap(l.stack) > 1<<12 || l.stack == nil {
		l.stack = make([]value, 2*minStack+24)
	} else {
		clear(l.stack)
	}
	for f := l.bottom.next; f != nil; f = f.next {
		f.cl, f.nat = nil, nil
	}
	if l.frames > 64 {
		l.bottom.next, l.frames = nil, 0
	}
	l.ci, l.nframes, l.open, l.top = &l.bottom, 1, nil, 1
	l.maxFrames = maxFrames
	l.bottom.base, l.bottom.top = 1, 1+minStack
	l.status, l.ccalls, l.base, l.resumed = coReady, 0, 0, false
}

func (st *state) newTable(narr, nhash int) *table {
	st.charge(tableSize)
	t := &table{id: st.newID()}
	if narr > 0 || nhash > 0 {
		t.resize(st, narr, nhash)
	}
	return t
}

// grow makes room for at least size slots; open upvalues follow the stack.
func (l *thread) grow(size int) {
	n := max(2*len(l.stack), size+minStack)
	l.st.charge((n - len(l.stack)) * valueSize)
	l.st.work(len(l.stack) / slowPerStep)
	ns := make([]value, n)
	copy(ns, l.stack)
	l.stack = ns
	for u := l.open; u != nil; u = u.next {
		u.v = &l.stack[u.idx]
	}
}

func (l *thread) need(n int) {
	if l.top+n > len(l.stack) {
		l.grow(l.top + n)
	}
}

func (l *thread) push(v value) {
	if l.top >= len(l.stack) {
		l.grow(l.top + 1)
	}
	l.stack[l.top] = v
	l.top++
}

func (l *thread) pushNum(n float64)  { l.push(num(n)) }
func (l *thread) pushStr(s string)   { l.push(l.st.str(s)) }
func (l *thread) pushBool(b bool)    { l.push(boolean(b)) }
func (l *thread) pushTable(t *table) { l.push(value{o: t}) }

// Arguments of a native.

func (l *thread) nargs() int { return l.top - l.ci.base }

// arg is argument i, from 1; nil beyond the last.
func (l *thread) arg(i int) value {
	if at := l.ci.base + i - 1; at < l.top {
		return l.stack[at]
	}
	return vNil
}

// none reports whether argument i was not given at all.
func (l *thread) none(i int) bool { return l.ci.base+i-1 >= l.top }

// setTop makes the native have exactly n arguments.
func (l *thread) setTop(n int) {
	to := l.ci.base + n
	if to > len(l.stack) {
		l.grow(to)
	}
	for ; l.top < to; l.top++ {
		l.stack[l.top] = vNil
	}
	l.top = to
}

// roomFor reports whether a native may push n more values.
func (l *thread) roomFor(n int) bool {
	return n <= maxCStack && l.top-l.ci.base+n <= maxCStack
}

// Upvalues.

func (l *thread) findUpval(idx int) *upval {
	p := &l.open
	for *p != nil && (*p).idx >= idx {
		if (*p).idx == idx {
			return *p
		}
		p = &(*p).next
	}
	l.st.charge(upvalSize)
	u := &upval{v: &l.stack[idx], idx: idx, next: *p, owner: l}
	*p = u
	return u
}

func (l *thread) closeUpvals(from int) {
	for l.open != nil && l.open.idx >= from {
		u := l.open
		l.open = u.next
		u.closed = *u.v
		u.v, u.next, u.owner = &u.closed, nil, nil
	}
}
