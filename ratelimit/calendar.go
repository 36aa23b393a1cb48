package ratelimit

import (
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

// A Period is one of a calendar, in a time zone.
type Period uint8

const (
	// Day begins at midnight.
	Day Period = iota + 1
	// Week begins at midnight before Monday, as in ISO 8601.
	Week
	// Month begins at midnight before its first day.
	Month
	// Year begins at midnight before January 1.
	Year
)

func (p Period) String() string {
	switch p {
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	case Year:
		return "year"
	}
	return fmt.Sprintf("Period(%d)", uint8(p))
}

// starts returns when the period before that of t, its own, and the two after it
// begin, by the clocks of t's location.
func (p Period) starts(t time.Time) (starts [4]time.Time) {
	year, month, day := t.Date()
	for i := range starts {
		y, m, d, k := year, month, day, i-1
		switch p {
		case Day:
			d += k
		case Week:
			d += 7*k - (int(t.Weekday())+6)%7
		case Month:
			m, d = m+time.Month(k), 1
		case Year:
			y, m, d = y+k, time.January, 1
		}
		starts[i] = calendar.Midnight(y, m, d, t.Location())
	}
	return starts
}
