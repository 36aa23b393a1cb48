package hll_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func count(t *testing.T, v *hll.Visitors, page string, at time.Time) hll.Count {
	t.Helper()
	c, err := v.Count(t.Context(), page, at)
	must(t, err)
	return c
}

// Registers that were gathered in the process and merged on the server equal the registers of
// PFADD.
//
// Promise: a batch adds to the server, register for register, what PFADD of the same visitors adds.
func TestSameAsPfadd(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		for _, n := range []int{1, 5, 511, 512, 513, 2000, 20_000} {
			page, plain := fmt.Sprint("p", n), e.Prefix+":plain"
			pipe := e.Redis.Pipeline()
			for i := range n {
				visitor := fmt.Sprint("visitor-", i)
				must(t, v.Add(page, visitor))
				pipe.PFAdd(t.Context(), plain, visitor)
				if i%(n/3+1) == 0 { // in several batches
					must(t, v.Flush(t.Context()))
				}
			}
			must(t, v.Flush(t.Context()))
			_, err := pipe.Exec(t.Context())
			must(t, err)
			ours := e.Prefix + ":{" + page + "}:visitors:2026-11-21"
			// The union has as many as either, so they are the same.
			got, want := e.Redis.PFCount(t.Context(), ours).Val(), e.Redis.PFCount(t.Context(), plain).Val()
			both := want
			if !e.pool() { // these keys are on several servers
				both = e.Redis.PFCount(t.Context(), ours, plain).Val()
			}
			var a, b hll.Sketch
			must(t, a.UnmarshalBinary([]byte(e.Redis.Get(t.Context(), ours).Val())))
			must(t, b.UnmarshalBinary([]byte(e.Redis.Get(t.Context(), plain).Val())))
			if a != b || got != want || both != want {
				t.Errorf("%d visitors: %d, of PFADD %d, together %d", n, got, want, both)
			}
			if c := count(t, v, page, noon); c != (hll.Count{Visitors: want, Views: int64(n)}) {
				t.Errorf("%d visitors are counted as %+v", n, c)
			}
			must(t, e.Redis.Del(t.Context(), plain).Err())
		}
		for _, k := range e.Keys() {
			if strings.HasSuffix(k, ":work") {
				t.Errorf("%s is left", k)
			}
		}
	})
}

// The standard error is 1.04/√16384 = 0.81 % where there are more visitors than registers, and less
// for fewer visitors.
//
// Promise: the standard error of the number of visitors is 0.81 %.
func TestError(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		const pages, visitors = 40, 20_000
		for p := range pages {
			page := fmt.Sprint("page-", p)
			for i := range visitors {
				must(t, v.Add(page, strconv.Itoa(p*visitors+i)))
			}
		}
		must(t, v.Flush(t.Context()))
		sum, worst := 0.0, 0.0
		for p := range pages {
			off := float64(count(t, v, fmt.Sprint("page-", p), noon).Visitors)/visitors - 1
			sum += off * off
			worst = max(worst, math.Abs(off))
		}
		rms := math.Sqrt(sum / pages)
		t.Logf("%d pages of %d visitors: the error is %.2f %% (RMS), the worst %.2f %%", pages, visitors, 100*rms, 100*worst)
		if rms > 0.0081*1.25 || rms < 0.0081*0.75 || worst > 0.0081*3.5 {
			t.Error("that is not 0.81 % ± noise")
		}
	})
}

