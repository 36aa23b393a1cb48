package queue

import (
	"context"
	"sync"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

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
			job := newJob(c.name, got.Now, &got.Taken[0])
			handler, end := c.hold(handlers, []*Job{job}, p.proven)
			c.call(handler, end, []*Job{job})
			n++
		}
	}
}
