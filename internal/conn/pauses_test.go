package conn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/conn"
)

// deadlineOnly is a context that names a deadline and never ends.
type deadlineOnly struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

func (c deadlineOnly) Deadline() (time.Time, bool) { return c.at, true }

var errCause = errors.New("the last attempt's")

// attempts waits between attempts until none is left. It returns the pauses and why they ended.
func attempts(ctx context.Context, p *conn.Pauses, most int) (took []time.Duration, err error) {
	for range most {
		start := time.Now()
		err = p.Wait(ctx)
		took = append(took, time.Since(start))
		if err != nil {
			break
		}
	}
	return took, err
}

func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := conn.Pauses{Endless: true}
		took, err := attempts(t.Context(), &p, 1000)
		if err != nil {
			t.Fatalf("ended after %d pauses: %v", len(took), err)
		}
		for i, d := range took {
			least, most := time.Millisecond<<min(i, 6), min(2*time.Millisecond<<min(i, 7), 250*time.Millisecond)
			if d < least || d >= most {
				t.Errorf("pause %d took %v, want one from %v to %v", i, d, least, most)
			}
		}
	})
}

func TestPausesGiveUpWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := attempts(t.Context(), new(conn.Pauses), 10000)
		if d := time.Since(start); err == nil || d <= conn.GiveUpAfter || d > conn.GiveUpAfter+250*time.Millisecond {
			t.Errorf("ended after %v with %v", d, err)
		}
		if got := conn.Stopped(err, errCause); got != errCause { //nolint:errorlint // it comes bare
			t.Errorf("the command's error is %v, want that of its last attempt", got)
		}
	})
}

func TestPausesEndAtTheDeadline(t *testing.T) {
	const length = 20 * time.Second // longer than without a deadline
	for name, bounded := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"timer": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, length)
		},
		"no timer": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return deadlineOnly{ctx, time.Now().Add(length)}, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := bounded(t.Context())
				defer cancel()
				if err := conn.Ended(ctx); err != nil {
					t.Errorf("at the start: %v", err)
				}
				_, err := attempts(ctx, new(conn.Pauses), 10000)
				if d := time.Since(start); d != length || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ended after %v with %v", d, err)
				}
				if err := conn.Ended(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("at the end: %v", err)
				}
				start = time.Now()
				if err := new(conn.Pauses).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
					t.Errorf("after the end it waited %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestPausesEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := new(conn.Pauses).Wait(ctx); !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("it waited %v: %v", time.Since(start), err)
		}
		if err := conn.Ended(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Ended: %v", err)
		}
	})
}

func TestStopped(t *testing.T) {
	both := conn.Stopped(context.Canceled, errCause)
	if !errors.Is(both, context.Canceled) || !errors.Is(both, errCause) || both.Error() != "context canceled; last: the last attempt's" {
		t.Errorf("got %v", both)
	}
	for _, cause := range []error{nil, context.Canceled} {
		if got := conn.Stopped(context.Canceled, cause); got != context.Canceled { //nolint:errorlint // it comes bare
			t.Errorf("after %v: got %v", cause, got)
		}
	}
}