// A visitor of several pages, or on several days, is one visitor; all views count.
//
// Promise: a visitor counts once in a union, on any pages and days and in any slots.
func TestUnions(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		rng := rand.New(rand.NewPCG(1, 2))
		type visit struct{ page, day, visitor int }
		var visits []visit
		for range 6000 {
			x := visit{rng.IntN(3), rng.IntN(10), rng.IntN(2000)}
			visits = append(visits, x)
			must(t, v.AddAt(fmt.Sprint("p", x.page), fmt.Sprint(x.visitor), noon.AddDate(0, 0, -x.day)))
		}
		must(t, v.Flush(t.Context()))
		for _, c := range []struct{ pages, from, to int }{{1, 0, 0}, {1, 6, 0}, {1, 9, 3}, {2, 0, 0}, {3, 9, 0}, {3, 5, 5}} {
			different, views := map[int]bool{}, int64(0)
			for _, x := range visits {
				if x.page < c.pages && x.day <= c.from && x.day >= c.to {
					different[x.visitor] = true
					views++
				}
			}
			var pages []string
			for p := range c.pages {
				pages = append(pages, fmt.Sprint("p", p))
			}
			pages = append(pages, pages[0]) // named twice, counted once
			got, err := v.Between(t.Context(), noon.AddDate(0, 0, -c.from), noon.AddDate(0, 0, -c.to), pages...)
			must(t, err)
			if off := math.Abs(float64(got.Visitors)/float64(len(different)) - 1); off > 0.03 || got.Views != views {
				t.Errorf("%+v: %+v, want %d visitors and %d views", c, got, len(different), views)
			}
			if c.to == 0 {
				last, err := v.Last(t.Context(), c.from+1, pages...)
				must(t, err)
				if last != got {
					t.Errorf("the last %d days have %+v, want %+v", c.from+1, last, got)
				}
			}
		}
		// A series is the days one by one.
		points, err := v.Series(t.Context(), "p0", noon.AddDate(0, 0, -3), noon)
		must(t, err)
		for i, p := range points {
			at := noon.AddDate(0, 0, i-3)
			if want := count(t, v, "p0", at); p.Count != want || !p.Start.Equal(at.Add(-12*time.Hour)) {
				t.Errorf("point %d is %+v, want %+v", i, p, want)
			}
		}
		if len(points) != 4 {
			t.Errorf("there are %d points", len(points))
		}
		// More periods than a server merges at once: the same, from more sketches.
		long, err := v.Last(t.Context(), 150, "p0")
		must(t, err)
		short, err := v.Last(t.Context(), 10, "p0")
		must(t, err)
		if long != short || short.Views == 0 {
			t.Errorf("150 days have %+v, 10 of them %+v", long, short)
		}
	})
}

// Keys that PFADD has made count together, in any slots.
//
// Promise: a visitor counts once in a union, on any pages and days and in any slots.
func TestCountKeys(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a, b := e.Prefix+":{a}", e.Prefix+":{b}"
		if e.pool() {
			b = e.Prefix + ":{a}b" // PFCOUNT wants one server
		}
		var s hll.Sketch
		for i := range 3000 {
			must(t, e.Redis.PFAdd(t.Context(), []string{a, b}[i%2], i, i+1).Err())
			s.Add(fmt.Sprint(i))
			s.Add(fmt.Sprint(i + 1))
		}
		v, _ := e.visitors(hll.Options{})
		got, err := v.CountKeys(t.Context(), a, b, e.Prefix+":none")
		must(t, err)
		if want := e.Redis.PFCount(t.Context(), a, b).Val(); got != want || s.Count() != want {
			t.Errorf("%d, and %d, want %d", got, s.Count(), want)
		}
		// A sketch is a key's value, and the reverse.
		data, err := s.MarshalBinary()
		must(t, err)
		must(t, e.Redis.Set(t.Context(), a, data, 0).Err())
		if n := e.Redis.PFCount(t.Context(), a, b).Val(); n != got {
			t.Errorf("the sketch counts %d as a key, want %d", n, got)
		}
		var other hll.Sketch
		other.Merge(&s)
		if other != s {
			t.Error("a merged sketch is another")
		}
		must(t, e.Redis.Set(t.Context(), a, "text", 0).Err())
		_, err = v.CountKeys(t.Context(), a, b)
		is(t, err, redoubt.ErrWrongType)
		says(t, err, "not a HyperLogLog", a)
		must(t, e.Redis.Set(t.Context(), e.Prefix+":{p}:visitors:2026-11-21", "text", 0).Err())
		for _, pages := range [][]string{{"p"}, {"p", "q"}} { // by PFCOUNT, and by sketches
			_, err = v.Last(t.Context(), 1, pages...)
			is(t, err, redoubt.ErrWrongType)
		}
		// Of a union the server does not tell which key is wrong, nor of a time-out.
		_, err = v.Last(t.Context(), 3, "p", "q")
		is(t, err, redoubt.ErrWrongType)
		says(t, err, `page "p"`)
		if strings.Contains(err.Error(), "visitors:") {
			t.Errorf("it names a key: %v", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for what, call := range map[string]func() error{
			"CountKeys": func() error { _, err := v.CountKeys(ended, a, b); return err },
			"Last":      func() error { _, err := v.Last(ended, 1, "p", "q"); return err },
		} {
			if err := call(); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "key ") {
				t.Errorf("%s without time: %v", what, err)
			}
		}
		says(t, s.UnmarshalBinary([]byte("HYLL")), "4 bytes are not a HyperLogLog")
		_, err = v.CountKeys(t.Context())
		says(t, err, "no keys are named")
	})
}

