package lua

import (
	"errors"
	"sync/atomic"
	"time"
)

// Errors that stop a run. Scripts can't catch them.
var (
	// ErrKilled is what Run returns after its Interrupt was set.
	ErrKilled = errors.New("lua: script killed")
	// ErrBudget is what Run returns when a script used up its steps.
	ErrBudget = errors.New("lua: script exceeded its instruction budget")
	// ErrDeadline is what Run returns when a script ran past its deadline.
	ErrDeadline = errors.New("lua: script exceeded its time limit")
	// ErrMemory is what Run returns when a script that was told it has not
	// enough memory goes on asking for it.
	ErrMemory = errors.New("lua: script exceeded its memory limit")
)

// refuelSteps is how many steps pass between looks at the clock.
const refuelSteps = 2000

// limits are the bounds of one run.
type limits struct {
	fuel      int // steps to the next look
	steps     int64
	budget    int64
	deadline  time.Time
	interrupt *Interrupt
	long      func() // nil once it was called
	mem       int    // bytes since the last count of what is alive
	memNext   int    // mem at which to count again
	memLimit  int
	held      int // bytes in buffers of natives that are running
	refusals  int
	epoch     uint32
}

// An Interrupt stops runs that were given it. It may be set from any
// goroutine; a run sees it within some thousand instructions.
type Interrupt struct{ flag atomic.Bool }

// Set asks for the end of the run.
func (i *Interrupt) Set() { i.flag.Store(true) }

// Clear makes the Interrupt ready to be used again.
func (i *Interrupt) Clear() { i.flag.Store(false) }

// work counts n steps done by a native.
func (st *state) work(n int) {
	if st.fuel -= n; st.fuel < 0 {
		st.refuel()
	}
}

// refuel looks whether the run may go on.
func (st *state) refuel() {
	st.steps += int64(refuelSteps - st.fuel)
	st.fuel = refuelSteps
	if f := st.long; f != nil {
		st.long = nil
		f()
	}
	switch {
	case st.interrupt != nil && st.interrupt.flag.Load():
		st.abort(ErrKilled)
	case st.budget > 0 && st.steps > st.budget:
		st.abort(ErrBudget)
	case !st.deadline.IsZero() && time.Now().After(st.deadline):
		st.abort(ErrDeadline)
	}
}

func (st *state) abort(cause error) { panic(&luaError{fatal: true, cause: cause}) }

// charge counts n bytes about to be allocated. It raises "not enough memory"
// when what is alive would pass the limit.
func (st *state) charge(n int) {
	if st.mem += n; st.mem > st.memNext {
		st.account(n)
	}
}

// hold counts n bytes of a buffer that a native is filling, which marking
// can't see. The native sets held back when it is done, protect when it fails.
func (st *state) hold(n int) {
	st.held += n
	st.charge(n)
}

// account counts what is alive, to tell garbage from memory in use.
func (st *state) account(n int) {
	if n > st.memLimit {
		st.mem -= n
		st.outOfMemory()
	}
	live := st.live() + st.held
	st.mem = live + n
	if st.mem > st.memLimit {
		st.mem = live
		st.memNext = st.memLimit
		st.outOfMemory()
	}
	// Count again when half of what is left has been allocated, at least
	// after a sixteenth of the limit: the work stays proportionate.
	st.memNext = st.mem + max((st.memLimit-st.mem)/2, st.memLimit/16)
}

func (st *state) outOfMemory() {
	if st.refusals++; st.refusals > 100 {
		st.abort(ErrMemory)
	}
	panic(&luaError{v: value{o: constant("not enough memory")}})
}

// live is the size of everything that the run can reach.
func (st *state) live() int {
	st.epoch++
	m := marker{epoch: st.epoch}
	m.thread(st.main)
	m.thread(st.cur)
	m.table(st.globals)
	for len(m.todo) > 0 {
		t := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		m.scan(t)
	}
	return m.bytes
}

// A marker walks reachable objects. Work is kept on a list, not on Go's
// stack, so that long chains are no danger.
type marker struct {
	epoch uint32
	bytes int
	todo  []any
}

func (m *marker) value(v *value) {
	switch x := v.o.(type) {
	case *str:
		if !x.shared && x.mark != m.epoch {
			x.mark = m.epoch
			m.bytes += strSize + len(x.s)
		}
	case *table:
		m.table(x)
	case *luaFn:
		if x.mark != m.epoch {
			x.mark = m.epoch
			m.bytes += fnSize + 8*len(x.ups)
			m.todo = append(m.todo, x)
		}
	case *goFn:
		if x.mark != m.epoch {
			x.mark = m.epoch
			m.todo = append(m.todo, x)
		}
	case *thread:
		m.thread(x)
	}
}

func (m *marker) table(t *table) {
	if t != nil && t.mark != m.epoch {
		t.mark = m.epoch
		m.bytes += tableSize + cap(t.arr)*valueSize + len(t.nodes)*nodeSize
		m.todo = append(m.todo, t)
	}
}

func (m *marker) thread(l *thread) {
	if l.mark != m.epoch {
		l.mark = m.epoch
		m.bytes += len(l.stack) * valueSize
		m.todo = append(m.todo, l)
	}
}

func (m *marker) scan(o any) {
	switch x := o.(type) {
	case *table:
		m.table(x.meta)
		for i := range x.arr {
			m.value(&x.arr[i])
		}
		for i := range x.nodes {
			m.value(&x.nodes[i].key)
			m.value(&x.nodes[i].val)
		}
	case *luaFn:
		for _, u := range x.ups {
			if u.mark != m.epoch {
				u.mark = m.epoch
				m.bytes += nodeSize
				m.value(u.v)
			}
		}
	case *goFn:
		for i := range x.ups {
			m.value(&x.ups[i])
		}
	case *thread:
		// What is above the frame's top is left over and will be written
		// over; natives' own values are below top.
		for i := range min(max(x.top, x.ci.top), len(x.stack)) {
			m.value(&x.stack[i])
		}
	}
}
