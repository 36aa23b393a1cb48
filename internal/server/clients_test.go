package server_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestGoRedis(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		for _, protocol := range []int{2, 3} {
			rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, ClientName: "test"})
			defer rdb.Close()
			ctx, p := t.Context(), b.Prefix
			if err := rdb.Set(ctx, p+"k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := rdb.HSet(ctx, p+"h", "f", 1).Err(); err != nil {
				t.Fatal(err)
			}
			if m, err := rdb.HGetAll(ctx, p+"h").Result(); err != nil || m["f"] != "1" {
				t.Errorf("HGetAll: %v %v", m, err)
			}
			n, err := redis.NewScript("return {KEYS[1], ARGV[1], 7}").Run(ctx, rdb, []string{p + "k"}, "a").Slice()
			if err != nil || len(n) != 3 || n[2] != int64(7) {
				t.Errorf("script: %v %v", n, err)
			}
			pipe := rdb.Pipeline()
			for range 100 {
				pipe.Incr(ctx, p+"n")
			}
			if _, err := pipe.Exec(ctx); err != nil {
				t.Error(err)
			}
			// A transaction with a conflict: tried again, as is usual.
			tries := 0
			for {
				err := rdb.Watch(ctx, func(tx *redis.Tx) error {
					tries++
					if tries == 1 {
						rdb.Set(ctx, p+"w", "other", 0)
					}
					_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.Set(ctx, p+"w", "mine", 0)
						pipe.Get(ctx, p+"w")
						return nil
					})
					return err
				}, p+"w")
				if err == nil {
					break
				}
				if err != redis.TxFailedErr || tries > 3 { //nolint:errorlint // exactly this
					t.Fatal(err)
				}
			}
			if tries != 2 {
				t.Errorf("%d tries, want 2", tries)
			}
			testGoRedisPubSub(t, rdb, p+"ch")
			reply, err := rdb.Do(ctx, "LOCK.ACQUIRE", p+"l", 60000).Slice()
			if err != nil || len(reply) != 3 {
				t.Fatalf("LOCK.ACQUIRE: %v %v", reply, err)
			}
			if _, err := rdb.Do(ctx, "LOCK.ACQUIRE", p+"l", 60000).Result(); err != redis.Nil { //nolint:errorlint // exactly this
				t.Errorf("a held lock: %v, want Nil", err)
			}
			if n, err := rdb.Do(ctx, "LOCK.RELEASE", p+"l", reply[0]).Int(); n != 1 || err != nil {
				t.Errorf("LOCK.RELEASE: %v %v", n, err)
			}
			go rdb.RPush(context.WithoutCancel(ctx), p+"list", "x")
			if v, err := rdb.BLPop(ctx, patience, p+"list").Result(); err != nil || v[1] != "x" {
				t.Errorf("BLPop: %v %v", v, err)
			}
		}
	})
}

func testGoRedisPubSub(t *testing.T, rdb *redis.Client, channel string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub := rdb.Subscribe(ctx, channel)
	defer sub.Close()
	if err := sub.PSubscribe(ctx, channel+"*"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	rdb.Publish(ctx, channel, "hello")
	for range 2 {
		m, err := sub.ReceiveMessage(ctx)
		if err != nil || m.Payload != "hello" {
			t.Fatalf("message: %v %v", m, err)
		}
	}
	if err := sub.Ping(ctx, "still"); err != nil {
		t.Error(err)
	}
	if v, err := sub.Receive(ctx); err != nil {
		t.Errorf("pong: %v %v", v, err)
	}
}

func cli(t *testing.T, addr string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestRedisCLI(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		for _, c := range []struct{ args, want string }{
			{"PING", "PONG"},
			{"SET " + b.Prefix + "k v", "OK"},
			{"-3 HSET " + b.Prefix + "h f v", "1"},
			{"-3 HGETALL " + b.Prefix + "h", "f v"},
			{"LOCK.RELEASE " + b.Prefix + "l x", "0"},
			{"LOCK.ACQUIRE " + b.Prefix + "l 0", "ERR redoubt: ttl_ms is 0; want 1 to 31536000000"},
			{"LOCK.ACQUIRE " + b.Prefix + "l", "ERR wrong number of arguments for 'lock.acquire' command"},
			{"GET " + b.Prefix + "k", "v"},
		} {
			if got := cli(t, addr, strings.Fields(c.args)...); got != c.want {
				t.Errorf("redis-cli %s: %q, want %q", c.args, got, c.want)
			}
		}
	})
}
