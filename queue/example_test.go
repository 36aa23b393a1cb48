package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/stock"
)

var connect = exampleserver.Connect

type Order struct {
	ID    string
	Units int64
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Put and work, in one process or in many.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	orders, err := queue.New[Order](connect(), queue.Options{})
	check(err)

	_, err = orders.Put(ctx, "orders", Order{ID: "o-1", Units: 2})
	check(err)

	err = orders.Run(ctx, "orders", func(_ context.Context, d *queue.Delivery[Order]) error {
		fmt.Printf("%s: %d units, attempt %d\n", d.Value.ID, d.Value.Units, d.Attempt)
		cancel() // a service would go on
		return nil
	}, queue.RunOptions{Concurrency: 8})
	check(err)
	// Output:
	// o-1: 2 units, attempt 1
}

// Units are reserved while the customer pays. A message that is due when the time is
// over cancels the order if it has not been paid: it survives every process that
// knew of the order.
func Example_unpaidOrder() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := connect()
	items, err := stock.New(client, stock.Options{})
	check(err)
	unpaid, err := queue.New[Order](client, queue.Options{})
	check(err)
	_, err = items.Set(ctx, "sku:42", 10)
	check(err)

	const timeToPay = 50 * time.Millisecond // a quarter of an hour, in a shop
	place := func(order Order) {
		_, short, err := items.ReserveRequest(ctx, "sku:42", stock.Request{ID: order.ID, N: order.Units})
		check(err)
		if short != nil {
			fmt.Println("sold out")
			return
		}
		_, err = unpaid.PutRequest(ctx, "unpaid", queue.Request[Order]{ID: order.ID, Value: order, Delay: timeToPay})
		check(err)
	}
	pay := func(order Order) {
		check(items.Commit(ctx, "sku:42", order.ID))
		_, err := unpaid.Cancel(ctx, "unpaid", order.ID) // not needed, but tidy
		check(err)
	}
	place(Order{"o-1", 2})
	place(Order{"o-2", 3})
	pay(Order{"o-1", 2})

	err = unpaid.Run(ctx, "unpaid", func(ctx context.Context, d *queue.Delivery[Order]) error {
		defer cancel() // enough for an example
		switch err := items.Cancel(ctx, "sku:42", d.Value.ID); {
		case errors.Is(err, stock.ErrCommitted):
			return nil // paid in the last moment
		case err != nil && !errors.Is(err, stock.ErrExpired):
			return err // again in a second
		}
		fmt.Println(d.Value.ID, "was not paid")
		return nil
	}, queue.RunOptions{})
	check(err)

	info, err := items.Info(context.Background(), "sku:42")
	check(err)
	fmt.Printf("available %d, sold %d\n", info.Available, info.Sold)
	// Output:
	// o-2 was not paid
	// available 8, sold 2
}

// A request that finds its lock busy does not wait: it is tried again later, which
// counts no attempt, for nothing is wrong.
func Example_busyLock() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := connect()
	locks, err := lock.New(client, lock.Options{})
	check(err)
	refunds, err := queue.New[Order](client, queue.Options{})
	check(err)

	// Somebody is at work on the order.
	lease, busy, err := locks.TryAcquire(ctx, "order:o-1")
	check(err)
	if busy != nil {
		panic("nobody else is here")
	}
	_, err = refunds.Put(ctx, "refunds", Order{ID: "o-1"})
	check(err)

	err = refunds.Run(ctx, "refunds", func(ctx context.Context, d *queue.Delivery[Order]) error {
		lease2, busy, err := locks.TryAcquire(ctx, "order:"+d.Value.ID)
		switch {
		case err != nil:
			return err
		case busy != nil:
			fmt.Println("busy: later")
			check(lease.Release(ctx)) // the other has finished
			return queue.Snooze(20 * time.Millisecond)
		}
		fmt.Printf("refunded at attempt %d\n", d.Attempt)
		cancel()
		return lease2.Release(context.WithoutCancel(ctx))
	}, queue.RunOptions{})
	check(err)
	// Output:
	// busy: later
	// refunded at attempt 1
}

