package rueidisconn_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/rueidisconn"
	"github.com/redoubt-go/redoubt/server"
)

// serve starts a server, so that the example needs no Redis.
func serve(ctx context.Context) (addr string, stop func()) {
	srv, err := server.New(ctx, server.Options{URL: "embedded:"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return l.Addr().String(), func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, server.ErrClosed) {
			log.Fatal(err)
		}
	}
}

// A lock by a rueidis client.
func Example() {
	ctx := context.Background()
	addr, stop := serve(ctx)
	defer stop()

	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	conn, err := rueidisconn.Wrap(rdb)
	if err != nil {
		log.Fatal(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locks.Do(ctx, "orders:42", func(context.Context) error {
		fmt.Println("alone with the order")
		return nil
	}))
	// Output:
	// alone with the order
	// <nil>
}
