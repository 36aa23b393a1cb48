package poolhost

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestReload: a reload gives a pool another server, and its clients see no error; a file with an error
// changes nothing; pools are added and removed.
func TestReload(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	dir := t.TempDir()
	pool := func(name string, servers ...string) string {
		text := fmt.Sprintf("%s:\n  listen: %s\n  distribution: modula\n  redis: true\n  servers:\n", name, filepath.Join(dir, name))
		for _, s := range servers {
			text += "   - " + s + "\n"
		}
		return text
	}
	first, second := one.Addr()+":1 redis-1", two.Addr()+":1 redis-2"
	s := serve(t, pool("alpha", first))
	const done = "reloaded the file of pools"
	open := func(name string) *redis.Client {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(dir, name), PoolSize: 1, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	alpha := open("alpha")
	if err := alpha.Set(t.Context(), "b", "first", 0).Err(); err != nil {
		t.Fatal(err)
	}
	id := alpha.ClientID(t.Context()).Val()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { // b is on redis-1 and then on redis-2
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
				if err := alpha.Set(context.Background(), "b", "v", 0).Err(); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	s.reload(t, pool("alpha", first, second), done)
	eventually(t, "b is on redis-2", func() bool { return two.CLI("EXISTS", "b") == "1" })
	s.reload(t, pool("alpha", "nonsense"), "reload failed")
	s.reload(t, pool("alpha", first, second)+pool("beta", second), done)
	if err := open("beta").Set(t.Context(), "k", "v", 0).Err(); err != nil || two.CLI("GET", "k") != "v" {
		t.Errorf("the new pool: %v", err)
	}
	eventually(t, "the connections of the first pool are closed", func() bool {
		return !strings.Contains(one.CLI("CLIENT", "LIST"), "cmd=set ")
	})
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("a command failed: %v", err)
	}
	if again := alpha.ClientID(t.Context()).Val(); again != id {
		t.Errorf("the client was closed: its id was %d and is %d", id, again)
	}
	s.reload(t, pool("beta", second), done)
	eventually(t, "alpha is gone", func() bool { return alpha.Ping(t.Context()).Err() != nil })
	eventually(t, "its end is logged", func() bool {
		return strings.Contains(s.log.String(), `"msg":"closed a pool","pool":"alpha","clients_left":0,"commands_cut":0,"took":`)
	})
}
