package ratelimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

// zones where days begin in odd ways: at 01:00, twice, or not at all.
var zones = []string{
	"UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe",
	"America/Sao_Paulo", "America/Havana", "Asia/Beirut", "America/St_Johns", "Pacific/Apia", "Africa/Cairo",
}

// A quota counts as one counts by the calendar on the wall: days with 23 and 25
// hours, days without midnight, and a month beside them.
//
// Promise: A Quota counts in the periods of the calendar, by the server's
// clock, whatever clocks do at midnight.
func TestQuotaAgreesWithCalendar(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		for i := range thorough(40, 2*len(zones)) {
			loc := zone(t, zones[i%len(zones)])
			// Summer 2009 to 2012: Apia leaves a day out, and clocks in St. John's are
			// turned at 00:01.
			e.Clock.Set(time.Date(2009, time.June, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(3 * 365 * 24 * time.Hour)))))
			day, month := 1+r.IntN(10), 5+r.IntN(60)
			q, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{
				Allowance: ratelimit.Allowance{Calls: day, Per: ratelimit.Day},
				And:       []ratelimit.Allowance{{Calls: month, Per: ratelimit.Month}},
				Location:  loc,
			})
			must(t, err)
			used := map[string]int{}
			today := ""
			for range 110 {
				e.Clock.Advance(time.Duration(r.Int64N(int64(8 * time.Hour))))
				now := e.Clock.Now().In(loc)
				// Where midnight comes twice the day has begun with the first, which in
				// St. John's is a minute before the clocks are turned back by an hour.
				for back := range 90 {
					today = max(today, now.Add(-time.Duration(back)*time.Minute).Format("2006-01-02"))
				}
				n := r.IntN(4)
				d, err := q.AllowN(t.Context(), fmt.Sprint("a", i), n)
				must(t, err)
				left := min(day-used[today], month-used[today[:7]])
				if want := left >= max(n, 1); d.Allowed != want {
					t.Fatalf("%v: %d calls of %d: %+v; used %v", now, n, left, d, used)
				}
				if d.Allowed {
					used[today], used[today[:7]], left = used[today]+n, used[today[:7]]+n, left-n
				}
				if d.Remaining != left {
					t.Fatalf("%v: %+v; want %d left", now, d, left)
				}
				ends := now.Add(d.ResetAfter) // the month
				if before := ends.Add(-time.Microsecond); ends.Month() == now.Month() && ends.Day() == 1 || before.Format("2006-01") > ends.Format("2006-01") || ends.Day() != 1 {
					t.Fatalf("%v: resets at %v", now, ends)
				}
				if !d.Allowed && d.RetryAfter != ratelimit.Never {
					again := now.Add(d.RetryAfter)
					if again.Day() == now.Add(d.RetryAfter-time.Microsecond).Day() && again.Hour() > 1 {
						t.Fatalf("%v: retry at %v", now, again)
					}
				}
			}
		}
	})
}

// A fixed window's edge: around midnight twice the day's calls come through. The
// sliding log does not let them.
//
// Promise: A Quota counts in the periods of the calendar, by the server's
// clock, whatever clocks do at midnight.
func TestQuotaHasAnEdge(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		q, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 10, Per: ratelimit.Day}})
		must(t, err)
		l := e.window(t, ratelimit.Limit{Rate: 10, Period: 24 * time.Hour})
		e.Clock.Set(time.Date(2026, time.March, 1, 23, 59, 59, 0, time.UTC))
		quota, window := 0, 0
		for range 2 {
			for range 15 {
				d, err := q.Allow(t.Context(), "a")
				must(t, err)
				quota += d.Taken
				d, err = l.Allow(t.Context(), "a")
				must(t, err)
				window += d.Taken
			}
			e.Clock.Advance(2 * time.Second)
		}
		if quota != 20 || window != 10 {
			t.Errorf("within 2 s: %d of the quota, %d in the window; want 20 and 10", quota, window)
		}
	})
}

