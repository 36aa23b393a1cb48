package tests

import (
	"bytes"
	"context"
	"fmt"
	"net"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// servePool runs a server in front of a pool of three redis-servers.
func servePool(t *testing.T) (addr string) {
	t.Helper()
	opts := proxy.PoolOptions{Name: "alpha", Tag: "{}"}
	for i := range 3 {
		opts.Servers = append(opts.Servers, proxy.PoolServer{
			Server: ring.Server{Name: fmt.Sprintf("redis-%d", i+1), Weight: 1}, Backend: &proxy.Redis{Addr: redistest.Start(t).Addr()},
		})
	}
	_, addr = servertest.ServePool(t, opts)
	return addr
}

// TestPoolGoRedis: go-redis works on a pool with its defaults: RESP3, pipelines,
// transactions, waiting, and messages.
func TestPoolGoRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: servePool(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for u := range 8 {
		wg.Go(func() {
			for i := range 50 {
				key := fmt.Sprintf("{user%d}:%d", u, i)
				_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, key, "is "+key, 0)
					p.Incr(ctx, "{user"+fmt.Sprint(u)+"}:n")
					return nil
				})
				if got := rdb.MGet(ctx, key, "none").Val(); err != nil || len(got) != 2 || got[0] != "is "+key || got[1] != nil {
					t.Errorf("%s: %v, %v", key, got, err)
				}
			}
			counter := fmt.Sprintf("{user%d}:n", u)
			err := rdb.Watch(ctx, func(tx *redis.Tx) error {
				n, err := tx.Get(ctx, counter).Int()
				if err != nil {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, counter, n*2, 0)
					return nil
				})
				return err
			}, counter)
			if n, _ := rdb.Get(ctx, counter).Int(); err != nil || n != 100 {
				t.Errorf("%s is %d, %v", counter, n, err)
			}
		})
	}
	wg.Wait()
	if n := rdb.DBSize(ctx).Val(); n != 8*51 {
		t.Errorf("%d keys", n)
	}

	sub := rdb.Subscribe(ctx, "news")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if n := rdb.Publish(ctx, "news", "hello").Val(); n != 1 {
		t.Errorf("%d heard it", n)
	}
	if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "hello" {
		t.Errorf("got %v, %v", m, err)
	}

	waits := make(chan []string, 1)
	go func() { waits <- rdb.BLPop(ctx, 0, "jobs").Val() }()
	rdb.RPush(ctx, "jobs", "one")
	if got := <-waits; fmt.Sprint(got) != "[jobs one]" {
		t.Errorf("BLPOP: %v", got)
	}
	hello := redis.NewScript("return ARGV[1] .. KEYS[1]")
	if v, err := hello.Run(ctx, rdb, []string{"k"}, "hello ").Text(); err != nil || v != "hello k" {
		t.Errorf("a script: %q, %v", v, err)
	}
	if got, err := rdb.Do(ctx, "LOCK.ACQUIRE", "l", 60000, "BLOCK", 1000).Slice(); err != nil || len(got) != 3 {
		t.Errorf("LOCK.ACQUIRE: %v, %v", got, err)
	}
	var keys []string
	for it := rdb.Scan(ctx, 0, "{user3}:*", 100).Iterator(); it.Next(ctx); {
		keys = append(keys, it.Val())
	}
	if len(keys) != 51 {
		t.Errorf("SCAN: %d keys", len(keys))
	}
}

// TestPoolCLI: redis-cli works on a pool.
func TestPoolCLI(t *testing.T) {
	_, port, err := net.SplitHostPort(servePool(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), "redis-cli", "-p", port)
	cmd.Stdin = strings.NewReader("SET a 1\nMSET b 2 c 3 d 4\nMGET a b c d none\nMULTI\nINCR a\nGET a\nEXEC\nCONFIG GET x\nDBSIZE\n")
	out, err := cmd.CombinedOutput()
	want := "OK\nOK\n1\n2\n3\n4\n\nOK\nQUEUED\nQUEUED\n2\n2\nERR unknown command 'CONFIG': it is not supported through a pool: connect to one of its servers for it\n\n4\n"
	if err != nil || string(out) != want {
		t.Errorf("redis-cli: %v, %q; want %q", err, out, want)
	}
}

// TestPoolPython: redis-py works on a pool.
func TestPoolPython(t *testing.T) {
	_, port, err := net.SplitHostPort(servePool(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), programs.Python(t, "redis"), "-", port) //nolint:gosec // one of two
	cmd.Stdin = strings.NewReader(pythonScript)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.String() != "fine\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}

const pythonScript = `
import sys, threading, redis
r = redis.Redis(port=int(sys.argv[1]), decode_responses=True, socket_timeout=30)
keys = ["k%d" % i for i in range(100)]
assert r.mset({k: "is " + k for k in keys})
assert r.mget(keys) == ["is " + k for k in keys]
p = r.pipeline(transaction=False)
for k in keys: p.get(k)
assert p.execute() == ["is " + k for k in keys]
def more(tx):
    n = int(tx.get("{n}") or 0)
    tx.multi()
    tx.set("{n}", n + 1)
    tx.lpush("{n}:list", n)
threads = [threading.Thread(target=lambda: r.transaction(more, "{n}")) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert r.get("{n}") == "8" and r.llen("{n}:list") == 8
s = r.pubsub(ignore_subscribe_messages=False)
s.subscribe("a", "b")
s.psubscribe("p*")
assert [s.get_message(timeout=30)["data"] for _ in range(3)] == [1, 2, 3]
for ch in ["a", "b", "p1"]:
    assert r.publish(ch, "to " + ch) == 1
    m = s.get_message(timeout=30)
    assert (m["channel"], m["data"]) == (ch, "to " + ch), m
s.unsubscribe(); s.punsubscribe()
assert [s.get_message(timeout=30)["type"] for _ in range(3)] == ["unsubscribe"] * 2 + ["punsubscribe"]
assert r.blpop("{n}:list", 1) == ("{n}:list", "7")
f = r.register_script("return redis.call('GET', KEYS[1])")
assert f(keys=["k1"]) == "is k1"
assert sorted(r.scan_iter("k*", count=10)) == sorted(keys)
assert r.dbsize() == 102 and r.delete(*keys) == 100
try:
    r.config_get("x")
    assert False
except redis.ResponseError as e:
    assert "unknown command" in str(e), e
print("fine")
`
