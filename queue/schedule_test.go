package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/queue"
)

// Three schedulers and a consumer; one scheduler dies and one sleeps. Each time
// comes once, and not early. The clock is the bubble's.
//
// Promise: Each time of a schedule is put once, by any number of schedulers.
func TestScheduleOnce(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
		q := queueOn(t, client, queue.Options{})
		minutely, err := queue.Every(time.Minute)
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
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{})
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
		// Its earlier messages were put.
		s, err := q.Info(t.Context(), "q")
		must(t, err)
		if s.Ready+s.Due != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// The next messages of all entries may be more than one call puts.
func TestScheduleOfLargeMessages(t *testing.T) {
	e := &env{testenv.New(t, ownServer(t))}
	q := e.queue(t, queue.Options{})
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
		s, err := q.Info(t.Context(), "q")
		return err == nil && s.Due == 5
	})
	stop()
	must(t, <-ended)
}

// A schedule is kept on every back end, by the clock of the queue's server.
//
// Promise: Each time of a schedule is put once, by any number of schedulers.
func TestScheduleOnEveryBackEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{})
		hourly, err := queue.Every(time.Hour)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- q.Schedule(ctx, "q", queue.Entry[string]{ID: "hourly", Schedule: hourly, Request: queue.Request[string]{Value: "h"}})
		}()
		eventually(t, "the next message is put", func() bool {
			s, err := q.Info(t.Context(), "q")
			return err == nil && s.Due == 1
		})
		stop()
		must(t, <-ended)
	})
}
