package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/lock"
)

// An engine is what a redoubt.Client needs, as a connection to a Redis is.
func Example() {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{Natives: native.All()})
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

// What is written to an engine with a directory is there when it is opened
// again.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for range 3 {
		e, err := engine.Open(ctx, engine.Options{Dir: dir, Fsync: aof.Always})
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
