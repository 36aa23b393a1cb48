package bitmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

func day(text string) bitmap.Day {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return bitmap.DateOf(t)
}

// Promise: a calendar answers as a set of days.
func TestCalendarAgreesWithModel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		cs := e.calendars(bitmap.CalendarOptions{})
		rng := rand.New(rand.NewPCG(1, 2))
		model := map[bitmap.Day]bool{}
		// The days begin around one day and go further out in both directions, so that the
		// calendar grows at both ends.
		for step, spread := 0, 3; step < 300; step++ {
			if step%50 == 49 {
				spread *= 6
			}
			var days []bitmap.Day
			want := 0
			mark := rng.IntN(3) > 0
			for range 1 + rng.IntN(5) {
				d := bitmap.Date(2026, time.November, 21) + bitmap.Day(rng.IntN(2*spread)-spread)
				d = min(max(d, bitmap.MinDay), bitmap.MaxDay)
				if days = append(days, d); model[d] != mark {
					want++
				}
				if model[d] = mark; !mark {
					delete(model, d)
				}
			}
			do := cs.Mark
			if !mark {
				do = cs.Unmark
			}
			c, changed, err := do(t.Context(), "u", days...)
			must(t, err)
			if changed != want {
				t.Fatalf("step %d: %d of %v changed, want %d", step, changed, days, want)
			}
			if step%10 == 0 {
				agree(t, c, model, rng, spread)
			}
		}
		c, err := cs.Load(t.Context(), "u")
		must(t, err)
		agree(t, c, model, rng, 3)
		if _, err := cs.Delete(t.Context(), "u"); err != nil || len(e.Keys()) != 0 {
			t.Errorf("Delete: %v, and %d keys are left", err, len(e.Keys()))
		}
	})
}

func agree(t *testing.T, c bitmap.Calendar, model map[bitmap.Day]bool, rng *rand.Rand, spread int) {
	t.Helper()
	var days []bitmap.Day
	for d := range model {
		days = append(days, d)
	}
	slices.Sort(days)
	if got := slices.Collect(c.All()); !slices.Equal(got, days) {
		t.Fatalf("marked are %v, want %v", got, days)
	}
	first, any1 := c.First()
	last, any2 := c.Last()
	if any1 != (len(days) > 0) || any2 != any1 || any1 && (first != days[0] || last != days[len(days)-1]) {
		t.Fatalf("from %v to %v, want %v", first, last, days)
	}
	// Of several longest streaks, the last.
	var longest, s bitmap.Streak
	for i, d := range days {
		if i == 0 || days[i-1] != d-1 {
			s = bitmap.Streak{From: d}
		}
		if s.Days++; s.Days >= longest.Days {
			longest = s
		}
	}
	if got := c.Longest(); got != longest {
		t.Fatalf("the longest streak is %+v, want %+v", got, longest)
	}
	for range 20 {
		from := bitmap.Date(2026, time.November, 21) + bitmap.Day(rng.IntN(2*spread)-spread)
		to := from + bitmap.Day(rng.IntN(spread)-1)
		n := 0
		for _, d := range days {
			if d >= from && d <= to {
				n++
			}
		}
		if got := c.Count(from, to); got != n {
			t.Fatalf("%d days from %v to %v, want %d", got, from, to, n)
		}
		end := from
		if !model[end] {
			end--
		}
		n = 0
		for model[end-bitmap.Day(n)] {
			n++
		}
		if got := c.Streak(from); got.Days != n || got.To() != end || c.Marked(from) != model[from] {
			t.Fatalf("the streak at %v is %+v, want %d days to %v", from, got, n, end)
		}
	}
	if c.Total() != len(days) {
		t.Fatalf("%d in all, want %d", c.Total(), len(days))
	}
}

