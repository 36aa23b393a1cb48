package outages

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A floor knows of each lock which caller has it, which callers wait, and since when it is free.
type floor struct {
	patience time.Duration // how long a caller may wait for a free lock
	fault    func(format string, args ...any)

	mu      sync.Mutex
	locks   map[string]*held
	longest time.Duration
}

// A held is one lock.
type held struct {
	by    string    // the caller that has it; empty: none
	fence int64     // of the last holder
	free  time.Time // since when it is free; zero: it is held, or its server is down

	// By caller:
	waits   map[string]*waiter
	entered map[string]int    // how often the caller had the lock
	refused map[string]int    // how often a call failed
	reasons map[string]string // why the last one failed
}

// A waiter is a caller that waits for a lock.
type waiter struct {
	since time.Time
	late  bool // it has waited too long, and the fault is reported
}

func newFloor(names []string, patience time.Duration, fault func(format string, args ...any)) *floor {
	f := &floor{patience: patience, fault: fault, locks: map[string]*held{}}
	for _, n := range names {
		f.locks[n] = &held{
			waits:   map[string]*waiter{},
			entered: map[string]int{}, refused: map[string]int{}, reasons: map[string]string{},
		}
	}
	return f
}

// wait notes that a caller asks for a lock.
func (f *floor) wait(name, caller string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks[name].waits[caller] = &waiter{since: time.Now()}
}

// enter notes that a caller has the lock.
func (f *floor) enter(name, caller string, fence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.locks[name]
	delete(l.waits, caller)
	switch {
	case l.by != "":
		f.fault("%s is held by %s and by %s at once", name, l.by, caller)
	case fence <= l.fence:
		f.fault("%s has the fencing token %d on %s, after %d", caller, fence, name, l.fence)
	}
	l.by, l.fence = caller, fence
	l.entered[caller]++
}

// leave notes that a caller does nothing more under the lock.
func (f *floor) leave(name, caller string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.locks[name]; l.by == caller {
		l.by = ""
	}
}

// refuse notes that a call for a lock has failed.
func (f *floor) refuse(name, caller, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.locks[name]
	delete(l.waits, caller)
	l.refused[caller]++
	l.reasons[caller] = reason
}

// look notes whether the server of a lock answers, and has it free.
func (f *floor) look(name string, free bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, now := f.locks[name], time.Now()
	if !free {
		l.free = time.Time{}
		return
	}
	if l.free.IsZero() {
		l.free = now
	}
	for caller, w := range l.waits {
		since := w.since
		if since.Before(l.free) {
			since = l.free
		}
		waited := now.Sub(since)
		f.longest = max(f.longest, waited)
		if waited > f.patience && !w.late {
			w.late = true
			f.fault("%s has waited for %v for %s, which is free", caller, waited.Round(time.Millisecond), name)
		}
	}
}

// String tells how often each caller had a lock, and an error.
func (f *floor) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, caller := range callers {
		entered, refused := 0, 0
		for _, l := range f.locks {
			entered += l.entered[caller]
			refused += l.refused[caller]
		}
		parts = append(parts, fmt.Sprintf("%s had %d locks and %d errors", caller, entered, refused))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(", longest wait for a free lock %v", f.longest.Round(time.Millisecond))
}
