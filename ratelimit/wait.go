package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
)

// cancelTimeout bounds the time to give a place or tokens back in the background.
const cancelTimeout = 3 * time.Second

// Wait takes one token of the limit called name and blocks until it is there. See
// [Limiter.WaitN].
func (l *Limiter) Wait(ctx context.Context, name string) error { return l.WaitN(ctx, name, 1) }

// WaitN takes n tokens of the limit called name, at least 1, and blocks until they are
// there: never less, by the server's clock. All waiters, in whatever process, are served
// in the order in which they reached the server. One round trip reserves the tokens; a
// timer of this process does the waiting.
//
// When ctx has a deadline and the tokens come later, WaitN returns at once with an error
// that matches [ErrTooLate], and takes nothing. For more tokens than Burst the error
// matches [ErrExceedsBurst]. When ctx ends during the wait, also before the server's reply
// has come, WaitN returns the error of ctx and gives its place back in the background, as
// [Reservation.Cancel] does.
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
	timer, began := time.NewTimer(delay), time.Now()
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		l.client.Go(func() { r.giveBack(ctx) })
		err = ctx.Err()
	}
	l.client.Report(ctx, redoubt.Event{Kind: redoubt.EventWaited, Primitive: "ratelimit", Name: name, Took: time.Since(began), Err: err})
	return err
}

// place reserves tokens for a waiter. When ctx ends before the reply has come, the call
// goes on in the background, because only the reply says what to give back.
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

// giveBack cancels the reservation of a waiter that has left.
func (r *Reservation) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cancelTimeout)
	defer cancel()
	_ = r.Cancel(ctx) // or else the place stays empty
}
