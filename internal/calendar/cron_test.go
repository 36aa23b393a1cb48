package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

// Each expression comes at these times, and at none between them.
func TestCron(t *testing.T) {
	for _, c := range []struct{ expr, zone, from, want string }{
		{"0 9 * * MON-FRI", "UTC", "2026-01-02T08:30:00Z", "2026-01-02T09:00:00Z 2026-01-05T09:00:00Z 2026-01-06T09:00:00Z"},
		{"0 9 * * mon-fri", "Asia/Shanghai", "2026-01-02T08:30:00Z", "2026-01-05T09:00:00+08:00"},
		{"*/20 * * * *", "UTC", "2026-01-02T08:30:00Z", "2026-01-02T08:40:00Z 2026-01-02T09:00:00Z"},
		{"5,10-12 3 * * *", "UTC", "2026-01-02T03:05:00Z", "2026-01-02T03:10:00Z 2026-01-02T03:11:00Z 2026-01-02T03:12:00Z 2026-01-03T03:05:00Z"},
		{"50/5 3 * * *", "UTC", "2026-01-02T03:05:00Z", "2026-01-02T03:50:00Z 2026-01-02T03:55:00Z 2026-01-03T03:50:00Z"},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-13T00:00:00Z 2026-02-20T00:00:00Z 2026-02-27T00:00:00Z 2026-03-06T00:00:00Z"}, // either day
		{"0 0 */2 * 1", "UTC", "2026-02-01T00:00:00Z", "2026-02-09T00:00:00Z 2026-02-23T00:00:00Z"},                                                               // both
		{"0 0 * * 7", "UTC", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z"},
		{"0 0 * * FRI-SUN", "UTC", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-07T00:00:00Z 2026-02-08T00:00:00Z 2026-02-13T00:00:00Z"},
		{"0 0 * * SUN-SUN", "UTC", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z 2026-02-15T00:00:00Z"},
		{" @Monthly ", "UTC", "2026-01-02T08:30:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"},
		{"0 0 ? jan-mar/2 ?", "UTC", "2026-01-31T00:00:00Z", "2026-03-01T00:00:00Z"},
	} {
		follows(t, c.expr, c.zone, c.from, c.want)
	}
}

// Where clocks are turned, a time that is skipped comes when the gap ends, and a time that comes
// twice counts once. An expression for all hours follows the time that passes.
func TestCronWhereClocksAreTurned(t *testing.T) {
	for _, c := range []struct{ expr, zone, from, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00", "2026-03-28T02:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00 2026-03-30T02:00:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"30 2,3 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-25T03:30:00+01:00 2026-10-26T02:30:00+01:00"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", "2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T01:00:00+02:00", "2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"0 */2 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-11-01T02:00:00-05:00 2026-11-01T04:00:00-05:00"},
		{"15 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00 2018-11-05T00:15:00-02:00"}, // midnight is skipped
		{"30 23 * * *", "America/St_Johns", "2010-11-06T12:00:00-02:30", "2010-11-06T23:30:00-02:30 2010-11-07T23:30:00-03:30"}, // at 00:01 it is 23:01 again
		{"*/30 * * * *", "America/Havana", "2011-11-13T00:20:00-04:00", "2011-11-13T00:30:00-04:00 2011-11-13T00:00:00-05:00 2011-11-13T00:30:00-05:00"},
		{"0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00 2011-12-31T09:00:00+14:00"}, // a day is left out
		{"0 9 * * *", "Asia/Kathmandu", "2026-01-01T12:00:00+05:45", "2026-01-02T09:00:00+05:45"},
	} {
		follows(t, c.expr, c.zone, c.from, c.want)
	}
}

func follows(t *testing.T, expr, zone, from, want string) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	cron, err := calendar.ParseCron(expr)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	for w := range strings.FieldsSeq(want) {
		at = cron.Next(at, loc)
		if got := at.Format(time.RFC3339); got != w {
			t.Errorf("%q in %s after %s: %s, want %s", expr, zone, from, got, w)
			return
		}
	}
}

func TestBadCron(t *testing.T) {
	for expr, want := range map[string]string{
		"":                        "has 0 fields; want 5",
		"* * * *":                 "has 4 fields; want 5",
		"0 * * * * *":             "has 6 fields; want 5",
		"60 * * * *":              `minute is "60"; want 0 to 59`,
		"0 25 * * *":              `hour is "25"; want 0 to 23`,
		"0 0 0 * *":               `day of the month is "0"; want 1 to 31`,
		"0 0 1 FOO *":             `month is "FOO"; want 1 to 12, or JAN to DEC`,
		"0 0 1 * 8":               `day of the week is "8"; want 0 to 7, or SUN to SAT`,
		"5-1 * * * *":             `minute is "5-1"`,
		"*/0 * * * *":             `minute is "*/0"; want a step from 1 to 59`,
		"1,,2 * * * *":            `minute is ""`,
		"+1 * * * *":              `minute is "+1"`,
		"0 0 30 2 *":              "never comes",
		"0 0 31 4,6 *":            "never comes",
		"@reboot":                 "want five fields, or one of @hourly",
		strings.Repeat("1,", 200): "has 400 bytes",
	} {
		if _, err := calendar.ParseCron(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", expr, err, want)
		}
	}
}

// Whatever the expression, each time comes after the last one, and is one of a whole minute.
func FuzzCron(f *testing.F) {
	for _, expr := range []string{"0 9 * * MON-FRI", "*/7 2-4 1,31 */2 ?", "@daily", "59 23 29 2 6", "0 0 13 1-3/2 SUN-TUE"} {
		f.Add(expr, int64(1774746000))
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expr string, from int64) {
		c, err := calendar.ParseCron(expr)
		if err != nil {
			return
		}
		at := time.Unix(from%4e9, 0)
		for range 3 {
			next := c.Next(at, berlin)
			if next.IsZero() {
				t.Fatalf("%q never comes after %v", expr, at)
			}
			if !next.After(at) || next.Second() != 0 {
				t.Fatalf("%q after %v: %v", expr, at, next)
			}
			at = next
		}
	})
}