// The result of a handler decides what happens to the message.
func Example_outcomes() {
	ctx := context.Background()
	q, err := queue.New[string](connect(), queue.Options{Attempts: 3, Backoff: queue.Constant(0)})
	check(err)
	for _, v := range []string{"fine", "broken", "hopeless"} {
		_, err := q.PutRequest(ctx, "letters", queue.Request[string]{ID: v, Value: v})
		check(err)
	}
	// Work runs what is due now, and returns.
	n, err := q.Work(ctx, "letters", func(_ context.Context, d *queue.Delivery[string]) error {
		switch d.Value {
		case "broken":
			return errors.New("no connection")
		case "hopeless":
			return queue.Dead(errors.New("no such address"))
		}
		return nil
	}, queue.RunOptions{})
	check(err)
	fmt.Println(n, "calls")
	for m, err := range q.Messages(ctx, "letters", queue.StateDead) {
		check(err)
		fmt.Printf("%s failed %d times: %s\n", m.ID, m.Failures, m.LastReason)
	}
	requeued, err := q.RequeueAll(ctx, "letters")
	check(err)
	fmt.Println(requeued, "requeued")
	// Unordered output:
	// 5 calls
	// hopeless failed 1 times: dead: no such address
	// broken failed 3 times: no connection
	// 2 requeued
}

// Messages of one group come one at a time and in order, also when one fails.
func ExampleRequest_group() {
	ctx := context.Background()
	q, err := queue.New[string](connect(), queue.Options{Backoff: queue.Constant(0)})
	check(err)
	for _, step := range []string{"created", "paid", "sent"} {
		_, err := q.PutRequest(ctx, "events", queue.Request[string]{Value: step, Group: "order:7"})
		check(err)
	}
	_, err = q.Work(ctx, "events", func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Println(d.Value, d.Attempt)
		if d.Value == "created" && d.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	}, queue.RunOptions{})
	check(err)
	// Output:
	// created 1
	// created 2
	// paid 1
	// sent 1
}

// A put that may be repeated, one that is dropped because the like was put a little
// before, and one that goes first.
func ExampleQueue_PutRequest() {
	ctx := context.Background()
	q, err := queue.New[string](connect(), queue.Options{})
	check(err)
	put := func(r queue.Request[string]) {
		placed, err := q.PutRequest(ctx, "mails", r)
		check(err)
		fmt.Println(placed.ID, placed.Status == queue.Added)
	}
	put(queue.Request[string]{ID: "o-1", Value: "thanks"})
	put(queue.Request[string]{ID: "o-1", Value: "thanks"})
	put(queue.Request[string]{ID: "a", Value: "digest", Unique: "digest:bob", UniqueFor: time.Hour})
	put(queue.Request[string]{ID: "b", Value: "digest", Unique: "digest:bob", UniqueFor: time.Hour})
	put(queue.Request[string]{ID: "c", Value: "password", Lane: queue.Urgent})
	_, err = q.Work(ctx, "mails", func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Println("->", d.Value)
		return nil
	}, queue.RunOptions{})
	check(err)
	// Output:
	// o-1 true
	// o-1 false
	// a true
	// a false
	// c true
	// -> password
	// -> thanks
	// -> digest
}

// A report is made when all of its parts are done.
func ExampleRequest_after() {
	ctx := context.Background()
	q, err := queue.New[string](connect(), queue.Options{})
	check(err)
	put, err := q.PutMany(ctx, "report", []queue.Request[string]{
		{ID: "part:1", Value: "count orders"},
		{ID: "part:2", Value: "count customers"},
		{ID: "report", Value: "write the report", After: []string{"part:1", "part:2"}, Lane: queue.High},
	})
	check(err)
	fmt.Println(put[2].State)
	_, err = q.Work(ctx, "report", func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Println(d.Value)
		return nil
	}, queue.RunOptions{})
	check(err)
	// Output:
	// blocked
	// count orders
	// count customers
	// write the report
}

