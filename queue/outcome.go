package queue

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A handler says by what it returns how a message goes on:
//
//	nil              it is done
//	any error        it failed: again after the Backoff, or dead at the last attempt
//	After(d, err)    it failed: again after d, or dead at the last attempt
//	Dead(err)        it is dead, whatever attempts are left
//	Snooze(d)        nothing was wrong: again after d, and no attempt is counted
//
// These errors may be wrapped. A panic is an error: see [PanicError].

// An AfterError is what [After] returns.
type AfterError struct {
	Delay time.Duration
	Err   error
}

func (e *AfterError) Error() string { return fmt.Sprintf("again after %v: %v", e.Delay, e.Err) }
func (e *AfterError) Unwrap() error { return e.Err }

// After returns an error that makes a message come back after d.
func After(d time.Duration, err error) error { return &AfterError{max(d, 0), err} }

// A DeadError is what [Dead] returns.
type DeadError struct{ Err error }

func (e *DeadError) Error() string { return fmt.Sprintf("dead: %v", e.Err) }
func (e *DeadError) Unwrap() error { return e.Err }

// Dead returns an error that makes a message dead at once.
func Dead(err error) error { return &DeadError{err} }

// A SnoozeError is what [Snooze] returns.
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snooze for %v", e.Delay) }

// Snooze returns an error that makes a message come back after d as if nothing had
// been.
func Snooze(d time.Duration) error { return &SnoozeError{max(d, 0)} }

// A PanicError is what a handler's panic becomes.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is where.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// maxReason is how much of an error's text is kept with a failed message.
const maxReason = 1000

// safeOutcome is outcome, whatever the methods of err and backoff do, which are the
// user's: a nil in an error of a pointer type panics. It returns the error that counts.
func safeOutcome(job *Job, err error, back bool, backoff Backoff) (f wire.Failed, kind EventKind, counts error) {
	counts = err
	panicked := caught(func() error {
		f, kind = outcome(job, err, back, backoff)
		return nil
	})
	if panicked != nil {
		counts = panicked
		f, kind = outcome(job, panicked, back, Exponential(time.Second, 10*time.Minute))
	}
	return f, kind, counts
}

// outcome is what is to become of job, whose handler returned err. back: it is not
// the message's fault.
func outcome(job *Job, err error, back bool, backoff Backoff) (f wire.Failed, kind EventKind) {
	f.Receipt = job.receipt
	var after *AfterError
	var dead *DeadError
	var snooze *SnoozeError
	switch {
	case back:
		f.How = wire.Back
		return f, HandedBack
	case errors.As(err, &snooze):
		f.How, f.Delay = wire.Defer, snooze.Delay
		return f, Snoozed
	case errors.As(err, &dead):
		f.How = wire.Bury
	case errors.As(err, &after):
		f.How, f.Delay = wire.Fail, after.Delay
	default:
		f.How, f.Delay = wire.Fail, min(max(backoff(job.Attempt), 0), MaxTime)
	}
	f.Delay = min(f.Delay, MaxTime)
	f.Reason = err.Error()
	f.Reason = f.Reason[:min(len(f.Reason), maxReason)]
	if f.How == wire.Bury || job.Attempts != Unlimited && job.Attempt >= job.Attempts {
		f.Delay = 0
		return f, Died
	}
	return f, Retried
}

// A Backoff is the time from the n-th failure of a message to its next attempt. It
// may be called by many goroutines at once.
type Backoff func(n int) time.Duration

// Exponential waits for first after the first failure and twice as long after each
// further one, at most for most; and up to a fifth less at random, so that what
// failed together does not come back together.
func Exponential(first, most time.Duration) Backoff {
	return func(n int) time.Duration {
		d := most
		if f := float64(first) * math.Pow(2, float64(n-1)); f < float64(most) {
			d = time.Duration(f)
		}
		return d - time.Duration(rand.Float64()/5*float64(d)) //nolint:gosec // no secret
	}
}

// Constant always waits for d.
func Constant(d time.Duration) Backoff { return func(int) time.Duration { return d } }

// Steps waits for each time in turn, and for the last one from then on.
func Steps(first time.Duration, others ...time.Duration) Backoff {
	steps := append([]time.Duration{first}, others...)
	return func(n int) time.Duration { return steps[min(max(n, 1), len(steps))-1] }
}
