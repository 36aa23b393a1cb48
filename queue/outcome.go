package queue

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A handler's result decides what happens to its message:
//
//	nil              it is done
//	any error        it failed: due again after the Backoff, dead after the last attempt
//	After(d, err)    it failed: due again after d, dead after the last attempt
//	Dead(err)        it is dead, whatever attempts are left
//	Snooze(d)        it is due again after d, and no failure is counted
//
// These errors may be wrapped. A panic counts as an error: see [PanicError].

// An AfterError is the type of the errors of [After].
type AfterError struct {
	Delay time.Duration
	Err   error
}

func (e *AfterError) Error() string { return fmt.Sprintf("again after %v: %v", e.Delay, e.Err) }
func (e *AfterError) Unwrap() error { return e.Err }

// After returns an error for a handler: the message failed with err and is due again
// after d.
func After(d time.Duration, err error) error { return &AfterError{max(d, 0), err} }

// A DeadError is the type of the errors of [Dead].
type DeadError struct{ Err error }

func (e *DeadError) Error() string { return fmt.Sprintf("dead: %v", e.Err) }
func (e *DeadError) Unwrap() error { return e.Err }

// Dead returns an error for a handler: the message failed with err and is dead, whatever
// attempts are left.
func Dead(err error) error { return &DeadError{err} }

// A SnoozeError is the type of the errors of [Snooze].
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snooze for %v", e.Delay) }

// Snooze returns an error for a handler: the message is due again after d, and no failure
// is counted.
func Snooze(d time.Duration) error { return &SnoozeError{max(d, 0)} }

// A PanicError is the error of a message whose handler panicked.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the panic.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// maxReason is how many bytes of an error's text are kept with a failed message.
const maxReason = 1000

// safeOutcome is outcome, and survives a panic in the user's err or backoff: the methods
// of a nil error of a pointer type may panic. It returns the error that decided.
func safeOutcome(job *Job, err error, back bool, backoff Backoff) (f wire.Nack, kind EventKind, decided error) {
	decided = err
	panicked := caught(func() error {
		f, kind = outcome(job, err, back, backoff)
		return nil
	})
	if panicked != nil {
		decided = panicked
		f, kind = outcome(job, panicked, back, Exponential(time.Second, 10*time.Minute))
	}
	return f, kind, decided
}

// outcome decides what happens to job after its handler returned err. back: hand it
// back, because the failure is not the message's.
func outcome(job *Job, err error, back bool, backoff Backoff) (f wire.Nack, kind EventKind) {
	f.Receipt = job.receipt
	var after *AfterError
	var dead *DeadError
	var snooze *SnoozeError
	switch {
	case back:
		f.Kind = wire.HandBack
		return f, HandedBack
	case errors.As(err, &snooze):
		f.Kind, f.Delay = wire.Snooze, snooze.Delay
		return f, Snoozed
	case errors.As(err, &dead):
		f.Kind = wire.Kill
	case errors.As(err, &after):
		f.Kind, f.Delay = wire.Retry, after.Delay
	default:
		f.Kind, f.Delay = wire.Retry, min(max(backoff(job.Attempt), 0), MaxTime)
	}
	f.Delay = min(f.Delay, MaxTime)
	f.Reason = err.Error()
	f.Reason = f.Reason[:min(len(f.Reason), maxReason)]
	if f.Kind == wire.Kill || job.Attempts != Unlimited && job.Attempt >= job.Attempts {
		f.Delay = 0
		return f, Died
	}
	return f, Retried
}

// A Backoff returns the time from the n-th failure of a message to its next attempt. It
// may be called by many goroutines at once.
type Backoff func(n int) time.Duration

// Exponential returns a Backoff of first after the first failure, twice as long after
// each further one, and at most most. It subtracts up to a fifth at random, so that
// messages that failed together are not due together.
func Exponential(first, most time.Duration) Backoff {
	return func(n int) time.Duration {
		d := most
		if f := float64(first) * math.Pow(2, float64(n-1)); f < float64(most) {
			d = time.Duration(f)
		}
		return d - time.Duration(rand.Float64()/5*float64(d)) //nolint:gosec // no secret
	}
}

// Constant returns a Backoff of d after every failure.
func Constant(d time.Duration) Backoff { return func(int) time.Duration { return d } }

// Steps returns a Backoff of each time in turn, and of the last one from then on.
func Steps(first time.Duration, others ...time.Duration) Backoff {
	steps := append([]time.Duration{first}, others...)
	return func(n int) time.Duration { return steps[min(max(n, 1), len(steps))-1] }
}