// A report on weekdays at nine in Shanghai, however many processes run this.
func ExampleSchedules() {
	ctx := context.Background()
	jobs, err := queue.New[string](connect(), queue.Options{})
	check(err)
	schedules := queue.NewSchedules(jobs)
	_, err = schedules.Put(ctx, "jobs", queue.Schedule[string]{
		ID: "report", Cron: "0 9 * * MON-FRI", Zone: "Asia/Shanghai", Request: queue.Request[string]{Value: "sales"},
	})
	check(err)
	_, err = schedules.Put(ctx, "jobs", queue.Schedule[string]{
		ID: "tick", Every: time.Second, Limit: 1, Request: queue.Request[string]{Value: "the clock ticks"},
	})
	check(err)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { check(schedules.Run(ctx, "jobs")) }() // beside the consumer, in each process
	err = jobs.Run(ctx, "jobs", func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Println(d.Value)
		cancel() // a service would go on
		return nil
	}, queue.RunOptions{})
	check(err)

	for s, err := range schedules.All(context.Background(), "jobs") {
		check(err)
		fmt.Println(s.ID, s.Cron, s.Every, s.Count, s.Next.IsZero())
	}
	// Output:
	// the clock ticks
	// report 0 9 * * MON-FRI 0s 0 false
	// tick  1s 1 true
}

// Each subscriber gets each message.
func ExampleTopic() {
	ctx := context.Background()
	q, err := queue.New[string](connect(), queue.Options{})
	check(err)
	paid := queue.NewTopic(q)
	check(paid.Subscribe(ctx, "paid", "mail"))
	check(paid.Subscribe(ctx, "paid", "stock"))
	_, n, err := paid.Put(ctx, "paid", queue.Request[string]{ID: "o-1", Value: "order 1"})
	check(err)
	fmt.Println(n, "subscribers")
	_, err = q.Work(ctx, paid.QueueName("paid", "mail"), func(_ context.Context, d *queue.Delivery[string]) error {
		fmt.Println("mail:", d.Value)
		return nil
	}, queue.RunOptions{})
	check(err)
	// Output:
	// 2 subscribers
	// mail: order 1
}

// A trace continues from the producer to the consumer. With OpenTelemetry, put
// is propagator.Inject(ctx, propagation.MapCarrier(headers)), and the middleware
// begins with propagator.Extract and tracer.Start.
func Example_tracing() {
	type traceKey struct{}
	q, err := queue.New[string](connect(), queue.Options{
		Headers: func(ctx context.Context) map[string]string {
			return map[string]string{"traceparent": ctx.Value(traceKey{}).(string)}
		},
	})
	check(err)
	trace := func(ctx context.Context, job *queue.Job, next func(context.Context) error) error {
		ctx = context.WithValue(ctx, traceKey{}, job.Headers["traceparent"])
		err := next(ctx)
		fmt.Printf("span of %s: attempt %d, error %v\n", job.Queue, job.Attempt, err)
		return err
	}

	ctx := context.WithValue(context.Background(), traceKey{}, "00-4bf92f35-01")
	_, err = q.Put(ctx, "mails", "hello")
	check(err)
	_, err = q.Work(context.Background(), "mails", func(ctx context.Context, d *queue.Delivery[string]) error {
		fmt.Println(d.Value, "in trace", ctx.Value(traceKey{}))
		return nil
	}, queue.RunOptions{Middleware: []queue.Middleware{trace}})
	check(err)
	// Output:
	// hello in trace 00-4bf92f35-01
	// span of mails: attempt 1, error <nil>
}

// The program's log shows the work of consumers.
func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "waited" || a.Key == "took" {
				return slog.Attr{} // different each time
			}
			return a
		},
	}))
	q, err := queue.New[string](connect(), queue.Options{Attempts: 1, OnEvent: queue.Log(logger)})
	check(err)
	ctx := context.Background()
	_, err = q.PutRequest(ctx, "mails", queue.Request[string]{ID: "m-1", Value: "x"})
	check(err)
	_, err = q.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error {
		return errors.New("no connection")
	}, queue.RunOptions{})
	check(err)
	// Output:
	// level=ERROR msg=queue queue=mails event=died id=m-1 attempt=1 error="no connection"
}
