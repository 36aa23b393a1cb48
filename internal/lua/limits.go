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
	whole     int             // natives under way that must not be ended halfway: see keepWhole
	long      func()          // nil once it was called
	looked    func(steps int) // of tests: called at each look, with the steps since the last
}

// Work that grows with its data counts by the bytes and slots that it goes over. A step
// stands for some ten nanoseconds, so two looks are well below a millisecond apart.
const (
	bytesPerStep = 64      // copied, compared or searched at once
	slowPerStep  = 16      // bytes or slots gone over one by one
	stretch      = 1 << 12 // of these between two looks
)

// An Interrupt stops runs that were given it. It may be set from any
// goroutine; a run sees it within some thousand steps, well below a millisecond.
type Interrupt struct{ flag atomic.Bool }

// Set asks for the end of the run.
func (i *Interrupt) Set() { i.flag.Store(true) }

// IsSet reports whether the end was asked for.
func (i *Interrupt) IsSet() bool { return i.flag.Load() }

// Clear makes the Interrupt ready to be used again.
func (i *Interrupt) Clear() { i.flag.Store(false) }

// work counts n steps done by a native.
func (st *state) work(n int) {
	if st.fuel -= n; st.fuel < 0 {
		st.refuel()
	}
}

// workBytes counts n bytes that are copied, compared or searched at once.
func (st *state) workBytes(n int) {
	if n >= bytesPerStep {
		st.work(n / bytesPerStep)
	}
}

// workSlow counts n bytes or slots that are gone over one by one.
func (st *state) workSlow(n int) {
	if n >= slowPerStep {
		st.work(n / slowPerStep)
	}
}

// stretches calls f with one part of s after the other, and looks in between.
// f says whether to go on.
func (st *state) stretches(s string, f func(part string) bool) {
	for len(s) > 0 {
		part := s[:min(len(s), stretch)]
		st.workSlow(len(part))
		if !f(part) {
			return
		}
		s = s[len(part):]
	}
}

// refuel looks whether the run may go on.
func (st *state) refuel() {
	st.steps += int64(refuelSteps - st.fuel)
	if f := st.looked; f != nil {
		f(refuelSteps - st.fuel)
	}
	st.fuel = refuelSteps
	if f := st.long; f != nil {
		st.long = nil
		f()
	}
	switch {
	case st.whole > 0:
	case st.interrupt != nil && st.interrupt.flag.Load():
		st.abort(ErrKilled)
	case st.budget > 0 && st.steps > st.budget:
		st.abort(ErrBudget)
	case !st.deadline.IsZero() && time.Now().After(st.deadline):
		st.abort(ErrDeadline)
	}
}

// keepWhole begins, in a state that lasts, what may not be ended before mayEnd: values would be lost. It is for natives
// that take milliseconds at most.
func (st *state) keepWhole() {
	if st.lasts {
		st.whole++
	}
}

func (st *state) mayEnd() {
	if st.lasts {
		st.whole--
	}
}

func (st *state) abort(cause error) { panic(&luaError{fatal: true, cause: cause}) }
