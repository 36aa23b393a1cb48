package stock_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/internal/faults"
)

func TestMain(m *testing.M) {
	faults.Main()
	workIfHired()
	goleak.VerifyTestMain(withServer{m})
}

// withServer runs the tests with a server for the examples.
type withServer struct{ *testing.M }

// exampleRedis is a client of that server.
var exampleRedis *redis.Client

func (m withServer) Run() int {
	s, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Close() }()
	exampleRedis = redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = exampleRedis.Close() }()
	return m.M.Run()
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
