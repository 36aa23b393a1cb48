package examples

import (
	"strings"
	"testing"
)

// A query finds the nearest people where somebody is now. A member that is removed is not found any more.
func TestNearby(t *testing.T) {
	out := run(t, "nearby")
	parts := strings.Split(out, "near ann ")
	if len(parts) != 5 {
		t.Fatalf("%d answers, want 4:\n%s", len(parts)-1, out)
	}
	for i, first := range []string{"at Alexanderplatz:\n  person:", "at the main station:\n  person:", "where bob arrives:\n  bob          within 100 m\n  person:", "when bob has signed off:\n  person:"} {
		answer := parts[i+1]
		if !strings.HasPrefix(answer, first) || strings.Count(answer, "\n") != 6 || strings.Contains(answer, "ann") {
			t.Errorf("answer %d is\n%swant five people, the first %q", i, answer, first)
		}
	}
	if parts[1][strings.Index(parts[1], "\n"):] == parts[2][strings.Index(parts[2], "\n"):] {
		t.Errorf("the same people are near both places:\n%s", out)
	}
}
