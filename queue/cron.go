package queue

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseCron reads a schedule in the five fields of cron: minute, hour, day of the
// month, month, day of the week. A field is * or a list of numbers and ranges, each
// with a step or without: "*/15 9-17 * * MON-FRI". Months and days may be names of
// three letters; Sunday is 0 or 7. Where both days are given, either will do. And
// @yearly, @monthly, @weekly, @daily, @hourly, and @every with a duration.
//
// Times are those of loc, UTC if it is nil. A time that a change to summer time
// leaves out is left out, and one that comes twice may come twice.
func ParseCron(spec string, loc *time.Location) (Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	text := strings.TrimSpace(spec)
	if d, ok := strings.CutPrefix(text, "@every "); ok {
		interval, err := time.ParseDuration(strings.TrimSpace(d))
		if err != nil {
			return nil, fmt.Errorf("queue: cron %q: %w", spec, err)
		}
		return Every(interval)
	}
	if full, ok := shorthands[text]; ok {
		text = full
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return nil, fmt.Errorf("queue: cron %q has %d fields; want minute, hour, day of the month, month, day of the week", spec, len(fields))
	}
	c := &cron{loc: loc}
	for i, f := range cronFields {
		bits, err := f.parse(fields[i])
		if err != nil {
			return nil, fmt.Errorf("queue: cron %q: %s: %w", spec, f.name, err)
		}
		c.fields[i] = bits
	}
	if c.fields[4]&(1<<7) != 0 {
		c.fields[4] |= 1
	}
	c.anyDay, c.anyWeekday = anything(fields[2]), anything(fields[4])
	if c.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, loc)).IsZero() {
		return nil, fmt.Errorf("queue: cron %q never comes", spec)
	}
	return c, nil
}

var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func anything(field string) bool { return field == "?" || strings.HasPrefix(field, "*") }

// A cronField is what may be in one of the five.
type cronField struct {
	name        string
	first, last int
	names       string // of three letters each, for first and those that follow
}

var cronFields = [5]cronField{
	{"minute", 0, 59, ""},
	{"hour", 0, 23, ""},
	{"day of the month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
	{"day of the week", 0, 7, "sunmontuewedthufrisat"},
}

// parse returns a bit for each number that the field allows.
func (f cronField) parse(text string) (bits uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.last-f.first+1 {
				return 0, fmt.Errorf("%q has the step %q; want 1 to %d", item, stepText, f.last-f.first+1)
			}
		}
		from, to := f.first, f.last
		if f.last == 7 {
			to = 6 // Sunday once
		}
		if span != "*" && span != "?" {
			low, high, ranged := strings.Cut(span, "-")
			if from, err = f.number(low); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = f.number(high); err != nil {
					return 0, err
				}
			case !stepped:
				to = from
			}
			if to < from {
				return 0, fmt.Errorf("%q goes backwards", span)
			}
		}
		for n := from; n <= to; n += step {
			bits |= 1 << n
		}
	}
	return bits, nil
}

func (f cronField) number(text string) (int, error) {
	if len(text) == 3 && f.names != "" {
		if at := strings.Index(f.names, strings.ToLower(text)); at >= 0 && at%3 == 0 {
			return f.first + at/3, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.first || n > f.last {
		return 0, fmt.Errorf("%q is not from %d to %d", text, f.first, f.last)
	}
	return n, nil
}

type cron struct {
	loc                *time.Location
	fields             [5]uint64 // a bit for each number
	anyDay, anyWeekday bool
}

func (c *cron) has(field, n int) bool { return c.fields[field]&(1<<n) != 0 }

func (c *cron) day(t time.Time) bool {
	day, weekday := c.has(2, t.Day()), c.has(4, int(t.Weekday()))
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// Next goes on by the largest part that doesn't fit, for at most nine years: a 29th
// of February can be eight away.
func (c *cron) Next(t time.Time) time.Time {
	in := t.Location()
	t = t.In(c.loc)
	t = t.Add(time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	for last := t.Year() + 9; t.Year() <= last; {
		switch {
		case !c.has(3, int(t.Month())):
			t = c.midnight(t, 1, 0)
		case !c.day(t):
			t = c.midnight(t, 0, 1)
		case !c.has(1, t.Hour()):
			t = t.Add(time.Duration(60-t.Minute()) * time.Minute)
		case !c.has(0, t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t.In(in)
		}
	}
	return time.Time{}
}

// midnight is the beginning of the next month, or of the next day. Where a change of
// clocks leaves it out, it is the first time after it.
func (c *cron) midnight(t time.Time, months, days int) time.Time {
	day := t.Day() + days
	if months > 0 {
		day = 1
	}
	next := time.Date(t.Year(), t.Month()+time.Month(months), day, 0, 0, 0, 0, c.loc)
	if !next.After(t) || next.Day() == t.Day() && months == 0 {
		next = time.Date(t.Year(), t.Month()+time.Month(months), day, 1, 0, 0, 0, c.loc)
	}
	return next
}
