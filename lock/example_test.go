package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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
