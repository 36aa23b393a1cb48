// Package slow marks the tests that `make test` leaves to `make test-all`, and tells tests
// whether the race detector slows them.
package slow

import "testing"

// Test skips the test under -short. The reason says why the test takes long, and the
// summary of `make test` shows it.
func Test(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make test-all: " + reason) // Reason: it runs there.
	}
}
