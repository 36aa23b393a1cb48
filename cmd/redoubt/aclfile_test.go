//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestACLFile: users of --aclfile have their rights on the engine and in front of a server. SIGHUP reads the file
// again: it closes only clients whose user has changed, and a file with an error changes nothing.
func TestACLFile(t *testing.T) {
	for name, args := range map[string][]string{"engine": nil, "redis": {"--backend", redistest.Start(t).URL()}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "users.acl")
			write := func(lines ...string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			const admin, reader = "user admin on >battery ~* &* +@all", "user reader on >pw ~orders:* +@read +@connection"
			write("# users", admin, reader)
			s := startServe(t, append(args, "--aclfile", file)...)
			if s.line["password"] != "required" {
				t.Errorf("it says %v", s.line)
			}
			reload := func(want string) {
				t.Helper()
				before := strings.Count(s.stderr.String(), want)
				s.signal(syscall.SIGHUP)
				eventually(t, "the log has "+want, func() bool { return strings.Count(s.stderr.String(), want) > before })
			}
			open := func(user, password string) *redis.Client {
				c := redis.NewClient(&redis.Options{Addr: s.addr, Username: user, Password: password, PoolSize: 1, MaxRetries: -1})
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			check := func(c *redis.Client, want string, args ...any) {
				t.Helper()
				if err := c.Do(t.Context(), args...).Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v: %v, want %q", args, err, want)
				}
			}
			boss, read := open("admin", "battery"), open("reader", "pw")
			check(boss, "", "SET", "orders:1", "v")
			check(read, "", "GET", "orders:1")
			check(read, "NOPERM", "GET", "stock:1")
			check(read, "NOPERM", "SET", "orders:1", "w")
			check(read, "NOPERM", "LOCK.ACQUIRE", "orders:1", "1000")
			check(open("", ""), "NOAUTH", "GET", "orders:1")
			if who := boss.Do(t.Context(), "ACL", "WHOAMI").Val(); fmt.Sprint(who) != "admin" {
				t.Errorf("ACL WHOAMI is %v", who)
			}
			if list := fmt.Sprint(boss.Do(t.Context(), "ACL", "LIST").Val()); !strings.Contains(list, "user reader on #") {
				t.Errorf("ACL LIST is %s", list)
			}
			bossID, readID := boss.ClientID(t.Context()).Val(), read.ClientID(t.Context()).Val()

			write(admin, reader+" +set")
			reload("reloaded the users")
			eventually(t, "the reader has another connection", func() bool {
				id, err := read.ClientID(t.Context()).Result()
				return err == nil && id != readID
			})
			check(read, "", "SET", "orders:1", "w")
			write(admin, "user reader on hush")
			reload("users not reloaded: they stay as they are")
			mustContain(t, "log", s.stderr.String(), file+":2: user", "rule 2 is unknown")
			check(read, "", "SET", "orders:1", "x")
			write("")
			reload("users not reloaded: they stay as they are")
			if id := boss.ClientID(t.Context()).Val(); id != bossID {
				t.Errorf("the admin was closed: the id was %d and is %d", bossID, id)
			}
			if strings.Contains(s.stderr.String(), "hush") || strings.Contains(s.stderr.String(), "battery") {
				t.Error("the log shows a rule that may be a password, or a password")
			}
		})
	}
	code, _, stderr := runToEnd(t, nil, "serve", "--http=", "--listen=127.0.0.1:0", "--aclfile=none.acl")
	if code != exitUsage || !strings.Contains(stderr, "none.acl: no such file") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
