package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/queue"
)

// events gathers what happens.
type events struct {
	mu   sync.Mutex
	list []queue.Event
}

func (l *events) add(_ context.Context, e queue.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
}

// of returns how the message with this id went on.
func (l *events) of(id string) (kinds []queue.EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.list {
		if e.Job != nil && e.Job.ID == id && e.Kind != queue.Started {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func (l *events) serverError() (errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.list {
		if e.Kind == queue.ServerError {
			errs = append(errs, e.Err)
		}
	}
	return errs
}

func (e *env) queue(t *testing.T, opts queue.Options) *queue.Queue[string] {
	t.Helper()
	q, err := queue.New[string](e.Client, opts)
	must(t, err)
	return q
}

// run runs a consumer until the test ends, or the returned function is called.
func run(t *testing.T, q *queue.Queue[string], h queue.Handler[string], opts queue.RunOptions) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx, "q", h, opts) }()
	var once sync.Once
	var err error
	stop = func() error {
		cancel()
		once.Do(func() {
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
				err = errors.New("the consumer does not stop")
			}
		})
		return err
	}
	t.Cleanup(func() { must(t, stop()) })
	return stop
}

// gone waits until nothing of the queue is left.
func (e *env) gone(t *testing.T) {
	t.Helper()
	eventually(t, "nothing is left", func() bool {
		return len(e.Redis.Keys(t.Context(), e.key("q", "")+"*").Val()) == 0
	})
}

// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
func TestRun(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{})
		var got sync.Map
		stop := run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			if d.Attempt != 1 || d.Attempts != 10 || d.Queue != "q" {
				t.Errorf("%+v", d.Job)
			}
			_, twice := got.LoadOrStore(d.Value, true)
			if twice {
				t.Errorf("%s came twice", d.Value)
			}
			return nil
		}, queue.RunOptions{})
		requests := make([]queue.Request[string], 500)
		for i := range requests {
			requests[i] = queue.Request[string]{Value: fmt.Sprint(i), Delay: time.Duration(i%2) * 50 * time.Millisecond}
		}
		_, err := q.PutMany(t.Context(), "q", requests)
		must(t, err)
		for i := range 100 {
			_, err := q.Put(t.Context(), "q", fmt.Sprint("one", i))
			must(t, err)
		}
		e.gone(t)
		n := 0
		got.Range(func(any, any) bool { n++; return true })
		if n != 600 {
			t.Errorf("%d were handled", n)
		}
		must(t, stop())
	})
}

// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
func TestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var log events
		q := e.queue(t, queue.Options{Backoff: queue.Constant(time.Millisecond), Attempts: 3, OnEvent: log.add})
		var calls sync.Map
		run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			v, _ := calls.LoadOrStore(d.ID, new(atomic.Int64))
			n := v.(*atomic.Int64).Add(1)
			switch d.ID {
			case "fails":
				return errors.New("no")
			case "panics":
				panic("oh")
			case "dies":
				return fmt.Errorf("wrapped: %w", queue.Dead(errors.New("hopeless")))
			case "later":
				if n == 1 {
					return fmt.Errorf("wrapped: %w", queue.After(10*time.Millisecond, errors.New("busy")))
				}
				if d.Attempt != 2 || d.LastReason == "" {
					t.Errorf("%+v", d.Job)
				}
			case "snoozes":
				if n < 6 {
					return queue.Snooze(time.Millisecond)
				}
				if d.Attempt != 1 {
					t.Errorf("%+v", d.Job)
				}
			}
			return nil
		}, queue.RunOptions{})
		for _, id := range []string{"fails", "panics", "dies", "later", "snoozes", "fine"} {
			_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: id, Value: id})
			must(t, err)
		}
		var dead []queue.MessageInfo
		eventually(t, "all are done or dead", func() bool {
			s, err := q.Info(t.Context(), "q")
			must(t, err)
			return s.Dead == 3 && s.Ready+s.Due+s.Running == 0
		})
		for l, err := range q.Messages(t.Context(), "q", queue.StateDead) {
			must(t, err)
			dead = append(dead, l)
		}
		reasons := map[string]string{}
		for _, l := range dead {
			reasons[l.ID] = fmt.Sprint(l.Failures, " ", l.LastReason)
		}
		want := map[string]string{"fails": "3 no", "panics": "3 panic: oh", "dies": "1 wrapped: dead: hopeless"}
		if fmt.Sprint(reasons) != fmt.Sprint(want) {
			t.Errorf("dead: %v, want %v", reasons, want)
		}
		for id, want := range map[string][]queue.EventKind{
			"fails": {queue.Retried, queue.Retried, queue.Died}, "later": {queue.Retried, queue.Completed}, "fine": {queue.Completed},
			"snoozes": {queue.Snoozed, queue.Snoozed, queue.Snoozed, queue.Snoozed, queue.Snoozed, queue.Completed}, "dies": {queue.Died},
		} {
			if got := log.of(id); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", id, got, want)
			}
		}
		if n, err := q.RequeueAll(t.Context(), "q"); n != 3 || err != nil {
			t.Errorf("requeued %d, %v", n, err)
		}
		eventually(t, "they die again", func() bool {
			s, err := q.Info(t.Context(), "q")
			must(t, err)
			return s.Dead == 3
		})
		if n, err := q.RemoveAllDead(t.Context(), "q"); n != 3 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		e.gone(t)
	})
}

