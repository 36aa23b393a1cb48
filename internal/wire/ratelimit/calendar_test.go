package ratelimit

import (
	"testing"
	"time"
)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		p        Period
		at, want string
	}{
		{Day, "2024-02-29", "2024-02-28 2024-02-29 2024-03-01 2024-03-02"},
		{Week, "2026-01-04", "2025-12-22 2025-12-29 2026-01-05 2026-01-12"}, // a Sunday
		{Week, "2026-01-05", "2025-12-29 2026-01-05 2026-01-12 2026-01-19"},
		{Month, "2026-01-31", "2025-12-01 2026-01-01 2026-02-01 2026-03-01"},
		{Year, "2026-12-31", "2025-01-01 2026-01-01 2027-01-01 2028-01-01"},
	} {
		at, err := time.Parse(time.DateOnly, c.at)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range c.p.Starts(at.Add(13 * time.Hour)) {
			got += s.Format(time.DateOnly) + " "
		}
		if got != c.want+" " {
			t.Errorf("the %vs around %s begin on %s", c.p, c.at, got)
		}
	}
}
