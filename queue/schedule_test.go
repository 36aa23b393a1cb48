package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/await"
	"github.com/redoubt-go/redoubt/queue"
)

func TestParseCron(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	utc := time.UTC
	for _, c := range []struct {
		spec string
		loc  *time.Location
		from string
		want []string
	}{
		{"* * * * *", utc, "2026-01-01T00:00:30", []string{"2026-01-01T00:01:00", "2026-01-01T00:02:00"}},
		{"*/20 9-10 * * mon-FRI", utc, "2026-01-02T10:25:00", []string{"2026-01-02T10:40:00", "2026-01-05T09:00:00", "2026-01-05T09:20:00"}},
		{"0 0 29 2 *", utc, "2026-01-01T00:00:00", []string{"2028-02-29T00:00:00", "2032-02-29T00:00:00"}},
		{"5,35 12 1,15 * 7", utc, "2026-01-01T12:35:00", []string{"2026-01-04T12:05:00", "2026-01-04T12:35:00", "2026-01-11T12:05:00", "2026-01-11T12:35:00", "2026-01-15T12:05:00"}},
		{"0 6/6 * * *", utc, "2026-01-01T00:00:00", []string{"2026-01-01T06:00:00", "2026-01-01T12:00:00", "2026-01-01T18:00:00", "2026-01-02T06:00:00"}},
		{"@monthly", utc, "2026-12-31T23:59:59", []string{"2027-01-01T00:00:00", "2027-02-01T00:00:00"}},
		{"@every 90s", utc, "1970-01-01T00:00:00", []string{"1970-01-01T00:01:30", "1970-01-01T00:03:00"}},
		// Clocks go from 2 to 3 on 2026-03-29, and from 3 to 2 on 2026-10-25.
		{"30 2 * * *", berlin, "2026-03-28T00:00:00", []string{"2026-03-28T02:30:00", "2026-03-30T02:30:00"}},
		{"0 3 * * *", berlin, "2026-03-28T12:00:00", []string{"2026-03-29T03:00:00"}},
		{"0 4 * * *", berlin, "2026-10-24T12:00:00", []string{"2026-10-25T04:00:00"}},
	} {
		s, err := queue.ParseCron(c.spec, c.loc)
		must(t, err)
		at, err := time.ParseInLocation("2006-01-02T15:04:05", c.from, c.loc)
		must(t, err)
		for _, want := range c.want {
			at = s.Next(at)
			if got := at.Format("2006-01-02T15:04:05"); got != want {
				t.Errorf("%s: %s, want %s", c.spec, got, want)
			}
		}
	}
	// Where midnight is left out.
	beirut, err := time.LoadLocation("Asia/Beirut")
	must(t, err)
	s, err := queue.ParseCron("0 5 * * *", beirut)
	must(t, err)
	for at, last := time.Date(2025, 3, 25, 12, 0, 0, 0, beirut), 25; last < 31; last++ {
		if at = s.Next(at); at.Day() != last+1 || at.Hour() != 5 {
			t.Fatalf("%v after the %d.", at, last)
		}
	}
	for spec, want := range map[string]string{
		"0 0 1/9223372036854775807 * *": `day of the month: "1/9223372036854775807" has the step "9223372036854775807"; want 1 to 31`,

		"* * * *":        "has 4 fields",
		"60 * * * *":     `minute: "60" is not from 0 to 59`,
		"* * * foo *":    `month: "foo" is not from 1 to 12`,
		"* * 5-3 * *":    `day of the month: "5-3" goes backwards`,
		"*/0 * * * *":    `minute: "*/0" has the step "0"`,
		"0 0 30 2 *":     "never comes",
		"*/61 * * * *":   `minute: "*/61" has the step "61"; want 1 to 60`,
		"@every 1ms":     "interval is 1ms; want 1s",
		"@every tuesday": "invalid duration",
	} {
		if _, err := queue.ParseCron(spec, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

func FuzzParseCron(f *testing.F) {
	for _, spec := range []string{"* * * * *", "*/5 1-3,7 ? JAN-MAR/2 sun", "@every 1h", "0 0 31 2,4 *", "0 0 1/9223372036854775807 * *"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := queue.ParseCron(spec, nil)
		if err != nil {
			return
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC)
		if next := s.Next(from); !next.After(from) || !s.Next(next).After(next) {
			t.Errorf("%q: %v", spec, next)
		}
	})
}

// Three schedulers, of which one dies and one sleeps, and a consumer: each time
// comes once, and not early. The clock is that of the bubble.
func TestScheduleOnce(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
		q := queueOn(t, client, queue.Options{})
		minutely, err := queue.ParseCron("* * * * *", nil)
		must(t, err)
		often, err := queue.Every(10 * time.Second)
		must(t, err)
		entries := []queue.Entry[string]{
			{ID: "minute", Schedule: minutely, Request: queue.Request[string]{Value: "m"}},
			{ID: "often", Schedule: often, Request: queue.Request[string]{Value: "o"}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		var got []string
		began := time.Now()
		all.Go(func() {
			if err := q.Run(ctx, "q", func(_ context.Context, d *queue.Delivery[string]) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, d.ID)
				return nil
			}, queue.RunOptions{}); err != nil {
				t.Error(err)
			}
		})
		for i := range 3 {
			mine, stop := context.WithTimeout(ctx, time.Duration(i+1)*5*time.Minute)
			defer stop()
			all.Go(func() {
				if err := q.Schedule(mine, "q", entries...); err != nil {
					t.Error(err)
				}
			})
		}
		await.Advance(10*time.Minute + 5*time.Second)
		mu.Lock()
		seen := map[string]bool{}
		for _, id := range got {
			if seen[id] {
				t.Errorf("%s came twice", id)
			}
			seen[id] = true
		}
		mu.Unlock()
		if len(seen) < 70 || len(seen) > 71 {
			t.Errorf("%d times in %v", len(seen), time.Since(began))
		}
		cancel()
		all.Wait()
	})
}

