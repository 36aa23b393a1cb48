package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// DefaultConcurrency is the default of [RunOptions.Concurrency].
	DefaultConcurrency = 10
	// DefaultGrace is the default of [RunOptions.Grace].
	DefaultGrace = 30 * time.Second
	// NoGrace is a grace period of zero length.
	NoGrace time.Duration = -1
)

// RunOptions configure one consumer. The zero value is ready to use.
type RunOptions struct {
	// Concurrency is how many messages run at once. At most [MaxConcurrency]. Defaults
	// to 10.
	Concurrency int
	// Grace is how long handlers may go on after ctx has ended. Then their contexts end,
	// and messages that they do not finish are handed back. Defaults to 30 s; [NoGrace]
	// is none.
	Grace time.Duration
	// Timeout ends a handler's context. The handler keeps its place until it returns.
	// Defaults to 0: none.
	Timeout time.Duration
	// Middleware runs around each call of the handler, the first outermost.
	Middleware []Middleware
}

// BatchOptions configure one consumer of batches. The zero value is ready to use.
// It has no [Middleware], which wraps one message. To wrap a batch, write a
// [BatchHandler] that calls another.
type BatchOptions struct {
	// Size is how many messages a handler gets at most. The consumer does not wait
	// until a batch is full. At most [MaxConcurrency]. Defaults to 100.
	Size int
	// Concurrency is how many batches run at once. Defaults to 1. Size times
	// Concurrency is at most [MaxConcurrency].
	Concurrency int
	// Grace and Timeout are as in [RunOptions].
	Grace, Timeout time.Duration
}

// Run works on the queue called name until ctx ends. It takes messages as they become
// due and calls h for each on its own goroutine, up to Concurrency at once. When ctx
// ends, Run takes no more messages. It waits for the handlers during the grace period,
// then ends their contexts and waits until all have returned. It returns nil when every
// message is settled.
//
// Run extends leases while handlers run. It retries a server that it can't reach, and
// reports events and errors of the server to [Options.OnEvent]. It returns an error for invalid
// arguments, when the server refuses the first call, and when the client is closed,
// which matches redoubt.ErrClosed. It also returns an error if it can't settle the last
// messages within 10 s after the grace period; those will be handled again.
//
// It uses one connection that blocks, one round trip for all messages that finish and
// are taken at a time, and about one call in five seconds while the queue is empty.
func (q *Queue[T]) Run(ctx context.Context, name string, h Handler[T], opts RunOptions) error {
	if opts.Concurrency == 0 {
		opts.Concurrency = DefaultConcurrency
	}
	if opts.Concurrency < 1 || opts.Concurrency > MaxConcurrency {
		return fmt.Errorf("queue: concurrency is %d; want 1 to %d", opts.Concurrency, MaxConcurrency)
	}
	c, err := newConsumer(q.client, &q.opts, name, opts.Grace, opts.Timeout)
	if err != nil {
		return err
	}
	c.free, c.batch = opts.Concurrency, 1
	c.work = func(ctx context.Context, jobs []*Job) []error {
		return []error{q.handle(ctx, h, opts.Middleware, jobs[0])}
	}
	return c.run(ctx)
}

// RunBatch is [Queue.Run] with a handler that gets several messages at once.
func (q *Queue[T]) RunBatch(ctx context.Context, name string, h BatchHandler[T], opts BatchOptions) error {
	if opts.Size == 0 {
		opts.Size = 100
	}
	if opts.Concurrency == 0 {
		opts.Concurrency = 1
	}
	if opts.Size < 1 || opts.Concurrency < 1 || opts.Size > MaxConcurrency || opts.Size*opts.Concurrency > MaxConcurrency {
		return fmt.Errorf("queue: %d batches of %d; want 1 to %d messages at once", opts.Concurrency, opts.Size, MaxConcurrency)
	}
	c, err := newConsumer(q.client, &q.opts, name, opts.Grace, opts.Timeout)
	if err != nil {
		return err
	}
	c.free, c.batch = opts.Concurrency, opts.Size
	c.work = func(ctx context.Context, jobs []*Job) []error { return q.handleBatch(ctx, h, jobs) }
	return c.run(ctx)
}

// Work handles the messages of the queue called name that are due now, one after the
// other, and returns how many it handled when none is ready. Use it in place of
// [Queue.Run] for periodic jobs, serverless functions and tests. It ignores the
// Concurrency and Grace of opts: when ctx ends, the handler's context ends too, and its
// message is handed back unless it is done. It returns at the first error of the server.
//
// It costs two round trips for the first message and one for each further one.
func (q *Queue[T]) Work(ctx context.Context, name string, h Handler[T], opts RunOptions) (n int, err error) {
	c, err := newConsumer(q.client, &q.opts, name, 0, opts.Timeout)
	if err != nil {
		return 0, err
	}
	c.work = func(ctx context.Context, jobs []*Job) []error {
		return []error{q.handle(ctx, h, opts.Middleware, jobs[0])}
	}
	c.free, c.batch = 1, 1
	helpers, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helping sync.WaitGroup
	defer helping.Wait()
	defer stop()
	helping.Go(func() { c.keep(helpers) })
	handlers, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() { end(ErrShutdown) })()

	for takes := uint64(1); ; takes++ {
		p := c.collect(ctx.Err() != nil)
		p.Take = c.take(takes)
		got, err := c.exchange(ctx, p)
		switch {
		case err != nil:
			return n, err
		case p.N == wire.Leave:
			return n, ctx.Err()
		case ctx.Err() != nil:
			c.handBack(got.Taken)
		case len(got.Unreadable) > 0: // the next pump makes them dead
		case len(got.Taken) == 0 && got.Next != 0:
			return n, nil
		case len(got.Taken) > 0:
			job := c.newJob(got.Now, &got.Taken[0])
			handler, end := c.hold(handlers, []*Job{job}, p.proven)
			c.call(handler, end, []*Job{job})
			n++
		}
	}
}
