package conn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// GiveUpAfter bounds the resending of what the server did not run when the context has no deadline. It
	// covers a usual Sentinel failover.
	GiveUpAfter = 10 * time.Second

	minPause = 2 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// errGaveUp ends the resending for a context without a deadline.
var errGaveUp = errors.New("conn: gave up")

// Pauses are the growing, jittered waits between attempts. The zero value is ready to use.
type Pauses struct {
	Due     bool // a pause must come before the next attempt
	Endless bool // there is always another attempt, until the context ends

	n     int
	until time.Time // when to give up
}

// Wait waits for the next attempt. It returns the reason when there is none.
func (p *Pauses) Wait(ctx context.Context) error {
	now := time.Now()
	deadline, bounded := ctx.Deadline()
	if p.until.IsZero() {
		p.until = now.Add(GiveUpAfter)
	}
	d := min(minPause<<p.n, maxPause)
	d = d/2 + rand.N(d/2) //nolint:gosec // jitter
	if d < maxPause/2 {
		p.n++
	}
	var reason error
	switch {
	case bounded && !now.Add(d).Before(deadline):
		d, reason = max(deadline.Sub(now), 0), context.DeadlineExceeded
	case !bounded && !p.Endless && now.After(p.until):
		return errGaveUp
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return reason
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopped is the error of a command whose attempts ended with err, from the context or from [Pauses.Wait], after
// cause.
func Stopped(err, cause error) error {
	switch {
	case errors.Is(err, errGaveUp):
		return cause
	case cause == nil, errors.Is(cause, err):
		return err
	}
	return fmt.Errorf("%w; last: %w", err, cause)
}

// Ended is ctx.Err(), and also notices a deadline that has passed although the context's timer is late or,
// as in a context that only names a deadline, will never fire.
func Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}
