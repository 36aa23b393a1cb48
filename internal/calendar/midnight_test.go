package calendar_test

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

// A day begins when the date on the wall changes, whatever the clocks do then.
func TestMidnight(t *testing.T) {
	for _, c := range []struct{ zone, day, want string }{
		{"UTC", "2026-03-01", "2026-03-01T00:00:00Z"},
		{"Europe/Paris", "2026-03-29", "2026-03-29T00:00:00+01:00"},
		{"Europe/Paris", "2026-03-30", "2026-03-30T00:00:00+02:00"},
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T01:00:00-02:00"}, // 00:00 is left out
		{"America/Havana", "2011-11-13", "2011-11-13T00:00:00-04:00"},    // 00:00 comes twice
		{"America/St_Johns", "2010-11-07", "2010-11-07T00:00:00-02:30"},  // at 00:01 it is 23:01 again
		{"Asia/Beirut", "2022-03-27", "2022-03-27T01:00:00+03:00"},
		{"Pacific/Apia", "2011-12-30", "2011-12-31T00:00:00+14:00"}, // a day is left out
		{"Pacific/Apia", "2011-12-31", "2011-12-31T00:00:00+14:00"},
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, c.day)
		if err != nil {
			t.Fatal(err)
		}
		if got := calendar.Midnight(day.Year(), day.Month(), day.Day(), loc).Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s begins at %s; want %s", c.day, c.zone, got, c.want)
		}
	}
}
