// Package calendar finds when the days of time zones begin.
package calendar

import "time"

// Midnight returns the first instant of a day. Where clocks are turned at midnight, 00:00 may not
// exist or may come twice; time.Date then promises neither instant.
func Midnight(year int, month time.Month, day int, loc *time.Location) time.Time {
	// At this instant it is midnight somewhere; here within a day of it.
	utc := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	before, after := utc.Add(-24*time.Hour).In(loc), utc.Add(24*time.Hour).In(loc)
	var first time.Time
	for _, near := range []time.Time{before, after} {
		_, offset := near.Zone()
		t := utc.Add(-time.Duration(offset) * time.Second).In(loc)
		_, is := t.Zone()
		if is == offset && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		return first
	}
	_, turned := before.ZoneBounds() // midnight is skipped
	return turned
}
