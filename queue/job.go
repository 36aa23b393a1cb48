package queue

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A Job is a running message, without its decoded value.
type Job struct {
	// Queue is the queue's name.
	Queue string
	// ID is the message's ID.
	ID string
	// Attempt is 1 plus the number of failures.
	Attempt int
	// Attempts is how often it may fail, or [Unlimited].
	Attempts int
	// LastReason is the reason of the last failure.
	LastReason string
	// Lane, Group, Headers and After are as they were put.
	Lane    Lane
	Group   string
	Headers map[string]string
	After   []string
	// Payload is the value before it is decoded.
	Payload []byte
	// Waited is the time from when it became ready until it was taken, by the server's
	// clock; 0 if that is unknown.
	Waited time.Duration

	consumer *consumer
	receipt  string
	result   []byte
}

// SetResult sets the result that is kept for [Options.Keep] when the message is done.
func (j *Job) SetResult(result []byte) { j.result = result }

// MaxProgress is how many bytes [Job.SetProgress] takes at most.
const MaxProgress = wire.MaxProgress

// SetProgress notes how far the work has come, in any form: [Queue.MessageInfo] shows the last note while the
// message is running, for an hour at most. The error matches [ErrLeaseLost] when the handler has lost
// the message. It may be called from any goroutine, and costs one round trip.
func (j *Job) SetProgress(ctx context.Context, note []byte) error {
	if len(note) > MaxProgress {
		return fmt.Errorf("queue: progress has %d bytes; want at most %d", len(note), MaxProgress)
	}
	if j.consumer == nil { // a test of a handler made the Job
		return ErrLeaseLost
	}
	held, err := wire.ReadFlags(j.consumer.client.Do(ctx, wire.ProgressCmd(j.consumer.keys, j.receipt, string(note))))
	if err == nil && !slices.Contains(held, true) {
		err = ErrLeaseLost
	}
	return err
}

func (c *consumer) newJob(now time.Time, t *wire.Taken) *Job {
	j := &Job{
		consumer: c, Queue: c.name, ID: t.ID, Attempt: t.Failures + 1, Attempts: t.Attempts, LastReason: t.LastReason,
		Lane: t.Lane, Group: t.Group, Headers: t.Headers, After: t.After, Payload: t.Payload, receipt: t.Receipt,
	}
	if !t.Since.IsZero() {
		j.Waited = max(now.Sub(t.Since), 0)
	}
	return j
}

// A Delivery is a running message with its decoded value.
type Delivery[T any] struct {
	*Job
	Value T
}

// A Handler works on one message. Its result decides what happens to the message: nil
// if it is done, an error if it failed, or one of [After], [Dead] and [Snooze]. The cause
// of ctx's end matches [ErrLeaseLost] when the handler has lost the message, and
// [ErrShutdown] when the consumer stops and its grace period is over.
type Handler[T any] func(ctx context.Context, d *Delivery[T]) error

// A BatchHandler works on several messages at once. It returns one result for each, in
// their order, with the meaning that a [Handler]'s has, or nil if all are done. ctx ends
// when the lease of any message is lost; the other messages are
// handed back unless they are done, and no failure is counted.
type BatchHandler[T any] func(ctx context.Context, batch []*Delivery[T]) []error

// A Middleware runs around each call of a handler. It calls next and returns its error,
// or another.
type Middleware func(ctx context.Context, job *Job, next func(ctx context.Context) error) error

// caught calls f and returns a panic as an error.
func caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// handle calls h for one message, inside the middleware.
func (q *Queue[T]) handle(ctx context.Context, h Handler[T], middleware []Middleware, job *Job) error {
	return caught(func() error {
		next := func(ctx context.Context) error {
			d := &Delivery[T]{Job: job}
			if err := q.decode(job, &d.Value); err != nil {
				return err
			}
			return h(ctx, d)
		}
		for _, m := range slices.Backward(middleware) {
			inner := next
			next = func(ctx context.Context) error { return m(ctx, job, inner) }
		}
		return next(ctx)
	})
}

func (q *Queue[T]) decode(job *Job, v *T) error {
	if err := q.opts.Codec.Decode(job.Payload, v); err != nil {
		return fmt.Errorf("queue: decode message %s: %w", job.ID, err)
	}
	return nil
}

// handleBatch calls h for several messages and returns a result for each. A message that
// can't be decoded fails alone.
func (q *Queue[T]) handleBatch(ctx context.Context, h BatchHandler[T], jobs []*Job) []error {
	errs := make([]error, len(jobs))
	batch, at := make([]*Delivery[T], 0, len(jobs)), make([]int, 0, len(jobs))
	for i, job := range jobs {
		d := &Delivery[T]{Job: job}
		if errs[i] = caught(func() error { return q.decode(job, &d.Value) }); errs[i] == nil {
			batch, at = append(batch, d), append(at, i)
		}
	}
	if len(batch) == 0 {
		return errs
	}
	var returned []error
	err := caught(func() error {
		returned = h(ctx, batch)
		if len(returned) != 0 && len(returned) != len(batch) {
			return fmt.Errorf("queue: the handler returned %d errors for %d messages", len(returned), len(batch))
		}
		return nil
	})
	for i, j := range at {
		if errs[j] = err; err == nil && len(returned) > 0 {
			errs[j] = returned[i]
		}
	}
	return errs
}
