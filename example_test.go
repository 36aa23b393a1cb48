//go:build !quick

package redoubt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// serverURL is where the examples find a server.
var serverURL string

func TestMain(m *testing.M) {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	serverURL = "redis://" + server.Addr()
	code := m.Run()
	_ = server.Close()
	os.Exit(code)
}

func Example() {
	ctx := context.Background()
	client, err := redoubt.Open(ctx, serverURL, redoubt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// One at a time, among all processes that use the server.
	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "orders:42", func(ctx context.Context) error {
		fmt.Println("shipping order 42, and nobody else is")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// 30 a minute for each user, 16 of them at once.
	limits, err := ratelimit.New(client, ratelimit.Options{
		Limit: ratelimit.Limit{Rate: 30, Period: time.Minute, Burst: 16},
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := limits.Allow(ctx, "user:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("allowed:", d.Allowed, "remaining:", d.Remaining)
	// Output:
	// shipping order 42, and nobody else is
	// allowed: true remaining: 15
}

func Example_serverDown() {
	ctx := context.Background()
	// Nobody listens there.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer rdb.Close()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		log.Fatal(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{DownAfter: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	_, err = locks.Acquire(ctx, "orders:42")
	fmt.Println("unavailable:", errors.Is(err, redoubt.ErrUnavailable))
	if down, ok := errors.AsType[*redoubt.UnavailableError](err); ok {
		fmt.Println("since this minute:", time.Since(down.Since) < time.Minute)
	}
	// Output:
	// unavailable: true
	// since this minute: true
}
