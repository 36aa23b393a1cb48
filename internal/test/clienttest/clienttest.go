// Package clienttest makes the clients of tests on real servers, as internal/test/redistest
// starts them. All are closed when the test ends; what fails ends the test, and so does a
// command that takes longer than [randtest.Limit], with its name and the test's seed.
package clienttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// Dial returns a client of go-redis with its own connections. It sends nothing twice,
// and waits for a reply as long as a busy server may be silent: otherwise a Conn on it would
// send a command again, and a message that is put again exists.
func Dial(tb testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: downAfter})
	Watch(tb, rdb)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// DialCluster returns a client of a cluster.
func DialCluster(tb testing.TB, addrs []string) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: downAfter})
	Watch(tb, rdb)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Watch gives each command of a client, and each pipeline, a time to keep.
func Watch(tb testing.TB, rdb redis.UniversalClient) {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient: // which calls the hooks of its nodes
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(watched{tb}) })
	default:
		rdb.AddHook(watched{tb})
	}
}

type watched struct{ tb testing.TB }

func (watched) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w watched) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer randtest.Command(w.tb, func() string { return text(cmd) })()
		return next(ctx, cmd)
	}
}

func (w watched) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer randtest.Command(w.tb, func() string { return fmt.Sprintf("a pipeline of %d, the first %s", len(cmds), text(cmds[0])) })()
		return next(ctx, cmds)
	}
}

func text(cmd redis.Cmder) string { return fmt.Sprintf("%.500q", cmd.Args()) }

// Wrap returns a Conn on a client, which stays its owner's.
func Wrap(tb testing.TB, rdb redis.UniversalClient) *goredis.Conn {
	tb.Helper()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// downAfter is the patience of clients: a server on a busy machine may be silent for the
// second after which it is taken to be down by default.
const downAfter = 10 * time.Second

// New returns a Client on a Conn, like that of another process. Its keys begin with
// prefix, or as is the default where that is empty.
func New(tb testing.TB, conn redoubt.Conn, prefix string) *redoubt.Client {
	tb.Helper()
	client, err := redoubt.New(conn, redoubt.Options{Prefix: prefix, DownAfter: downAfter})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Open returns a Client on what a URL names, with its own connections.
func Open(tb testing.TB, url string) *redoubt.Client {
	tb.Helper()
	conn, err := goredis.Open(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return New(tb, conn, "")
}