// While a handler runs its lease is extended, and when the message is cancelled its
// context ends.
//
// Promise: A handler keeps its place until it returns, and its context ends when it loses its
// message.
func TestLeaseIsExtendedAndLost(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var log events
		q := e.queue(t, queue.Options{Lease: 2 * time.Second, OnEvent: log.add})
		started, cause := make(chan string, 10), make(chan error, 10)
		stop := run(t, q, func(ctx context.Context, d *queue.Delivery[string]) error {
			started <- d.ID
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		}, queue.RunOptions{Grace: queue.NoGrace})
		id, err := q.Put(t.Context(), "q", "x")
		must(t, err)
		<-started
		select {
		case err := <-cause:
			t.Fatalf("ended by %v", err)
		case <-started:
			t.Fatal("given out twice")
		case <-time.After(3 * time.Second): // longer than the lease
		}
		was, err := q.Cancel(t.Context(), "q", id)
		must(t, err)
		if was != queue.StateRunning {
			t.Fatalf("it was %v", was)
		}
		if err := <-cause; !errors.Is(err, queue.ErrLeaseLost) {
			t.Fatalf("ended by %v", err)
		}
		e.gone(t)
		eventually(t, "its loss is told, and nothing else", func() bool { return slices.Equal(log.of(id), []queue.EventKind{queue.Lost}) })

		// A consumer that stops hands back what its handlers don't finish.
		_, err = q.Put(t.Context(), "q", "y")
		must(t, err)
		<-started
		must(t, stop())
		if err := <-cause; !errors.Is(err, queue.ErrShutdown) {
			t.Fatalf("ended by %v", err)
		}
	})
}

// Promise: A handler keeps its place until it returns, and its context ends when it loses its
// message.
//
// Promise: A consumer that stops hands back its unfinished messages, counts no failure, and keeps
// to its grace period.
func TestShutdown(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{})
		started, finish := make(chan string, 10), make(chan error)
		stop := run(t, q, func(ctx context.Context, d *queue.Delivery[string]) error {
			started <- d.ID
			select {
			case err := <-finish:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, queue.RunOptions{Concurrency: 2})
		_, err := q.PutMany(t.Context(), "q", []queue.Request[string]{{ID: "a"}, {ID: "b"}, {ID: "c"}})
		must(t, err)
		<-started
		<-started
		go func() { finish <- nil; finish <- nil }()
		must(t, stop()) // within its grace
		s, err := q.Info(t.Context(), "q")
		must(t, err)
		if s.Ready != 1 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
		stop = run(t, q, func(ctx context.Context, d *queue.Delivery[string]) error {
			started <- d.ID
			<-ctx.Done()
			return ctx.Err()
		}, queue.RunOptions{Grace: queue.NoGrace})
		<-started
		must(t, stop())
		l, err := q.MessageInfo(t.Context(), "q", "c")
		must(t, err)
		if l.State != queue.StateReady || l.Failures != 0 {
			t.Errorf("%+v", l)
		}
	})
}

func TestRunBatch(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{Backoff: queue.Constant(0)})
		requests := make([]queue.Request[string], 95)
		for i := range requests {
			requests[i].Value, requests[i].ID = fmt.Sprint(i), fmt.Sprint(i)
		}
		_, err := q.PutMany(t.Context(), "q", requests)
		must(t, err)
		must(t, e.Redis.HSet(t.Context(), e.key("q", ""), "7", "\x02\x00\x01not JSON").Err())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		var mu sync.Mutex
		var sizes []int
		go func() {
			ended <- q.RunBatch(ctx, "q", func(_ context.Context, batch []*queue.Delivery[string]) []error {
				mu.Lock()
				defer mu.Unlock()
				sizes = append(sizes, len(batch))
				errs := make([]error, len(batch))
				for i, d := range batch {
					if d.Value == "3" && d.Attempt == 1 {
						errs[i] = errors.New("not now")
					}
				}
				return errs
			}, queue.BatchOptions{Size: 40})
		}()
		eventually(t, "all but one are done", func() bool {
			s, err := q.Info(t.Context(), "q")
			must(t, err)
			return s.Dead == 1 && s.Ready+s.Due+s.Running == 0
		})
		cancel()
		must(t, <-ended)
		if sizes[0] != 39 || len(sizes) < 3 || len(sizes) > 6 {
			t.Errorf("batches of %v", sizes)
		}
	})
}
