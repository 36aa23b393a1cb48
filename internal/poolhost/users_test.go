package poolhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestPoolUsers: a reload changes users and their rights, and closes only clients whose user has changed. A default
// user in the file overrides --password.
func TestPoolUsers(t *testing.T) {
	srv, addr := redistest.Start(t), freeAddr(t)
	conf := func(users ...string) string {
		return fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  users:\n   - %s\n  servers:\n   - %s:1 redis-1\n", addr, strings.Join(users, "\n   - "), srv.Addr())
	}
	const (
		admin, reader = "admin battery staple", "user reader on >pw ~orders:* +@read +@connection"
		standard      = "user default on >mine ~* +@all"
		done          = "reloaded the file of pools"
	)
	s := serveWithPassword(t, conf(admin, reader), "flags")
	open := func(user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password, PoolSize: 1, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	check := func(c *redis.Client, want string, args ...any) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	boss, read := open("admin", "battery staple"), open("reader", "pw")
	check(boss, "", "SET", "orders:1", "v")
	check(read, "", "GET", "orders:1")
	check(read, "NOPERM", "GET", "stock:1")
	check(read, "NOPERM", "SET", "orders:1", "w")
	check(open("", "flags"), "", "GET", "orders:1")
	bossID, readID := boss.ClientID(t.Context()).Val(), read.ClientID(t.Context()).Val()

	s.reload(t, conf(admin, reader+" +set"), done)
	eventually(t, "the reader's connection is another", func() bool {
		id, err := read.ClientID(t.Context()).Result()
		return err == nil && id != readID
	})
	check(read, "", "SET", "orders:1", "w")
	s.reload(t, conf(admin), done)
	eventually(t, "the reader is gone", func() bool { return read.Ping(t.Context()).Err() != nil })
	check(read, "WRONGPASS", "GET", "orders:1")
	if id := boss.ClientID(t.Context()).Val(); id != bossID {
		t.Errorf("the admin was closed: the id was %d and is %d", bossID, id)
	}
	s.reload(t, conf(admin, "user x +nosuch"), "reload failed")
	check(open("", "flags"), "", "GET", "orders:1")

	s.reload(t, conf(admin, "user default on nopass +ping"), `"password":"none"`)
	s.reload(t, conf(admin, standard), done)
	eventually(t, "the default user is the file's", func() bool { return open("", "mine").Ping(t.Context()).Err() == nil })
	check(open("", "flags"), "WRONGPASS", "GET", "orders:1")
}
