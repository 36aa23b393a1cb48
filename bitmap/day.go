package bitmap

import (
	"fmt"
	"math"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

// A Day is a day of the calendar, in any time zone: the number of days since 1970-01-01. So d+1 is
// the day after d, and b-a the number of days between two.
type Day int32

// MinDay and MaxDay bound the days of a calendar: 1900-01-01 and 2199-12-31.
const (
	MinDay Day = -25567
	MaxDay Day = 84005
)

// DateOf returns the day of t in t's location. DateOf(time.Now().In(tokyo)) is today in Tokyo.
func DateOf(t time.Time) Day {
	year, month, day := t.Date()
	return Date(year, month, day)
}

// Date returns a day. As with [time.Date], October 32 is November 1.
func Date(year int, month time.Month, day int) Day {
	days := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600)
	return Day(min(max(days, math.MinInt32), math.MaxInt32)) // far out of range: check refuses it
}

// Date returns the year, the month and the day of the month.
func (d Day) Date() (year int, month time.Month, day int) { return d.utc().Date() }

// Weekday returns the day of the week.
func (d Day) Weekday() time.Weekday { return d.utc().Weekday() }

// String returns the day in the form 2026-11-21.
func (d Day) String() string { return d.utc().Format(time.DateOnly) }

// Start returns when the day begins in a location. Where clocks are turned at midnight, this is not
// always 0 o'clock.
func (d Day) Start(loc *time.Location) time.Time {
	year, month, day := d.Date()
	return calendar.Midnight(year, month, day, loc)
}

func (d Day) utc() time.Time { return time.Unix(int64(d)*24*3600, 0).UTC() }

func (d Day) check() error {
	if d < MinDay || d > MaxDay {
		return fmt.Errorf("bitmap: day %v is out of range; want %v to %v", d, MinDay, MaxDay)
	}
	return nil
}
