package examples

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// Views are exact. Visitors are estimates with a standard error of 0.81 %, for the union of pages and of
// days as well.
func TestVisitors(t *testing.T) {
	out := run(t, "visitors")
	for _, want := range []struct {
		row             string
		views, visitors int
	}{
		{"/ today", 18_000, 6000},
		{"/pricing today", 6000, 3000},
		{"/docs today", 17_500, 3500},
		{"all pages today", 41_500, 10_000},
		{"/ on both days", 20_000, 6000},
	} {
		m := regexp.MustCompile(`(?m)^` + want.row + ` +(\d+) +(\d+) +(\d+)$`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no row %q in\n%s", want.row, out)
		}
		visitors, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		// The visitors, and so the estimate, are the same in each run.
		if off := math.Abs(float64(visitors)/float64(want.visitors) - 1); m[1] != strconv.Itoa(want.views) || off > 0.03 || m[3] != strconv.Itoa(want.visitors) {
			t.Errorf("%s: %v, want %d views and about %d visitors", want.row, m[1:], want.views, want.visitors)
		}
	}
}
