package randtest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limit is how long one step may take. It is for a machine that is busy with other work:
// many times what any step takes.
const Limit = 30 * time.Second

// Steps watches the steps of one goroutine of a test. A step that exceeds the limit ends
// the test binary with the seed, the step and the stacks of all goroutines: nothing less
// ends a goroutine that never returns. When the binary is about to be killed, by -timeout
// or by SIGQUIT, it prints the step of each goroutine.
type Steps struct {
	name  string
	limit time.Duration

	mu    sync.Mutex
	what  func() string // nil between two steps
	count int

	seen int           // the count at the last tick; owned by the watcher
	took time.Duration // how long the watcher has seen that step
}

// live is what runs in this binary.
var live struct {
	sync.Mutex
	steps   map[*Steps]struct{}
	begun   map[string]int    // steps of watches that have ended, by root
	seeds   map[string]uint64 // by the names of the tests
	timeout time.Duration     // -timeout, 0 if there is none; set by the first random test
}

// tick is how often look looks at the steps.
const tick = 100 * time.Millisecond

// The first timer is set here so that it is outside every bubble of testing/synctest: a
// step has the machine's time to keep, whatever the clock of its test does.
func init() {
	live.steps, live.begun, live.seeds = map[*Steps]struct{}{}, map[string]int{}, map[string]uint64{}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	now := time.Now()
	w := &watcher{quit: quit, began: now, last: now}
	time.AfterFunc(tick, w.look)
}

// overrun ends the test binary.
func overrun(text string) {
	debug.SetTraceback("all")
	panic(text)
}

// Watch returns the Steps of one goroutine. Each step may take up to [Limit].
func Watch(tb testing.TB) *Steps { return watchWithin(tb, Limit) }

func watchWithin(tb testing.TB, limit time.Duration) *Steps {
	s := &Steps{name: tb.Name(), limit: limit}
	live.Lock()
	live.steps[s] = struct{}{}
	live.Unlock()
	tb.Cleanup(s.forget)
	return s
}

// Command watches one command of any goroutine until end is called.
func Command(tb testing.TB, what func() string) (end func()) {
	s := &Steps{name: tb.Name(), limit: Limit, what: what, count: 1}
	live.Lock()
	live.steps[s] = struct{}{}
	live.Unlock()
	return s.forget
}

// Begin starts a step and ends the one before. what is called only if the step has to
// be named, by another goroutine: it must not read what the step changes.
func (s *Steps) Begin(what func() string) {
	s.mu.Lock()
	s.what = what
	s.count++
	s.mu.Unlock()
}

// End ends a step when none follows for a while.
func (s *Steps) End() {
	s.mu.Lock()
	s.what = nil
	s.mu.Unlock()
}

func (s *Steps) forget() {
	s.mu.Lock()
	n := s.count
	s.mu.Unlock()
	live.Lock()
	delete(live.steps, s)
	live.begun[root(s.name)] += n
	live.Unlock()
}

// root returns the name of the test that a subtest is part of.
func root(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

// named registers a random test until it ends, which must be watched.
func named(tb testing.TB, seed uint64) {
	name := tb.Name()
	live.Lock()
	live.seeds[name] = seed
	live.timeout = timeout() // here, because the flags are parsed by now
	live.Unlock()
	tb.Cleanup(func() {
		live.Lock()
		delete(live.seeds, name)
		watched := live.begun[root(name)] > 0
		for s := range live.steps {
			watched = watched || root(s.name) == root(name)
		}
		live.Unlock()
		if !watched && !tb.Failed() && !tb.Skipped() {
			tb.Errorf("no step of this random test is watched: name them by randtest.Watch, or use the clients of internal/test/clienttest")
		}
	})
}

// running returns the Steps that are watched, in the order of their tests.
func running() []*Steps {
	live.Lock()
	defer live.Unlock()
	return slices.SortedFunc(maps.Keys(live.steps), func(a, b *Steps) int { return strings.Compare(a.name, b.name) })
}

// A watcher looks at all steps at every tick.
type watcher struct {
	quit     <-chan os.Signal
	began    time.Time
	last     time.Time
	reported bool
}

// timeout returns -timeout, 0 if there is none.
func timeout() time.Duration {
	f := flag.Lookup("test.timeout")
	if f == nil {
		return 0
	}
	d, _ := time.ParseDuration(f.Value.String())
	return d
}

func (w *watcher) look() {
	select {
	case <-w.quit:
		report()
		raise()
	default:
	}
	// A process that was stopped for a while has not run for so long.
	passed := min(time.Since(w.last), 10*tick)
	w.last = time.Now()
	for _, s := range running() {
		if s.longer(passed) {
			overrun(fmt.Sprintf("test %s: one step took more than %v: %s\n%s", s.name, s.limit, s.now(), seeds()))
		}
	}
	live.Lock()
	limit := live.timeout
	live.Unlock()
	if !w.reported && limit > 0 && limit-time.Since(w.began) < time.Second {
		w.reported = true // -timeout is about to end the binary
		report()
	}
	time.AfterFunc(tick, w.look)
}

// longer says whether the current step is over its limit, now that some time has passed.
func (s *Steps) longer(passed time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.what == nil || s.count != s.seen {
		s.seen, s.took = s.count, 0
		return false
	}
	s.took += passed
	return s.took > s.limit
}

// now describes the current step.
func (s *Steps) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.what == nil {
		return "between steps"
	}
	return fmt.Sprintf("step %d, for %v: %s", s.count, s.took.Round(tick), s.what())
}

// seeds has a line for the seed of each random test that runs.
func seeds() string {
	live.Lock()
	defer live.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(live.seeds)) {
		fmt.Fprintf(&b, "%s: SEED=%d\n", name, live.seeds[name])
	}
	return b.String()
}

// report prints the seeds and the current step of each goroutine.
func report() {
	_, _ = os.Stderr.WriteString(seeds())
	for _, s := range running() {
		fmt.Fprintf(os.Stderr, "%s: %s\n", s.name, s.now())
	}
}

// raise lets SIGQUIT do what Go makes it do.
func raise() {
	signal.Reset(syscall.SIGQUIT)
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGQUIT) != nil {
		overrun("SIGQUIT")
	}
}
