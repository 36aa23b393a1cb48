package poolhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Clients come in by each address of a pool. A reload that takes an address away closes it.
func TestSeveralAddresses(t *testing.T) {
	server, cache := redistest.Start(t), memcachedtest.Start(t)
	dir, port, other := t.TempDir(), freePort(t), freePort(t)
	alpha, beta := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	text := func(also string) string {
		return fmt.Sprintf("alpha:\n  listen: 127.0.0.1:%d\n  redis: true\n%s  servers:\n   - %s:1\n", port, also, server.Addr()) +
			fmt.Sprintf("beta:\n  listen: 127.0.0.1:%d\n  listen_also:\n   - %s\n  servers:\n   - %s:1\n", other, beta, cache.Addr())
	}
	s := serve(t, text(fmt.Sprintf("  listen_also:\n   - %s 0600\n", alpha)))
	for network, addr := range map[string]string{"tcp": fmt.Sprintf("127.0.0.1:%d", port), "unix": alpha} {
		c := redis.NewClient(&redis.Options{Network: network, Addr: addr, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Set(t.Context(), "k", network, 0).Err(); err != nil || server.CLI("GET", "k") != network {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if st, err := os.Stat(alpha); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st, err)
	}
	for network, addr := range map[string]string{"tcp": fmt.Sprintf("127.0.0.1:%d", other), "unix": beta} {
		if got := dialRaw(t, network, addr).ask("set k 0 0 1\r\nx"); got != "STORED" {
			t.Errorf("%s: %q", addr, got)
		}
	}
	stays := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 1, MaxRetries: -1})
	t.Cleanup(func() { _ = stays.Close() })
	id := stays.ClientID(t.Context()).Val()
	const changed = "changed the addresses of a pool"
	s.reload(t, text(""), changed)
	if _, err := os.Stat(alpha); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after the reload: %v", err)
	}
	s.reload(t, text(fmt.Sprintf("  listen_also:\n   - %s 0600\n", alpha)), changed)
	added := redis.NewClient(&redis.Options{Network: "unix", Addr: alpha, MaxRetries: -1})
	t.Cleanup(func() { _ = added.Close() })
	if err := added.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the address that came back: %v", err)
	}
	// An address that can't be opened changes nothing.
	s.reload(t, text(fmt.Sprintf("  listen_also:\n   - %s\n", filepath.Join(dir, "none", "s"))), "pool not changed")
	if err := added.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the address that can't be opened: %v", err)
	}
	if again := stays.ClientID(t.Context()).Val(); again != id {
		t.Errorf("the client was closed: its id was %d and is %d", id, again)
	}
	// A pool that has to be opened anew, and can't be, comes back as it was.
	s.reload(t, text(fmt.Sprintf("  redis_db: 3\n  listen_also:\n   - %s\n", filepath.Join(dir, "none", "s"))), "the pool is open again as it was")
	if err := stays.Ping(t.Context()).Err(); err != nil {
		if err = stays.Ping(t.Context()).Err(); err != nil { // the first may find its connection closed
			t.Errorf("after the reload that failed: %v", err)
		}
	}
	if err := added.Ping(t.Context()).Err(); err != nil {
		if err = added.Ping(t.Context()).Err(); err != nil {
			t.Errorf("its other address: %v", err)
		}
	}
}

// A reload lets two pools exchange their addresses.
func TestAddressesExchanged(t *testing.T) {
	server := redistest.Start(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	text := func(alpha, beta string) string {
		pool := func(name, at, db string) string {
			return fmt.Sprintf("%s:\n  listen: %s\n  redis: true\n  redis_db: %s\n  servers:\n   - %s:1\n", name, at, db, server.Addr())
		}
		return pool("alpha", alpha, "1") + pool("beta", beta, "2")
	}
	s := serve(t, text(one, two))
	s.reload(t, text(two, one), "reloaded the file of pools")
	for db, at := range map[string]string{"1": two, "2": one} {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: at, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Set(t.Context(), "k", db, 0).Err(); err != nil || server.CLI("-n", db, "GET", "k") != db {
			t.Errorf("database %s: %v", db, err)
		}
	}
}

// freePort returns a port that no other test takes.
func freePort(t *testing.T) int {
	t.Helper()
	p, err := ports.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p.Number
}

// A pool has the users of its ACL file, and a reload reads the file anew.
func TestACLFile(t *testing.T) {
	server := redistest.Start(t)
	dir := t.TempDir()
	socket, users := filepath.Join(dir, "s"), filepath.Join(dir, "users.acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  aclfile: %s\n  servers:\n   - %s:1\n", socket, users, server.Addr())
	get := func(user, password, key string) error {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Username: user, Password: password, MaxRetries: -1})
		defer func() { _ = c.Close() }()
		return c.Get(t.Context(), key).Err()
	}
	write("user default off\nuser shop on >first ~shop:* +get\n")
	s := serve(t, text)
	if err := get("shop", "first", "shop:1"); !errors.Is(err, redis.Nil) {
		t.Errorf("with the right: %v", err)
	}
	if err := get("shop", "first", "other"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("without the right: %v", err)
	}
	if err := get("", "", "shop:1"); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a user: %v", err)
	}
	write("user default off\nuser shop on >second ~shop:* +get\n")
	s.reload(t, text, "changed the users of a pool")
	if err := get("shop", "first", "shop:1"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with the former password: %v", err)
	}
	if err := get("shop", "second", "shop:1"); !errors.Is(err, redis.Nil) {
		t.Errorf("with the new password: %v", err)
	}
	write("user shop on >hush +nosuch\n")
	_, err := Read(s.file, "")
	if err == nil || !strings.Contains(err.Error(), `users.acl:1: user "shop"`) || strings.Contains(err.Error(), "hush") {
		t.Errorf("a mistake in the file: %v", err)
	}
	write("user default on >x +@all ~*\n")
	if _, err := Read(s.file, ""); err != nil {
		t.Error(err)
	}
	s.write(t, strings.Replace(text, "  aclfile", "  redis_auth: x\n  aclfile", 1))
	if _, err := Read(s.file, ""); err == nil || !strings.Contains(err.Error(), `"redis_auth" sets the password`) {
		t.Errorf("the default user twice: %v", err)
	}
}
