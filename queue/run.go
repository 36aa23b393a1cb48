package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// DefaultConcurrency is how many messages a consumer works on at once unless
	// its options say otherwise.
	DefaultConcurrency = 10
	// DefaultGrace is how long handlers may go on after a consumer was stopped.
	DefaultGrace = 30 * time.Second
	// NoGrace is a grace period of no length.
	NoGrace time.Duration = -1
)

// RunOptions configure one consumer. The zero value is ready to use.
type RunOptions struct {
	// Concurrency is how many messages are at work at once. At most 1000. Defaults
	// to 10.
	Concurrency int
	// Grace is how long handlers may go on after ctx has ended; then their contexts
	// end, and what they don't finish is handed back. Defaults to 30 s; [NoGrace]
	// is none.
	Grace time.Duration
	// Timeout ends a handler's context. Its place is free when the handler returns.
	// Defaults to 0: none.
	Timeout time.Duration
	// Middleware runs around each call of the handler, the first outermost.
	Middleware []Middleware
}

// BatchOptions configure one consumer of batches. The zero value is ready to use.
// There is no [Middleware], which is about one message: what is to run around a batch
// is a [BatchHandler] that calls another.
type BatchOptions struct {
	// Size is how many messages a handler gets at most. It gets those that are
	// there: nobody waits until a batch is full. At most 1000. Defaults to 100.
	Size int
	// Concurrency is how many batches are at work at once. Defaults to 1. Size times
	// Concurrency is at most 1000.
	Concurrency int
	// Grace and Timeout are as in [RunOptions].
	Grace, Timeout time.Duration
}

// Run works on the queue called name until ctx ends: it takes messages as they
// become due and calls h for each, up to Concurrency at once, each on a goroutine of
// its own. Then it takes no more, waits for the handlers, at first for the grace
// period and then with their contexts ended, and returns nil when all have returned
// and all is settled.
//
// Leases are extended while handlers run. A server that can't be reached is tried
// again and again; what happens meanwhile is told to [Options.Events]. The error is
// about the arguments, or what the server refuses at the first call, or it matches
// redoubt.ErrClosed; or what was done last could not be settled until 10 s after the
// grace period, and will be done again.
//
// It costs a connection that waits, one round trip for all that is finished and
// taken at a time, and about one call in five seconds while there is nothing to do.
func (q *Queue[T]) Run(ctx context.Context, name string, h Handler[T], opts RunOptions) error {
	if opts.Concurrency == 0 {
		opts.Concurrency = DefaultConcurrency
	}
	if opts.Concurrency < 1 || opts.Concurrency > MaxSettle {
		return fmt.Errorf("queue: concurrency is %d; want 1 to %d", opts.Concurrency, MaxSettle)
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

// RunBatch works on a queue as [Queue.Run] does, with a handler that gets several
// messages at once.
func (q *Queue[T]) RunBatch(ctx context.Context, name string, h BatchHandler[T], opts BatchOptions) error {
	if opts.Size == 0 {
		opts.Size = 100
	}
	if opts.Concurrency == 0 {
		opts.Concurrency = 1
	}
	if opts.Size < 1 || opts.Concurrency < 1 || opts.Size > MaxSettle || opts.Size*opts.Concurrency > MaxSettle {
		return fmt.Errorf("queue: %d batches of %d; want 1 to %d messages at once", opts.Concurrency, opts.Size, MaxSettle)
	}
	c, err := newConsumer(q.client, &q.opts, name, opts.Grace, opts.Timeout)
	if err != nil {
		return err
	}
	c.free, c.batch = opts.Concurrency, opts.Size
	c.work = func(ctx context.Context, jobs []*Job) []error { return q.handleBatch(ctx, h, jobs) }
	return c.run(ctx)
}

// CheckEviction returns an error that matches [ErrEviction] when the server that
// keeps the queue called name may evict keys. [Queue.Run] reports it by
// [Options.Events] when it starts.
func CheckEviction(ctx context.Context, client *redoubt.Client, name string) error {
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		return err
	}
	info, err := client.Do(ctx, redoubt.Cmd{Name: "INFO", Args: []string{"memory"}, At: keys.Wake(), Flags: redoubt.ReadOnly}).Text()
	if err != nil {
		if _, refused := errors.AsType[redoubt.ServerError](err); refused {
			return nil // it doesn't tell
		}
		return err
	}
	for line := range strings.Lines(info) {
		policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if found && policy != "noeviction" {
			return fmt.Errorf("%w: its maxmemory-policy is %s; want noeviction", ErrEviction, policy)
		}
	}
	return nil
}

// checkEviction reports a server that may evict keys. It asks until it has an answer.
func (c *consumer) checkEviction(ctx context.Context) {
	for p := (pauses{}); ctx.Err() == nil; p.sleep(ctx.Done()) {
		call, cancel := context.WithTimeout(ctx, pumpTimeout)
		err := CheckEviction(call, c.client, c.name)
		cancel()
		if errors.Is(err, ErrEviction) {
			c.trouble(ctx, err)
		}
		if err == nil || errors.Is(err, ErrEviction) {
			return
		}
	}
}