func TestCalendarMonth(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		cs := e.calendars(bitmap.CalendarOptions{})
		c, _, err := cs.Mark(t.Context(), "u", day("2024-01-31"), day("2024-02-01"), day("2024-02-28"), day("2024-02-29"), day("2024-03-01"))
		must(t, err)
		m := c.Month(2024, time.February)
		if m.Days() != 29 || m.Count() != 3 || !m.Marked(29) || m.Marked(2) || m.Marked(0) || m.Marked(30) {
			t.Errorf("February is %+v", m)
		}
		want := []string{
			"       February 2024",
			" Mo  Tu  We  Th  Fr  Sa  Su",
			"             [1]  2   3   4",
			"  5   6   7   8   9  10  11",
			" 12  13  14  15  16  17  18",
			" 19  20  21  22  23  24  25",
			" 26  27 [28][29]",
			"",
		}
		if got := m.String(); got != strings.Join(want, "\n") {
			t.Errorf("its picture is\n%s", got)
		}
		if got := strings.Split(m.Picture(time.Sunday), "\n"); got[1] != " Su  Mo  Tu  We  Th  Fr  Sa" || got[2] != "                 [1]  2   3" {
			t.Errorf("its picture, from Sunday on, is %q", got)
		}
		if m := c.Month(2023, 13); m.Year != 2024 || m.Month != time.January || m.Marks != 1<<31 {
			t.Errorf("the thirteenth month of 2023 is %+v", m)
		}
	})
}

// Promise: the server's clock and the time zone decide what day it is, also where clocks are
// turned.
func TestMarkTodayByTheServersClock(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.counter, wire.Scripts(), nil)
		e.Client = e.ClientOn(clock)
		cs := e.calendars(bitmap.CalendarOptions{})
		for i, c := range []struct{ zone, at, want string }{
			{"UTC", "2026-11-21T23:59:59Z", "2026-11-21"},
			{"UTC", "2026-11-22T00:00:00Z", "2026-11-22"},
			{"Asia/Tokyo", "2026-11-21T15:00:00Z", "2026-11-22"},
			{"America/Los_Angeles", "2026-11-22T07:59:59Z", "2026-11-21"},
			{"America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03"}, // 00:00 is left out
			{"America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04"},
			{"Europe/Paris", "2026-03-28T23:00:00Z", "2026-03-29"}, // 23 hours long
			{"Europe/Paris", "2026-03-29T21:59:59Z", "2026-03-29"},
			{"Europe/Paris", "2026-03-29T22:00:00Z", "2026-03-30"},
			{"Europe/Paris", "2026-10-25T22:59:59Z", "2026-10-25"}, // 25 hours long
			{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31"}, // there is no 30th
			{"UTC", "1999-12-31T00:00:00Z", "1999-12-31"},          // years from our clock
			{"UTC", "2099-01-01T00:00:00Z", "2099-01-01"},
		} {
			loc, err := time.LoadLocation(c.zone)
			must(t, err)
			at, err := time.Parse(time.RFC3339, c.at)
			must(t, err)
			clock.Set(at)
			name := fmt.Sprint("u", i)
			got, err := cs.In(loc).MarkToday(t.Context(), name)
			must(t, err)
			if got.Day.String() != c.want || !got.New || !slices.Equal(slices.Collect(got.Calendar.All()), []bitmap.Day{got.Day}) {
				t.Errorf("%s in %s: %v, want %s", c.at, c.zone, got, c.want)
			}
			if got, err = cs.In(loc).MarkToday(t.Context(), name); err != nil || got.New {
				t.Errorf("once more: %v, %v", got, err)
			}
		}
		clock.Set(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC))
		_, err := cs.MarkToday(t.Context(), "far")
		says(t, err, "out of range")
	})
}

// Promise: many calendars, bits or records are one round trip to each server.
func TestCalendarRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		cs := e.calendars(bitmap.CalendarOptions{})
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprint("u", i))
			_, _, err := cs.Mark(t.Context(), names[i], bitmap.Day(20000+i))
			must(t, err)
		}
		if n := e.tripsOf(func() {
			all, err := cs.LoadMany(t.Context(), append(names, "nobody"))
			must(t, err)
			for i, c := range all[:50] {
				if d, ok := c.First(); !ok || d != bitmap.Day(20000+i) || c.Total() != 1 {
					t.Errorf("calendar %d begins with %v", i, d)
				}
			}
			if all[50].Total() != 0 {
				t.Error("there is a mark in no calendar")
			}
		}); n != 1 {
			t.Errorf("LoadMany took %d round trips", n)
		}
		if n := e.tripsOf(func() { _, _, _ = cs.Mark(t.Context(), "u1", 1, 2, 3) }); n != 1 {
			t.Errorf("Mark took %d round trips", n)
		}
		if n := e.tripsOf(func() { _, _ = cs.MarkToday(t.Context(), "u1") }); n != 1 {
			t.Errorf("MarkToday took %d round trips", n)
		}
		found := 0
		for name, err := range cs.List(t.Context(), "u4*") {
			must(t, err)
			if strings.HasPrefix(name, "u4") {
				found++
			}
		}
		if found != 11 {
			t.Errorf("found %d names, want 11", found)
		}
	})
}

