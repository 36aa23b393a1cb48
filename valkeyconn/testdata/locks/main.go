// Locks takes a lock by a valkey-go client.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/valkey-io/valkey-go"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/valkeyconn"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string) error {
	rdb, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return err
	}
	defer rdb.Close()
	conn, err := valkeyconn.Wrap(rdb)
	if err != nil {
		return err
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		return err
	}
	return locks.Do(ctx, "orders:42", func(context.Context) error { return nil })
}
