package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/lock"
)

// A lock whose TTL is 5 s around work that takes 10 s: it is renewed as long as the
// work goes on, and nobody else is let in; should the process die, the others wait
// for 5 s at most. Here everything is five times as fast.
func ExampleMutex_Do_renewal() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{TTL: 5 * time.Second / 5})
	if err != nil {
		panic(err)
	}
	rivals, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	letIn, asked := 0, 0
	err = locks.Do(ctx, "report", func(ctx context.Context) error {
		work := time.NewTimer(10 * time.Second / 5)
		ask := time.NewTicker(20 * time.Millisecond)
		defer ask.Stop()
		for {
			select {
			case <-work.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx) // the lease was lost: stop
			case <-ask.C:
			}
			_, busy, err := rivals.TryAcquire(ctx, "report")
			if err != nil {
				return err
			}
			if asked++; busy == nil {
				letIn++
			}
		}
	})
	fmt.Println("done:", err)
	fmt.Println("asked:", asked > 10, "let in:", letIn)
	// Output:
	// done: <nil>
	// asked: true let in: 0
}

// A function that calls itself with the lock held: the calls further down run in
// the lease that ctx carries.
func ExampleMutex_Do_recursion() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	tree := map[string][]string{"root": {"usr"}, "usr": {"bin", "lib"}}
	var remove func(ctx context.Context, node string) error
	remove = func(ctx context.Context, node string) error {
		return locks.Do(ctx, "tree", func(ctx context.Context) error {
			for _, child := range tree[node] {
				if err := remove(ctx, child); err != nil {
					return err
				}
			}
			fmt.Println("removed", node)
			return nil
		})
	}
	if err := remove(ctx, "root"); err != nil {
		panic(err)
	}
	_, busy, err := locks.TryAcquire(ctx, "tree")
	fmt.Println("free again:", busy == nil, err)
	// Output:
	// removed bin
	// removed lib
	// removed usr
	// removed root
	// free again: true <nil>
}

// Recursion by hand, three deep: each call enters the lease and leaves it, and the
// last one out releases the lock.
func ExampleLease_Enter() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	var countdown func(lease *lock.Lease, n int) error
	countdown = func(lease *lock.Lease, n int) error {
		leave, err := lease.Enter()
		if err != nil {
			return err // the lease is over
		}
		defer func() { _ = leave(ctx) }()
		fmt.Println(n)
		if n == 1 {
			return nil
		}
		return countdown(lease, n-1)
	}
	lease, err := locks.Acquire(ctx, "rocket")
	if err != nil {
		panic(err)
	}
	if err := countdown(lease, 3); err != nil {
		panic(err)
	}
	fmt.Println("held:", lease.Err() == nil)
	if err := lease.Release(ctx); err != nil {
		panic(err)
	}
	fmt.Println(lease.Err())
	// Output:
	// 3
	// 2
	// 1
	// held: true
	// lock: released
}

// Waiters are served in the order in which they asked.
func ExampleOptions_fair() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{Fair: true})
	if err != nil {
		panic(err)
	}
	holder, err := locks.Acquire(ctx, "counter")
	if err != nil {
		panic(err)
	}
	var customers sync.WaitGroup
	for i := range 3 {
		customers.Go(func() {
			err := locks.Do(ctx, "counter", func(context.Context) error {
				fmt.Println("serving customer", i)
				return nil
			})
			if err != nil {
				panic(err)
			}
		})
		for waiting := int64(0); waiting <= int64(i); { // before the next one comes
			info, err := locks.Info(ctx, "counter")
			if err != nil {
				panic(err)
			}
			waiting = info.Waiters
		}
	}
	if err := holder.Release(ctx); err != nil {
		panic(err)
	}
	customers.Wait()
	// Output:
	// serving customer 0
	// serving customer 1
	// serving customer 2
}

// A lease goes to another process, as text, and stays held on the way.
func ExampleLease_HandOver() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	lease, err := locks.Acquire(ctx, "upload:7")
	if err != nil {
		panic(err)
	}
	handle, err := lease.HandOver()
	if err != nil {
		panic(err)
	}
	text, err := handle.MarshalText() // into a job, an environment variable, a pipe
	if err != nil {
		panic(err)
	}
	fmt.Println("here: ", lease.Err())

	var received lock.Handle
	if err := received.UnmarshalText(text); err != nil {
		panic(err)
	}
	resumed, err := locks.Resume(ctx, received)
	if err != nil {
		panic(err)
	}
	fmt.Println("there:", resumed.Err(), resumed.Token() == lease.Token())
	if err := resumed.Release(ctx); err != nil {
		panic(err)
	}
	_, err = locks.Resume(ctx, received)
	fmt.Println("again:", errors.Is(err, lock.ErrNotHeld))
	// Output:
	// here:  lock: handed over
	// there: <nil> true
	// again: true
}

func ExampleBusy() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second, Label: "web-1"})
	if err != nil {
		panic(err)
	}
	holder, err := locks.Acquire(ctx, "invoice")
	if err != nil {
		panic(err)
	}
	_, busy, err := locks.TryAcquire(ctx, "invoice")
	if err != nil {
		panic(err)
	}
	fmt.Println(errors.Is(busy.Err(), lock.ErrBusy)) // fail at once,

	go func() { _ = holder.Release(ctx) }()
	lease, err := busy.Wait(ctx) // or wait
	if err != nil {
		panic(err)
	}
	fmt.Println("acquired", lease.Name())
	// Output:
	// true
	// acquired invoice
}

// Two processes campaign, and one leads at a time. When the first resigns, the second leads.
func ExampleMutex_Elect() {
	ctx, client := context.Background(), connect()

	var campaign sync.WaitGroup
	for _, host := range []string{"host-1", "host-2"} {
		locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second, Label: host})
		if err != nil {
			panic(err)
		}
		leads := make(chan struct{})
		campaign.Go(func() {
			err := locks.Elect(ctx, "reports", func(ctx context.Context) error {
				fmt.Println(host, "leads")
				close(leads)
				// Work until ctx ends: the lead is lost then. Send lock.FromContext(ctx).Token()
				// with each write. To return is to resign.
				return nil
			})
			if err != nil {
				panic(err)
			}
		})
		<-leads // only so that the output is always the same
	}
	campaign.Wait()
	// Output:
	// host-1 leads
	// host-2 leads
}

// A process that is no candidate follows who leads.
func ExampleMutex_Observe() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{Label: "host-1"})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var campaign sync.WaitGroup
	for info, err := range locks.Observe(ctx, "reports", 10*time.Millisecond) {
		switch {
		case err != nil:
			fmt.Println("unknown:", err) // the loop goes on
		case info.Mode == lock.Free:
			fmt.Println("nobody leads")
			campaign.Go(func() {
				_ = locks.Elect(ctx, "reports", func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				})
			})
		default:
			fmt.Println(info.Holders[0].Label, "leads")
			stop()
		}
	}
	campaign.Wait()
	// Output:
	// nobody leads
	// host-1 leads
}