// A year takes 46 bytes, whichever day was marked first.
func TestCalendarSize(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		cs := e.calendars(bitmap.CalendarOptions{})
		for _, d := range []string{"2026-12-31", "2026-01-01", "2026-06-15"} {
			_, _, err := cs.Mark(t.Context(), "u", day(d))
			must(t, err)
		}
		if n := e.Redis.StrLen(t.Context(), e.Key("u", "calendar")).Val(); n > 4+47 {
			t.Errorf("a year takes %d bytes", n)
		}
		// Unmark makes no calendar and makes none longer.
		before := e.Redis.Get(t.Context(), e.Key("u", "calendar")).Val()
		_, changed, err := cs.Unmark(t.Context(), "u", day("1950-01-01"), day("2100-01-01"))
		must(t, err)
		if changed != 0 || e.Redis.Get(t.Context(), e.Key("u", "calendar")).Val() != before {
			t.Errorf("%d changed, and the key", changed)
		}
		_, _, err = cs.Unmark(t.Context(), "none", day("2100-01-01"))
		must(t, err)
		if len(e.Keys()) != 1 {
			t.Errorf("there are %d keys, want 1", len(e.Keys()))
		}
	})
}

func TestCalendarTTL(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		cs := e.calendars(bitmap.CalendarOptions{TTL: time.Hour})
		for range 2 {
			_, _, err := cs.Mark(t.Context(), "u", 20000, -20000)
			must(t, err)
			if d := e.Redis.PTTL(t.Context(), e.Key("u", "calendar")).Val(); d < 50*time.Minute || d > time.Hour {
				t.Errorf("it is kept for %v", d)
			}
			must(t, e.Redis.PExpire(t.Context(), e.Key("u", "calendar"), time.Minute).Err())
		}
	})
}

// Bad input gives an error that says what is wrong with it.
//
// Promise: bad input is refused, and nothing is written.
func TestCalendarBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := bitmap.NewCalendars(nil, bitmap.CalendarOptions{TTL: -1})
		says(t, err, "client is nil", "TTL is -1ns; want 0")
		cs := e.calendars(bitmap.CalendarOptions{})
		_, _, err = cs.Mark(t.Context(), "u", bitmap.MinDay-1, 20000, bitmap.MaxDay+1)
		says(t, err, "day 1899-12-31 is out of range; want 1900-01-01 to 2199-12-31", "day 2200-01-01")
		_, _, err = cs.Mark(t.Context(), "u", bitmap.Date(1<<40, time.May, 1))
		says(t, err, "out of range")
		_, _, err = cs.Mark(t.Context(), "u")
		says(t, err, "0 days; want 1 to 4096")
		_, _, err = cs.Unmark(t.Context(), "u", make([]bitmap.Day, 4097)...)
		says(t, err, "4097 days")
		_, _, err = cs.Mark(t.Context(), "", 1)
		is(t, err, redoubt.ErrInvalidName)
		_, err = cs.LoadMany(t.Context(), []string{"a", "}"})
		is(t, err, redoubt.ErrInvalidName)
		if len(e.Keys()) != 0 {
			t.Errorf("there are %d keys", len(e.Keys()))
		}

		must(t, e.Redis.LPush(t.Context(), e.Key("list", "calendar"), "x").Err())
		must(t, e.Redis.Set(t.Context(), e.Key("short", "calendar"), "abc", 0).Err())
		must(t, e.Redis.Set(t.Context(), e.Key("text", "calendar"), "some text", 0).Err())
		for _, name := range []string{"list", "text", "short"} {
			_, err = cs.Load(t.Context(), name)
			is(t, err, redoubt.ErrWrongType)
			_, _, err = cs.Mark(t.Context(), name, 1)
			is(t, err, redoubt.ErrWrongType)
		}
		_, err = cs.Load(t.Context(), "text")
		says(t, err, `the key of "text" holds no calendar`)
		if got := e.Redis.Get(t.Context(), e.Key("text", "calendar")).Val(); got != "some text" {
			t.Errorf("the text is now %q", got)
		}
	})
}
