// Package calendar finds when the days of time zones begin, and when cron expressions come.
package calendar

import "time"

// Midnight returns the first instant of a day. Where clocks are turned at midnight, 00:00 may not
// exist or may come twice; time.Date then promises neither instant.
func Midnight(year int, month time.Month, day int, loc *time.Location) time.Time {
	return Instant(year, month, day, 0, 0, loc)
}
