package queue

import (
	"context"
	"sync"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// Work handles what is due now in the queue called name, one message after the
// other, and returns how many it handled once nothing more is ready. It is
// [Queue.Run] for a job that runs from time to time, a function that is billed by
// time, and a test. Of opts the Concurrency and Grace are not used: when ctx ends,
// the handler's ends, and its message is handed back unless it is done.
//
// Two round trips for the first message and one for each further one. An error of
// the server ends it.
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
		case len(got.Unreadable) > 0: // they are to be buried
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
