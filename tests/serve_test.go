package tests

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

const patience = 30 * time.Second

// serve runs a server in front of a redis-server of its own.
func serve(t *testing.T) (addr string) {
	t.Helper()
	backend, err := proxy.ParseURL(redistest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: backend.Addr})
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = rdb.Close()
	})
	srv, err := server.New(server.Options{Backend: backend, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Serve(t, srv)
}
