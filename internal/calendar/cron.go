package calendar

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Cron is a cron expression: minute, hour, day of the month, month, day of the week. Make one with
// [ParseCron].
type Cron struct {
	minutes, hours, days, months, weekdays uint64 // a bit for each value

	// anyDay: the day of the month or of the week begins with *, so a day needs both. Else one is enough,
	// as in every cron.
	anyDay bool
	// everyHour: the hour begins with *, so the times follow the time that passes, not the hands of the clock.
	everyHour bool
}

// maxCron is the longest expression, in bytes.
const maxCron = 200

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// A cronField is one of the five fields of an expression.
type cronField struct {
	name        string
	least, most int
	names       string // three letters for each value
}

var cronFields = [5]cronField{
	{name: "minute", most: 59},
	{name: "hour", most: 23},
	{name: "day of the month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, names: "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
	{name: "day of the week", most: 7, names: "SUNMONTUEWEDTHUFRISAT"},
}

// ParseCron reads a cron expression of five fields, or a macro like @daily. An error names the field and
// what it may be. An expression that never comes, like the 30th of February, is an error.
func ParseCron(expr string) (c Cron, err error) {
	if len(expr) > maxCron {
		return c, fmt.Errorf("cron has %d bytes; want at most %d", len(expr), maxCron)
	}
	text := strings.TrimSpace(expr)
	if strings.HasPrefix(text, "@") {
		five, ok := macros[strings.ToLower(text)]
		if !ok {
			return c, fmt.Errorf("cron is %q; want five fields, or one of @hourly, @daily, @weekly, @monthly and @yearly", expr)
		}
		text = five
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return c, fmt.Errorf("cron %q has %d fields; want 5: minute, hour, day of the month, month, day of the week", expr, len(fields))
	}
	sets := [5]*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays}
	for i, f := range cronFields {
		if *sets[i], err = f.parse(fields[i]); err != nil {
			return Cron{}, fmt.Errorf("cron %q: %w", expr, err)
		}
	}
	if c.weekdays>>7&1 == 1 {
		c.weekdays |= 1 // 7 is Sunday too
	}
	star := func(field string) bool { return field[0] == '*' || field[0] == '?' }
	c.anyDay = star(fields[2]) || star(fields[4])
	c.everyHour = star(fields[1])
	if c.anyDay && !c.comes() {
		return Cron{}, fmt.Errorf("cron %q never comes: none of its months has such a day", expr)
	}
	return c, nil
}

// comes reports whether a month has one of the days.
func (c Cron) comes() bool {
	first := bits.TrailingZeros64(c.days)
	for month := time.January; month <= time.December; month++ {
		// 2024 is a leap year.
		if c.months>>month&1 == 1 && first <= time.Date(2024, month+1, 0, 0, 0, 0, 0, time.UTC).Day() {
			return true
		}
	}
	return false
}

func (f cronField) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, every, stepped := strings.Cut(part, "/")
		low, high, step := f.least, f.most, 1
		if stepped {
			if step, err = strconv.Atoi(every); err != nil || step < 1 || step > f.most {
				return 0, fmt.Errorf("%s is %q; want a step from 1 to %d", f.name, part, f.most)
			}
		}
		switch from, to, ranged := strings.Cut(span, "-"); span {
		case "*", "?":
			if f.most == 7 {
				high = 6 // each day of the week once
			}
		default:
			var ok bool
			if low, ok = f.value(from); !ok {
				return 0, f.fault(part)
			}
			switch {
			case ranged:
				if high, ok = f.value(to); ok && high == 0 && low > 0 && f.most == 7 {
					high = 7 // FRI-SUN
				}
				if !ok || high < low {
					return 0, f.fault(part)
				}
			case !stepped:
				high = low
			}
		}
		for n := low; n <= high; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f cronField) fault(part string) error {
	names := ""
	if f.names != "" {
		names = ", or " + f.names[:3] + " to " + f.names[len(f.names)-3:]
	}
	return fmt.Errorf("%s is %q; want %d to %d%s, a range like %d-%d, *, or a list of these, each with /step or without",
		f.name, part, f.least, f.most, names, f.least+1, f.least+3)
}

// value reads a number or a name.
func (f cronField) value(text string) (int, bool) {
	if len(text) == 3 && f.names != "" {
		if at := strings.Index(f.names, strings.ToUpper(text)); at >= 0 && at%3 == 0 {
			return at/3 + f.least, true
		}
	}
	if text == "" || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.least && n <= f.most
}

// searchYears is how far Next looks: the 29th of February comes after eight years at the latest, and on a
// certain day of the week after forty.
const searchYears = 41

// Next returns the first time after t, by the clocks of loc. It is zero if there is none in 41 years.
//
// Where clocks are turned, an expression with an hour that begins with * follows the time that passes:
// it comes in both hours of a doubled one, and never in a skipped one. Any other comes once for each of its
// times: at the first of two, and at the end of a skipped hour in place of a time in it.
func (c Cron) Next(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	year, month, day := t.Date()
	// A day before, because clocks that go back over midnight repeat a day.
	for d := -1; d < searchYears*366; d++ {
		date := time.Date(year, month, day+d, 12, 0, 0, 0, time.UTC)
		if !c.on(date) {
			continue
		}
		if next := c.within(date, t, loc); !next.IsZero() {
			return next
		}
	}
	return time.Time{}
}

// on reports whether the expression has this day.
func (c Cron) on(date time.Time) bool {
	if c.months>>date.Month()&1 == 0 {
		return false
	}
	inMonth, inWeek := c.days>>date.Day()&1 == 1, c.weekdays>>date.Weekday()&1 == 1
	if c.anyDay {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// within returns the first time after t on one day, or zero.
func (c Cron) within(date, t time.Time, loc *time.Location) time.Time {
	year, month, day := date.Date()
	if c.everyHour {
		at := Midnight(year, month, day, loc)
		if soon := t.Truncate(time.Minute).Add(time.Minute); at.Before(soon) {
			at = soon
		}
		for end := Midnight(year, month, day+1, loc); at.Before(end); at = at.Add(time.Minute) {
			if c.hours>>at.Hour()&1 == 1 && c.minutes>>at.Minute()&1 == 1 && at.Day() == day {
				return at
			}
		}
		return time.Time{}
	}
	for hours := c.hours; hours != 0; hours &= hours - 1 {
		hour := bits.TrailingZeros64(hours)
		for minutes := c.minutes; minutes != 0; minutes &= minutes - 1 {
			if at := Instant(year, month, day, hour, bits.TrailingZeros64(minutes), loc); at.After(t) {
				return at
			}
		}
	}
	return time.Time{}
}

// Instant returns when the clocks of loc show a time: the first of two, and the end of the gap for
// a time that is skipped. time.Date promises neither.
func Instant(year int, month time.Month, day, hour, minute int, loc *time.Location) time.Time {
	// At this instant it is that time somewhere; here within a day of it.
	utc := time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	before, after := utc.Add(-24*time.Hour).In(loc), utc.Add(24*time.Hour).In(loc)
	var found []time.Time
	for _, near := range []time.Time{before, after} {
		_, offset := near.Zone()
		t := utc.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, is := t.Zone(); is == offset {
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		return slices.MinFunc(found, time.Time.Compare)
	}
	_, turned := before.ZoneBounds() // it is skipped
	return turned
}
