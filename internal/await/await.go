// Package await is how tests wait: for a condition, never for a time.
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