// A day begins at midnight of the time zone, an hour with the hour.
//
// Promise: a day is a day of the time zone, and is kept for as long as Keep says.
func TestPeriods(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		must(t, err)
		paris, err := time.LoadLocation("Europe/Paris")
		must(t, err)
		for i, c := range []struct {
			opts      hll.Options
			at, label string
		}{
			{hll.Options{}, "2026-11-21T23:59:59Z", "2026-11-21"},
			{hll.Options{}, "2026-11-22T00:00:00Z", "2026-11-22"},
			{hll.Options{Location: tokyo}, "2026-11-21T14:59:59Z", "2026-11-21"},
			{hll.Options{Location: tokyo}, "2026-11-21T15:00:00Z", "2026-11-22"},
			{hll.Options{Location: paris}, "2026-10-25T22:59:59Z", "2026-10-25"}, // 25 hours long
			{hll.Options{Location: paris}, "2026-10-25T23:00:00Z", "2026-10-26"},
			{hll.Options{Period: hll.Hourly, Location: tokyo}, "2026-11-21T14:59:59Z", "2026-11-21T14"},
			{hll.Options{Period: hll.Hourly}, "2026-11-21T15:00:00Z", "2026-11-21T15"},
		} {
			at, err := time.Parse(time.RFC3339, c.at)
			must(t, err)
			v, clock := e.visitors(c.opts)
			page := fmt.Sprint("p", i)
			// The clock comes from the period before, whose visits are not these.
			clock.Set(at.Add(-25 * time.Hour))
			must(t, v.Add(page, "before"))
			clock.Set(at)
			must(t, v.Add(page, "x"))
			must(t, v.Add(page, "y"))
			must(t, v.Flush(t.Context()))
			key := e.Prefix + ":{" + page + "}:visitors:" + c.label
			if n := e.Redis.PFCount(t.Context(), key).Val(); n != 2 {
				t.Errorf("%v: %d visitors in %s, want 2", c, n, key)
			}
			if last, err := v.Last(t.Context(), 1, page); err != nil || last.Visitors != 2 {
				t.Errorf("%v: the last period has %+v, %v", c, last, err)
			}
		}
	})
}

// A slow reading of the clock does not put back the period that a later reading has begun.
func TestPeriodStays(t *testing.T) {
	e := newEnv(testenv.New(t, redistest.Backend{Prefix: "p"}))
	var look atomic.Pointer[func() time.Time]
	set := func(f func() time.Time) { look.Store(&f) }
	set(func() time.Time { return noon })
	v, err := hll.NewWithClock(e.Client, hll.Options{Period: hll.Hourly}, func() time.Time { return (*look.Load())() })
	must(t, err)
	looks, over := make(chan struct{}, 10), make(chan struct{})
	set(func() time.Time { looks <- struct{}{}; <-over; return noon })
	old, next := make(chan struct{}), make(chan struct{})
	go func() { v.Turn(); close(old) }()
	<-looks
	set(func() time.Time { return noon.Add(time.Hour) })
	go func() { v.Turn(); close(next) }()
	select {
	case <-next: // without the lock it doesn't wait for the other
	case <-time.After(50 * time.Millisecond):
	}
	close(over)
	<-old
	<-next
	if start := v.Current(); start != noon.Add(time.Hour).Unix() {
		t.Errorf("it counts in the period of %v again", time.Unix(start, 0).UTC())
	}
	must(t, v.Close())
}

// A period is the same whether it is named or current, before it begins and after.
//
// Promise: a day is a day of the time zone, and is kept for as long as Keep says.
func TestNamedPeriods(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, clock := e.visitors(hll.Options{})
		tomorrow := noon.AddDate(0, 0, 1)
		must(t, v.AddAt("p", "a", noon))
		must(t, v.Add("p", "b"))
		must(t, v.AddAt("p", "c", tomorrow))
		clock.Set(tomorrow)
		must(t, v.Add("p", "d"))
		must(t, v.AddAt("p", "e", tomorrow))
		must(t, v.AddAt("p", "f", noon))
		clock.Set(noon) // it was wrong
		must(t, v.Add("p", "g"))
		must(t, v.Flush(t.Context()))
		if c := count(t, v, "p", noon); c != (hll.Count{Visitors: 4, Views: 4}) {
			t.Errorf("today has %+v, want 4", c)
		}
		if c := count(t, v, "p", tomorrow); c != (hll.Count{Visitors: 3, Views: 3}) {
			t.Errorf("tomorrow has %+v, want 3", c)
		}
		if n := v.Bytes(); n != 0 {
			t.Errorf("%d bytes wait still", n)
		}
	})
}

