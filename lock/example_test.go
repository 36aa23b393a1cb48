package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/lock"
)

func Example() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	err = locks.Do(ctx, "orders:42", func(ctx context.Context) error {
		// ctx ends if the lease is lost.
		fmt.Println("shipping order 42, and nobody else is")
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: shipping order 42, and nobody else is
}

func ExampleMutex_TryAcquire() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second, Label: "web-1"})
	if err != nil {
		panic(err)
	}
	for range 2 {
		lease, busy, err := locks.TryAcquire(ctx, "report")
		switch {
		case err != nil:
			panic(err)
		case busy != nil:
			fmt.Println("held by", busy.Label, "for another", busy.Remaining.Round(time.Second))
		default:
			fmt.Println("acquired")
			defer func() { _ = lease.Release(ctx) }()
		}
	}
	// Output:
	// acquired
	// held by web-1 for another 10s
}

// Acquire waits, and ctx says for how long.
func ExampleMutex_Acquire() {
	client := connect()
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	first, err := locks.Acquire(context.Background(), "migration")
	if err != nil {
		panic(err)
	}
	defer func() { _ = first.Release(context.Background()) }()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = locks.Acquire(ctx, "migration")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// A table that refuses the writes of a holder that has been overtaken.
func ExampleLease_Token() {
	ctx, client := context.Background(), connect()

	var stored int64 // beside the data, in the same transaction
	write := func(token int64) error {
		if token < stored {
			return errors.New("a later holder has written")
		}
		stored = token
		return nil
	}

	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	var tokens []int64
	for range 2 { // the first is paused before it writes, and its lease runs out
		lease, err := locks.Acquire(ctx, "ledger")
		if err != nil {
			panic(err)
		}
		tokens = append(tokens, lease.Token())
		if err := lease.Release(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Println("second:", write(tokens[1]))
	fmt.Println("first: ", write(tokens[0]))
	// Output:
	// second: <nil>
	// first:  a later holder has written
}

func ExampleSemaphore() {
	ctx, client := context.Background(), connect()

	permits, err := lock.NewSemaphore(client, lock.SemaphoreOptions{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	for i := range 3 { // at most two at once
		lease, busy, err := permits.TryAcquire(ctx, "geocoder", 2)
		switch {
		case err != nil:
			panic(err)
		case busy != nil:
			fmt.Println(i, "has to wait, for", busy.Remaining.Round(time.Second), "at most")
		default:
			fmt.Println(i, "has a permit")
			defer func() { _ = lease.Release(ctx) }()
		}
	}
	// Output:
	// 0 has a permit
	// 1 has a permit
	// 2 has to wait, for 10s at most
}

// Readers hold the lock together, and a writer alone.
func ExampleRWMutex() {
	ctx, client := context.Background(), connect()

	locks, err := lock.NewRWMutex(client, lock.RWMutexOptions{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	for range 2 {
		reader, err := locks.AcquireShared(ctx, "catalogue")
		if err != nil {
			panic(err)
		}
		defer func() {
			if err := reader.Release(ctx); err != nil {
				panic(err)
			}
		}()
	}
	_, busy, err := locks.TryAcquire(ctx, "catalogue")
	if err != nil {
		panic(err)
	}
	fmt.Println("two read; a writer has to wait:", busy != nil)
	// Output: two read; a writer has to wait: true
}

// Three workers load a part each, and the server starts when all have.
func ExampleLatch() {
	ctx, client := context.Background(), connect()

	latches, err := lock.NewLatch(client, lock.LatchOptions{TTL: time.Hour})
	if err != nil {
		panic(err)
	}
	if _, err := latches.Set(ctx, "loaded", 3); err != nil {
		panic(err)
	}
	for _, worker := range []string{"users", "orders", "orders", "prices"} { // one says it twice
		left, err := latches.CountDown(ctx, "loaded", worker)
		if err != nil {
			panic(err)
		}
		fmt.Println(worker, left)
	}
	if err := latches.Wait(ctx, "loaded"); err != nil {
		panic(err)
	}
	fmt.Println("all are loaded")
	// Output:
	// users 2
	// orders 1
	// orders 1
	// prices 0
	// all are loaded
}

// Move money between two accounts, and nobody else touches either.
func ExampleMulti() {
	ctx, client := context.Background(), connect()

	locks, err := lock.NewMulti(client, lock.MultiOptions{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	err = locks.Do(ctx, []string{"account:7", "account:3"}, func(context.Context) error {
		_, busy, err := locks.TryAcquire(ctx, []string{"account:1", "account:3"})
		if err != nil {
			return err
		}
		fmt.Println("busy:", busy.Name)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: busy: account:3
}

// A holder hangs. Find out who it is, and take the lock away from it.
func ExampleMutex_ForceRelease() {
	ctx, client := context.Background(), connect()

	locks, err := lock.New(client, lock.Options{Label: "worker-7"})
	if err != nil {
		panic(err)
	}
	if _, err := locks.Acquire(ctx, "orders:42"); err != nil {
		panic(err)
	}

	for l, err := range locks.List(ctx, "orders:*") {
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Name, "is held by", l.Holders[0].Label)
		released, err := locks.ForceRelease(ctx, l.Name, l.Token)
		if err != nil {
			panic(err)
		}
		fmt.Println("released:", released)
	}
	info, err := locks.Info(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("now it is", info.Mode)
	// Output:
	// orders:42 is held by worker-7
	// released: true
	// now it is free
}

// Three masters that know nothing of each other; here they are engines in the
// process. One dies, and the lock is still held.
func ExampleQuorum() {
	ctx := context.Background()
	engines := make([]*engine.Engine, 3)
	clients := make([]*redoubt.Client, 3)
	for i := range engines {
		var err error
		if engines[i], err = engine.Open(ctx, engine.Options{}); err != nil {
			panic(err)
		}
		defer func() { _ = engines[i].Close() }()
		if clients[i], err = redoubt.New(engines[i], redoubt.Options{}); err != nil {
			panic(err)
		}
		defer func() { _ = clients[i].Close() }()
	}

	locks, err := lock.NewQuorum(clients, lock.QuorumOptions{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	_ = engines[1].Close()
	err = locks.Do(ctx, "ledger", func(ctx context.Context) error {
		_, busy, err := locks.TryAcquire(ctx, "ledger")
		if err != nil {
			return err
		}
		fmt.Println("one master is gone, and the ledger is busy:", busy != nil)
		return nil
	})
	fmt.Println("released:", err == nil)
	// Output:
	// one master is gone, and the ledger is busy: true
	// released: true
}
