package dashboard_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard"
)

// TestDenials: each range has the names that were denied most in it, and no more memory than that takes.
func TestDenials(t *testing.T) {
	d := &dashboard.Denials{}
	at := time.Now().Add(-19 * time.Minute) // so that the last minute stays the last one on a slow machine
	so := map[string]uint64{"before": 1000}
	d.Add(at, so) // what was denied before the first sample has no time
	for i := range 20 * 60 {
		at = at.Add(time.Second)
		so["steady"] += 2
		if i < 600 {
			so["early"] += 5
		}
		for j := range 30 { // many names with a denial each
			so[fmt.Sprintf("client %d", (i*30+j)%900)]++
		}
		if i == 700 {
			so["steady"] = 2 // forgotten, and counted again
		}
		d.Add(at, so)
	}
	minute, points := d.Totals("minute")
	if len(minute) != 5 || minute[0] != "steady 120" || points != 60 {
		t.Errorf("the last minute has %d points of %q", points, minute)
	}
	hour, _ := d.Totals("hour")
	if len(hour) != 5 || hour[0] != "early 3000" || hour[1] != "steady 2400" {
		t.Errorf("the last hour has %q", hour)
	}
	if n := d.Kept(); n > (60+40+2)*20+1000 {
		t.Errorf("%d counts are kept", n)
	}
	if slices.Contains(hour, "before 1000") {
		t.Error("denials before the first sample are in the chart")
	}
}
