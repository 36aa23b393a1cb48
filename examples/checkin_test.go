package examples

import "testing"

// Five taps at once give one bonus. The streak goes on from yesterday, and ends at the gap.
func TestCheckin(t *testing.T) {
	out := run(t, "checkin")
	matches(t, out, `(?s)^signed in: 30 points\n5 taps, 1 bonus\ndays in a row: 3\nlongest streak: 5 days, \S+ to \S+\nin the last 30 days: 8\n.*\[ ?\d+\]`)
}