// A period begins without a call, and visits of the period before count there.
//
// Promise: a day is a day of the time zone, and is kept for as long as Keep says.
func TestPeriodTurns(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var now atomic.Int64
		now.Store(noon.UnixMilli())
		v, err := hll.NewWithClock(e.Client, hll.Options{Period: hll.Hourly, Keep: long}, func() time.Time { return time.UnixMilli(now.Load()) })
		must(t, err)
		must(t, v.Add("p", "a"))
		must(t, v.Add("p", "b"))
		now.Add(time.Hour.Milliseconds()) // nobody is told
		next := noon.Add(time.Hour)
		await.Until(t, 30*time.Second, "the hour turns", func() bool {
			must(t, v.Add("p", "c"))
			must(t, v.Flush(t.Context()))
			return count(t, v, "p", next).Visitors == 1
		})
		must(t, v.AddAt("p", "d", noon))
		must(t, v.Close())
		if before := count(t, v, "p", noon).Visitors; before < 3 || before > 4 { // c may be there too
			t.Errorf("%d visitors are counted in the hour before", before)
		}
	})
}

// A period is kept for as long as Keep says, and visits of an older period are refused.
//
// Promise: a day is a day of the time zone, and is kept for as long as Keep says.
func TestKeep(t *testing.T) {
	redistest.Needs(t, 7, 0, "EXPIRETIME")
	each(t, func(t *testing.T, e *env) {
		v, clock := e.visitors(hll.Options{Keep: 48 * time.Hour})
		now := time.Now()
		clock.Set(now)
		must(t, v.Add("p", "x"))
		must(t, v.Flush(t.Context()))
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		keys := e.Keys()
		for _, k := range keys {
			if until := time.Unix(int64(e.Redis.ExpireTime(t.Context(), k).Val()/time.Second), 0); !until.Equal(midnight.Add(48 * time.Hour)) {
				t.Errorf("%s is kept until %v", k, until)
			}
		}
		if len(keys) != 2 {
			t.Errorf("the keys are %v", keys)
		}
		is(t, v.AddAt("p", "x", midnight.Add(-72*time.Hour-time.Second)), hll.ErrExpired)
		must(t, v.AddAt("p", "x", midnight.Add(-72*time.Hour)))
	})
}

// Pages are sent together, and counted together.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		trips := func(f func()) int64 {
			before := e.lossy.Trips.Load()
			f()
			return e.lossy.Trips.Load() - before
		}
		var pages []string
		for i := range 100 {
			pages = append(pages, fmt.Sprint("p", i))
			must(t, v.Add(pages[i], "x"))
		}
		if n := trips(func() { must(t, v.Flush(t.Context())) }); n != 1 {
			t.Errorf("Flush took %d round trips", n)
		}
		for what, f := range map[string]func() error{
			"Count":   func() error { _, err := v.Count(t.Context(), "p0", noon); return err },
			"Last":    func() error { _, err := v.Last(t.Context(), 30, "p0"); return err },
			"Between": func() error { _, err := v.Between(t.Context(), noon, noon, pages...); return err },
			"Series":  func() error { _, err := v.Series(t.Context(), "p0", noon.AddDate(0, 0, -30), noon); return err },
		} {
			if n := trips(func() { must(t, f()) }); n != 1 {
				t.Errorf("%s took %d round trips", what, n)
			}
		}
	})
}

// Promise: bad input is refused, and nothing is written.
func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := hll.New(nil, hll.Options{Period: 7, Keep: time.Millisecond, FlushEvery: -1, MaxBytes: 1, FlushBytes: 2})
		says(t, err, "client is nil", "Period is Period(7); want Daily or Hourly", "Keep is 1ms; want whole seconds",
			"FlushEvery is -1ns; want 10ms to 1h", "MaxBytes is 1; want 65536", "FlushBytes is 2; want 1 to MaxBytes")
		v, _ := e.visitors(hll.Options{})
		is(t, v.Add("", "x"), redoubt.ErrInvalidName)
		is(t, v.Add(strings.Repeat("x", 513), "x"), redoubt.ErrInvalidName)
		says(t, v.AddAt("p", "x", time.Unix(0, 0)), "want one from 1970-01-02")
		says(t, v.AddAt("p", "x", time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)), "want one from 1970-01-02")
		_, err = v.Between(t.Context(), noon, noon.Add(-time.Second), "p")
		says(t, err, "is empty")
		_, err = v.Last(t.Context(), 0, "p")
		says(t, err, "Last names 0 periods; want 1 to 100000")
		_, err = v.Last(t.Context(), 60_000, "p", "")
		is(t, err, redoubt.ErrInvalidName)
		says(t, err, "60000 periods times 2 pages; want at most 100000")
		_, err = v.Last(t.Context(), 1)
		says(t, err, "no pages are named")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, v.Add("p", "x"))
		is(t, v.Flush(ended), context.Canceled)
		if keys := e.Keys(); len(keys) != 0 {
			t.Errorf("the keys are %v", keys)
		}
	})
}
