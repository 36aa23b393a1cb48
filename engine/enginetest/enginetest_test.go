package enginetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/engine/enginetest"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/queue"
)

var must = expect.Must

// A user's own test looks like this one: it waits for nothing.
func TestReminder(t *testing.T) {
	s := enginetest.New(t)
	q, err := queue.New[string](s.Client, queue.Options{Backoff: queue.Constant(time.Minute)})
	must(t, err)
	_, err = q.PutRequest(t.Context(), "reminders", queue.Request[string]{Value: "pay", Delay: time.Hour})
	must(t, err)
	fail := true
	var got []time.Time
	work := func() int {
		n, err := q.Work(t.Context(), "reminders", func(context.Context, *queue.Delivery[string]) error {
			got = append(got, s.Now())
			if fail {
				return errors.New("no connection")
			}
			return nil
		}, queue.RunOptions{})
		must(t, err)
		return n
	}
	began := s.Now()
	for _, c := range []struct {
		step time.Duration
		want int
	}{{time.Hour - time.Millisecond, 0}, {time.Millisecond, 1}, {59 * time.Second, 0}, {time.Second, 1}} {
		s.Advance(c.step)
		if n := work(); n != c.want {
			t.Errorf("%v later: %d calls, want %d", s.Now().Sub(began), n, c.want)
		}
	}
	fail = false
	s.Advance(time.Minute)
	if n := work(); n != 1 || len(got) != 3 {
		t.Errorf("%d calls, %v", n, got)
	}
}

// A test of Run, with leases and timers, is in a bubble, whose time passes while all goroutines wait.
func TestRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		defer func() { _ = e.Close() }()
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		defer client.Close()
		q, err := queue.New[string](client, queue.Options{})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		_, err = q.PutRequest(ctx, "q", queue.Request[string]{Value: "x", Delay: 24 * time.Hour})
		must(t, err)
		err = q.Run(ctx, "q", func(context.Context, *queue.Delivery[string]) error {
			if late := time.Since(began) - 24*time.Hour; late < 0 || late > 10*time.Millisecond {
				t.Errorf("late by %v", late)
			}
			await.Advance(time.Hour) // longer than the lease
			cancel()
			return nil
		}, queue.RunOptions{})
		must(t, err)
		s, err := q.Info(context.Background(), "q")
		must(t, err)
		if s.Running+s.Ready+s.Due+s.Dead > 0 {
			t.Errorf("%+v", s)
		}
	})
}