// A period that has begun goes on when the clock steps back behind its beginning.
func TestQuotaClockStep(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		q, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 5, Per: ratelimit.Day}})
		must(t, err)
		var left []int
		for _, at := range []string{"01T23:59:59", "02T00:00:01", "01T23:59:58", "02T00:00:03", "03T00:00:00"} {
			now, err := time.Parse("2006-01-02T15:04:05", "2026-05-"+at)
			must(t, err)
			e.Clock.Set(now)
			d, err := q.Allow(t.Context(), "a")
			must(t, err)
			left = append(left, d.Remaining)
		}
		if fmt.Sprint(left) != "[4 4 3 2 4]" {
			t.Errorf("left: %v", left)
		}
	})
}

// The server's clock decides, however far off the clock here is, and the key
// expires with the period.
//
// Promise: A Quota counts in the periods of the calendar, by the server's
// clock, whatever clocks do at midnight.
func TestQuotaTimeIsTheServers(t *testing.T) {
	client, clock := withTime(t) // 2025-10-09T08:53:20Z
	q, err := ratelimit.NewQuota(client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Day}})
	must(t, err)
	for i, want := range []string{
		"true 1 left, reset 15h6m40s",
		"true 0 left, reset 15h6m40s",
		"false 0 left, reset 15h6m40s",
	} {
		d, err := q.Allow(t.Context(), "a")
		must(t, err)
		if got := fmt.Sprintf("%v %d left, reset %v", d.Allowed, d.Remaining, d.ResetAfter); got != want {
			t.Errorf("call %d: %s; want %s", i, got, want)
		}
	}
	if ms := pttl(t, client, "rd:{a}:quota"); ms != 54_400_000 {
		t.Errorf("expires in %d ms", ms)
	}
	clock.advance(54_400 * time.Second)
	if d, err := q.Allow(t.Context(), "a"); err != nil || !d.Allowed || d.Remaining != 1 {
		t.Errorf("the next day: %+v, %v", d, err)
	}
	clock.advance(400 * 24 * time.Hour)
	if d, err := q.Info(t.Context(), "a"); err != nil || d.Remaining != 2 || len(d.Limits) != 1 || d.Limits[0].Rate != 2 || d.Limits[0].Period != 24*time.Hour {
		t.Errorf("the next year: %+v, %v", d, err)
	}
}

func TestQuotaFaults(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Year}})
		must(t, err)
		key := e.Prefix + ":{a}:quota"
		must(t, e.Redis.LPush(t.Context(), key, "x").Err())
		if _, err := q.Allow(t.Context(), "a"); !redoubt.IsCode(err, "WRONGTYPE") || strings.Contains(err.Error(), "script") {
			t.Errorf("of a list: %v", err)
		}
		must(t, e.Redis.Set(t.Context(), key, "x 1", 0).Err())
		if _, err := q.Allow(t.Context(), "a"); !redoubt.IsCode(err, "ERR") || !strings.Contains(err.Error(), "no quota") {
			t.Errorf("of a text: %v", err)
		}
		must(t, q.Reset(t.Context(), "a"))
		d, err := q.TakeUpTo(t.Context(), "a", 5)
		if err != nil || d.Taken != 2 || !d.Allowed || d.Limit.Rate != 2 || d.Limit.Period < 365*24*time.Hour {
			t.Errorf("up to 5: %+v, %v", d, err)
		}
		if d, err = q.AllowN(t.Context(), "a", 3); err != nil || d.RetryAfter != ratelimit.Never {
			t.Errorf("3 of 2: %+v, %v", d, err)
		}
		for _, o := range []ratelimit.QuotaOptions{
			{}, {Allowance: ratelimit.Allowance{Calls: 1}}, {Allowance: ratelimit.Allowance{Per: ratelimit.Day}},
			{Allowance: ratelimit.Allowance{Calls: 1, Per: ratelimit.Day}, And: []ratelimit.Allowance{{Calls: -1, Per: 9}}},
			{Allowance: ratelimit.Allowance{Calls: 1, Per: ratelimit.Day}, Scope: 7},
		} {
			if _, err := ratelimit.NewQuota(e.Client, o); err == nil {
				t.Errorf("%+v: no error", o)
			}
		}
	})
}
