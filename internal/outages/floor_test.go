package outages

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A floor is where the locks are held: it knows who is in, who waits, and since when each
// lock is free.
type floor struct {
	patience time.Duration // how long someone may wait for a free lock
	fault    func(format string, args ...any)

	mu      sync.Mutex
	locks   map[string]*held
	longest time.Duration
}

// A held is one lock.
type held struct {
	by      string // who is in; nobody when empty
	fence   int64  // of the last holder
	free    time.Time
	waits   map[string]time.Time // since when someone waits, by who it is
	told    map[string]bool      // of whom the fault is known
	entered map[string]int       // how often someone was in, by the kind of caller
	refused map[string]int       // how often a call failed
	reasons map[string]string    // the last failure of each kind of caller
}

func newFloor(names []string, patience time.Duration, fault func(format string, args ...any)) *floor {
	f := &floor{patience: patience, fault: fault, locks: map[string]*held{}}
	for _, n := range names {
		f.locks[n] = &held{
			waits: map[string]time.Time{}, told: map[string]bool{},
			entered: map[string]int{}, refused: map[string]int{}, reasons: map[string]string{},
		}
	}
	return f
}

// wait notes that someone asks for a lock.
func (f *floor) wait(name, who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks[name].waits[who] = time.Now()
}

// enter notes that someone has the lock.
func (f *floor) enter(name, who string, fence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.locks[name]
	f.stopsWaiting(l, who)
	switch {
	case l.by != "":
		f.fault("%s is held by %s and by %s at once", name, l.by, who)
	case fence <= l.fence:
		f.fault("%s has the fencing token %d on %s, after %d", who, fence, name, l.fence)
	}
	l.by, l.fence = who, fence
	l.entered[who]++
}

// leave notes that someone does nothing more under the lock.
func (f *floor) leave(name, who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.locks[name]; l.by == who {
		l.by = ""
	}
}

// refuse notes that a call for a lock has failed.
func (f *floor) refuse(name, who, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.locks[name]
	f.stopsWaiting(l, who)
	l.refused[who]++
	l.reasons[who] = reason
}

func (f *floor) stopsWaiting(l *held, who string) {
	delete(l.waits, who)
	delete(l.told, who)
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
	for who, since := range l.waits {
		if since.Before(l.free) {
			since = l.free
		}
		waited := now.Sub(since)
		f.longest = max(f.longest, waited)
		if waited > f.patience && !l.told[who] {
			l.told[who] = true
			f.fault("%s has waited for %v for %s, which is free", who, waited.Round(time.Millisecond), name)
		}
	}
}

// String tells how often each kind of caller was in, and refused.
func (f *floor) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, who := range callers {
		entered, refused := 0, 0
		for _, l := range f.locks {
			entered += l.entered[who]
			refused += l.refused[who]
		}
		parts = append(parts, fmt.Sprintf("%s had %d locks and %d errors", who, entered, refused))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(", longest wait for a free lock %v", f.longest.Round(time.Millisecond))
}
