package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
)

// cancelTimeout bounds what a wait that was given up does to give its place
// back.
const cancelTimeout = 3 * time.Second

// Wait takes one token of the limit called name and returns when it is there.
// See [Limiter.WaitN].
func (l *Limiter) Wait(ctx context.Context, name string) error { return l.WaitN(ctx, name, 1) }

// WaitN takes n tokens of the limit called name, at least 1, and returns nil
// when they are there: never earlier, by the server's clock. All who wait, in
// whatever process, are served in the order in which they reached the server: each
// has a place of its own in the limit from its one round trip on, and waits for
// it by a timer of this process.
//
// When ctx has a deadline and the tokens come later, WaitN returns at once with
// an error that matches [ErrTooLate], and has taken nothing. For more tokens
// than Burst it is [ErrExceedsBurst]. When ctx ends during the wait, be it before
// the server's reply has come, WaitN returns its error and gives its place back as
// [Reservation.Cancel] does, in the background.
func (l *Limiter) WaitN(ctx context.Context, name string, n int) error {
	within := l.maxWait
	if deadline, ok := ctx.Deadline(); ok {
		// At least a nanosecond: 0 is no bound.
		if left := max(time.Until(deadline), 1); within == 0 || left < within {
			within = left
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := l.place(ctx, name, n, within)
	switch {
	case err != nil:
		return err
	case r.RetryAfter == Never:
		return fmt.Errorf("%w: %d of %d", ErrExceedsBurst, n, r.Limit.Burst)
	case !r.Allowed:
		return fmt.Errorf("%w: in %v", ErrTooLate, r.RetryAfter)
	}
	delay := r.Delay()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		l.client.Go(func() { r.giveBack(ctx) })
		return ctx.Err()
	}
}

// place reserves for one who waits. When ctx ends before the reply has come,
// only the reply tells what there is to give back, so that the call goes on in
// the background.
func (l *Limiter) place(ctx context.Context, name string, n int, within time.Duration) (*Reservation, error) {
	if ctx.Done() == nil {
		return l.reserve(ctx, name, n, within)
	}
	asked, stop := context.WithCancel(context.WithoutCancel(ctx))
	var r *Reservation
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = l.reserve(asked, name, n, within)
	}()
	select {
	case <-done:
		stop()
		return r, err
	case <-ctx.Done():
		l.client.Go(func() {
			late := time.AfterFunc(cancelTimeout, stop)
			<-done
			late.Stop()
			stop()
			if err == nil {
				r.giveBack(ctx)
			}
		})
		return nil, ctx.Err()
	}
}

// giveBack cancels for one who has left.
func (r *Reservation) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cancelTimeout)
	defer cancel()
	_ = r.Cancel(ctx) // or else the place stays empty
}
