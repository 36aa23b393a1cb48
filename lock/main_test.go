package lock_test

import (
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/internal/faults"
)

// exampleRedis is a client of the examples' server.
var exampleRedis *redis.Client

func TestMain(m *testing.M) {
	faults.Main()
	workIfHired()
	srv, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	exampleRedis = redis.NewClient(&redis.Options{Addr: srv.Addr()})
	code := m.Run()
	_ = exampleRedis.Close()
	_ = srv.Close()
	os.Exit(code)
}

var connections atomic.Int64

// connect returns a Client on which no name has been used.
func connect() *redoubt.Client {
	conn, err := goredis.Wrap(exampleRedis)
	if err != nil {
		panic(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{Prefix: fmt.Sprint("example", connections.Add(1))})
	if err != nil {
		panic(err)
	}
	return client
}
