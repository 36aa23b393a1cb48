package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/server"
)

// A program lets other processes use its engine. Here a go-redis client takes a lock by one of Redoubt's
// own commands.
func Example() {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = e.Close() }() // in memory: nothing to save
	srv, err := server.New(ctx, server.Options{Engine: e, Password: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := srv.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	client := redis.NewClient(&redis.Options{Addr: l.Addr().String(), Password: "secret"})
	fmt.Println(client.Incr(ctx, "starts").Result())
	held, err := client.Do(ctx, "LOCK.ACQUIRE", "orders:42", "10000").Slice()
	fmt.Println(len(held), err)
	fmt.Println(client.Do(ctx, "LOCK.ACQUIRE", "orders:42", "10000").Result())
	_ = client.Close()

	if err := srv.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(<-served, server.ErrClosed))
	// Output:
	// 1 <nil>
	// 3 <nil>
	// <nil> redis: nil
	// true
}
