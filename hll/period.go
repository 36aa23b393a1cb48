package hll

import (
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

// A Period is the time for which visits are counted together.
type Period uint8

const (
	// Daily counts by the day, from midnight to midnight of [Options.Location].
	Daily Period = iota
	// Hourly counts by the hour.
	Hourly
)

func (p Period) String() string {
	switch p {
	case Daily:
		return "Daily"
	case Hourly:
		return "Hourly"
	}
	return fmt.Sprintf("Period(%d)", uint8(p))
}

// A span is one period: the n-th since 1970.
type span struct {
	n          int64
	start, end int64 // in s since 1970
}

const day = 24 * 3600

// at returns the span of a time.
func (p Period) at(t time.Time, loc *time.Location) span {
	if p == Hourly {
		n := t.Unix() / 3600
		return span{n: n, start: n * 3600, end: (n + 1) * 3600}
	}
	year, month, d := t.In(loc).Date()
	n := time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Unix() / day
	return Daily.nth(n, loc)
}

// nth returns the n-th span.
func (p Period) nth(n int64, loc *time.Location) span {
	if p == Hourly {
		return span{n: n, start: n * 3600, end: (n + 1) * 3600}
	}
	year, month, d := time.Unix(n*day, 0).UTC().Date()
	return span{
		n:     n,
		start: calendar.Midnight(year, month, d, loc).Unix(),
		end:   calendar.Midnight(year, month, d+1, loc).Unix(),
	}
}

// label returns the end of the keys of a span.
func (p Period) label(n int64) string {
	if p == Hourly {
		return time.Unix(n*3600, 0).UTC().Format("2006-01-02T15")
	}
	return time.Unix(n*day, 0).UTC().Format(time.DateOnly)
}

var (
	minTime = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

func checkTime(t time.Time) error {
	if t.Before(minTime) || t.After(maxTime) {
		return fmt.Errorf("hll: the time is %v; want one from %v to %v", t, minTime, maxTime)
	}
	return nil
}