func TestBadEntries(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		q := w.queue(t, queue.Options{})
		every, err := queue.Every(time.Second)
		must(t, err)
		err = q.Schedule(t.Context(), "q", queue.Entry[string]{}, queue.Entry[string]{ID: "a", Schedule: every},
			queue.Entry[string]{ID: "a", Schedule: every, Request: queue.Request[string]{ID: "x"}})
		if err == nil || strings.Count(err.Error(), "queue: ") != 2 {
			t.Errorf("%v", err)
		}
	})
}

// standing is a schedule whose next time is always the same.
type standing struct {
	at    time.Time
	asked int
	stop  func() // when it was asked too often
}

func (s *standing) Next(time.Time) time.Time {
	if s.asked++; s.asked == 100 {
		s.stop()
	}
	return s.at
}

// A schedule that does not go on is an error, not a loop.
func TestScheduleThatStands(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
		q := queueOn(t, client, queue.Options{})
		every, err := queue.Every(time.Minute)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		once := &standing{at: time.Now().Add(90 * time.Second), stop: stop}
		err = q.Schedule(ctx, "q", queue.Entry[string]{ID: "fine", Schedule: every}, queue.Entry[string]{ID: "once", Schedule: once})
		if err == nil || !strings.Contains(err.Error(), `entry "once"`) || time.Now().Before(once.at) {
			t.Errorf("%v", err)
		}
		// What it had said before was put.
		s, err := q.Stats(t.Context(), "q")
		must(t, err)
		if s.Ready+s.Due != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// The next messages of all entries may be more than one call puts.
func TestScheduleOfLargeMessages(t *testing.T) {
	w := newWorld(t, ownServer(t))
	q := w.queue(t, queue.Options{})
	hourly, err := queue.Every(time.Hour)
	must(t, err)
	var entries []queue.Entry[string]
	for i := range 5 {
		entries = append(entries, queue.Entry[string]{
			ID: fmt.Sprint("e", i), Schedule: hourly, Request: queue.Request[string]{Value: strings.Repeat("v", queue.MaxBatchBytes/4)},
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Schedule(ctx, "q", entries...) }()
	eventually(t, "all are put", func() bool {
		s, err := q.Stats(t.Context(), "q")
		return err == nil && s.Due == 5
	})
	stop()
	must(t, <-ended)
}

// A schedule is kept on every back end, by the clock of the queue's server.
func TestScheduleOnEveryBackEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		q := w.queue(t, queue.Options{})
		hourly, err := queue.Every(time.Hour)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- q.Schedule(ctx, "q", queue.Entry[string]{ID: "hourly", Schedule: hourly, Request: queue.Request[string]{Value: "h"}})
		}()
		eventually(t, "the next message is put", func() bool {
			s, err := q.Stats(t.Context(), "q")
			return err == nil && s.Due == 1
		})
		stop()
		must(t, <-ended)
	})
}
