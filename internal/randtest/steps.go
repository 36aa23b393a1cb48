package randtest

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Steps watches the steps of one random test. A step that exceeds the limit ends the
// test binary with the step and the stacks of all goroutines: nothing less ends a
// goroutine that never returns. When the binary is about to be killed, by -timeout or
// by SIGQUIT, it prints the step that each test is in.
type Steps struct {
	name  string
	limit time.Duration

	mu    sync.Mutex
	what  func() string // nil: no step has begun, or the test has ended
	count int
	began time.Time
	timer *time.Timer
}

// live are the Steps of the tests that run, and what prints them before the end.
var live struct {
	sync.Mutex
	steps []*Steps
	alarm *time.Timer    // before -timeout ends the binary
	quit  chan os.Signal // SIGQUIT
}

// overrun ends the test binary.
func overrun(text string) {
	debug.SetTraceback("all")
	panic(text)
}

// Watch returns the Steps of a test, each of which may take up to limit. The limit is
// for a machine that is busy with other work: many times what a step takes.
func Watch(tb testing.TB, limit time.Duration) *Steps {
	s := &Steps{name: tb.Name(), limit: limit}
	s.mu.Lock()
	s.timer = time.AfterFunc(limit, s.check)
	s.mu.Unlock()
	live.Lock()
	if live.steps = append(live.steps, s); len(live.steps) == 1 {
		live.alarm = alarm(tb)
		live.quit = make(chan os.Signal, 1)
		signal.Notify(live.quit, syscall.SIGQUIT)
		go onQuit(live.quit)
	}
	live.Unlock()
	tb.Cleanup(s.end)
	return s
}

// Begin starts a step and ends the one before. what is called only if the step has to
// be named, by another goroutine: it must not read what the step changes.
func (s *Steps) Begin(what func() string) {
	now := time.Now()
	s.mu.Lock()
	s.what, s.began = what, now
	s.count++
	s.mu.Unlock()
}

func (s *Steps) end() {
	s.mu.Lock()
	s.what = nil
	s.timer.Stop()
	s.mu.Unlock()
	live.Lock()
	defer live.Unlock()
	if live.steps = slices.DeleteFunc(live.steps, func(o *Steps) bool { return o == s }); len(live.steps) > 0 {
		return
	}
	if live.alarm != nil {
		live.alarm.Stop()
	}
	signal.Stop(live.quit)
	close(live.quit)
}

// check is called when the step that had begun at the last check may be over its limit.
func (s *Steps) check() {
	s.mu.Lock()
	left := s.limit
	if s.what != nil {
		left -= time.Since(s.began)
	}
	if left > 0 {
		s.timer.Reset(left)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	overrun(fmt.Sprintf("test %s: one step took more than %v: %s", s.name, s.limit, s.now()))
}

// now describes the current step.
func (s *Steps) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.what == nil {
		return "no step has begun"
	}
	return fmt.Sprintf("step %d, for %v: %s", s.count, time.Since(s.began).Round(time.Millisecond), s.what())
}

// report prints the current step of each test.
func report() {
	live.Lock()
	steps := slices.Clone(live.steps)
	live.Unlock()
	for _, s := range steps {
		fmt.Fprintf(os.Stderr, "%s: %s\n", s.name, s.now())
	}
}

// alarm calls report a moment before -timeout ends the binary.
func alarm(tb testing.TB) *time.Timer {
	t, ok := tb.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return nil
	}
	end, ok := t.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(end)
	return time.AfterFunc(left-min(time.Second, left/10), report)
}

// onQuit calls report on SIGQUIT, and then lets the signal do what Go makes it do.
func onQuit(quit chan os.Signal) {
	if _, ok := <-quit; !ok {
		return
	}
	report()
	signal.Reset(syscall.SIGQUIT)
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGQUIT) != nil {
		overrun("SIGQUIT")
	}
}
