// Package exampleserver is what the Examples of a package talk to.
package exampleserver

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
)

// M runs a package's tests with a server for its Examples.
type M struct{ *testing.M }

var (
	conn        redoubt.Conn // to the server of M
	connections atomic.Int64
)

// Run is [testing.M.Run] while a server is up.
func (m M) Run() int {
	s, err := embedded.Start()
	must(err)
	defer func() { _ = s.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = rdb.Close() }()
	conn, err = goredis.Wrap(rdb)
	must(err)
	return m.M.Run()
}

// Connect returns a Client on which no name has been used.
func Connect() *redoubt.Client {
	client, err := redoubt.New(conn, redoubt.Options{Prefix: fmt.Sprint("example", connections.Add(1))})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
