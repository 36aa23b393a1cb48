package ratelimit

import (
	"fmt"
)

// A Period is a period of a calendar, in a time zone.
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
