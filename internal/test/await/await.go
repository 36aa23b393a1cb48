// Package await is how tests wait: for a condition, or by moving the clock of a bubble
// of testing/synctest, and never for a time.
package await

import (
	"testing"
	"time"
)

// Until asks ok every millisecond until it holds, and fails the test when it
// does not within the limit.
func Until(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// Soon is [Until] for what takes no time to speak of. Its limit is for a machine that
// stands still.
func Soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Until(tb, 30*time.Second, what, ok)
}

// Always asks ok every few milliseconds for the whole of a time, and fails the
// test when it does not hold: for what must not happen.
func Always(tb testing.TB, length time.Duration, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		if !ok() {
			tb.Fatalf("not so for %v: %s", length, what)
		}
	}
}

// Advance moves the clock of a bubble of testing/synctest by a time, in none. Outside
// of a bubble it would wait for that time, so it panics there.
func Advance(d time.Duration) {
	if time.Now().Year() > 2020 { // a bubble's clock begins in 2000
		panic("await: Advance outside of a bubble of testing/synctest: wait for a condition, by Until")
	}
	time.Sleep(d)
}
