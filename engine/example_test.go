package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/lock"
)

// A redoubt.Client uses an engine as it uses a connection to Redis.
func Example() {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = e.Close() }() // in memory: nothing to save
	client, err := redoubt.New(e, redoubt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "orders:42", func(context.Context) error {
		fmt.Println("shipping order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// Any other command of Redis.
	n, err := e.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{"shipped"}}).Int()
	fmt.Println(n, err)
	// Output:
	// shipping order 42
	// 1 <nil>
}

// An engine with a directory has the data of the one before it.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for range 3 {
		e, err := engine.Open(ctx, engine.Options{Dir: dir, Fsync: engine.FsyncAlways})
		if err != nil {
			log.Fatal(err)
		}
		n, err := e.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{"starts"}}).Int()
		fmt.Println(n, err)
		if err := e.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

// A URL, from a setting perhaps, says that locks are in this process.
func Example_url() {
	ctx := context.Background()
	client, err := redoubt.Open(ctx, "embedded:", redoubt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }() // in memory: nothing to save
	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "orders:42", func(context.Context) error {
		fmt.Println("shipping order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: shipping order 42
}
