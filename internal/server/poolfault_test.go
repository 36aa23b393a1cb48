package server_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// TestPoolEjects: as in the usual tutorial, redis-2 is killed and ejected after 3
// failures; its keys go to redis-1 until it is back, 2 s after that at the earliest.
func TestPoolEjects(t *testing.T) {
	const retry = 2 * time.Second
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Eject, o.FailureLimit, o.RetryTimeout = true, 3, retry })
	rdb := p.client(t)
	if err := rdb.MSet(t.Context(), "a", "first", "b", "second").Err(); err != nil {
		t.Fatal(err)
	}
	whole := p.pool.Digest()
	p.nodes[1].Kill()
	eventually(t, "redis-2 is ejected", func() bool { now, _ := p.pool.Nodes()[1].Ejected(); return now })
	if p.pool.Digest() == whole {
		t.Error("the ring without redis-2 has the digest of the whole")
	}
	if err := rdb.Set(t.Context(), "b", "on redis-1", 0).Err(); err != nil {
		t.Errorf("b, while redis-2 is ejected: %v", err)
	}
	if got := p.nodes[0].CLI("GET", "b"); got != "on redis-1" {
		t.Errorf("redis-1 has %q as b", got)
	}
	p.nodes[1].Restart()
	eventually(t, "redis-2 is back", func() bool { now, _ := p.pool.Nodes()[1].Ejected(); return !now })
	// The pool may have ejected it before Kill, which waits for the process, was over.
	if d := time.Since(p.pool.Nodes()[1].EjectedAt()); d < retry {
		t.Errorf("redis-2 was back after %v", d)
	}
	if p.pool.Digest() != whole {
		t.Error("the ring is not what it was")
	}
	if err := rdb.Get(t.Context(), "b").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("b, from redis-2, which is empty: %v", err)
	}
	if info := rdb.Info(t.Context(), "servers").Val(); !strings.Contains(info, "name=redis-2,up=true,ejected=false,ejections=1,") {
		t.Errorf("INFO: %s", info)
	}
}

// TestPoolStaysDown: a server that doesn't come back is not put into the ring again
// when the time is over, as twemproxy does, to fail the next commands.
func TestPoolStaysDown(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Eject, o.FailureLimit, o.RetryTimeout = true, 2, 50*time.Millisecond })
	rdb := p.client(t)
	if err := rdb.Set(t.Context(), "b", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.nodes[1].Kill()
	eventually(t, "redis-2 is ejected", func() bool { now, _ := p.pool.Nodes()[1].Ejected(); return now })
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		if err := rdb.Set(t.Context(), "b", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPoolTimeout: a frozen server costs its own keys alone, an error each; replies
// that come too late are dropped, and the connection is the same.
func TestPoolTimeout(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Timeout = 200 * time.Millisecond })
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("MSET", "a", "1", "b", "0") == "+OK\r\n" })
	p.nodes[1].Pause()
	w.write("INCR b\r\nINCR b\r\nGET a\r\n")
	for range 2 {
		if got := w.read(); !strings.HasPrefix(got, "-ERR redoubt: no reply from back end redis-2 within 200ms: the command may have run") {
			t.Fatalf("got %q", got)
		}
	}
	if got := w.read(); got != bulk("1") && !strings.Contains(got, "redis-1 within") {
		t.Fatalf("GET a: %q", got)
	}
	if got := w.do("INCR", "b"); !strings.HasPrefix(got, "-ERR redoubt: back end redis-2 is unreachable: it does not answer in time") {
		t.Fatalf("behind what is late: %q", got)
	}
	eventually(t, "a is there", func() bool { return w.do("GET", "a") == bulk("1") })
	p.nodes[1].Resume()
	eventually(t, "it answers again", func() bool { return !strings.HasPrefix(w.do("TTL", "b"), "-") })
	eventually(t, "both have run", func() bool { return w.do("GET", "b") == bulk("2") })
	for i := range 40 { // the late replies are in nobody's place
		w.want(bulk(fmt.Sprint("echo-", i)), fmt.Sprint("ECHO echo-", i))
	}
	if st := p.pool.Nodes()[1].Stats()[2]; st.Losses != 0 {
		t.Errorf("%d connections were lost", st.Losses)
	}
}

// TestPoolKilledUnderLoad: while servers of a pool are killed and frozen, errors come
// for their own keys alone, and every value names its key.
func TestPoolKilledUnderLoad(t *testing.T) {
	p := startPool(t, 3)
	const clients, keys = 8, 60
	rdb := p.client(t)
	var safe []string // not on redis-3
	for i := range keys {
		k := fmt.Sprintf("key-%d", i)
		if err := rdb.Set(t.Context(), k, "value of "+k, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if p.pool.Pick([]byte(k)) != p.pool.Nodes()[2] {
			safe = append(safe, k)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rdb := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: time.Minute, PoolSize: 1})
			defer func() { _ = rdb.Close() }()
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				pipe := rdb.Pipeline()
				got := map[string]*redis.StringCmd{}
				for i := range keys {
					k := fmt.Sprintf("key-%d", (i*7+c+round)%keys)
					got[k] = pipe.Get(t.Context(), k)
				}
				many := pipe.MGet(t.Context(), safe...)
				_, _ = pipe.Exec(t.Context())
				for k, cmd := range got {
					v, err := cmd.Result()
					own := p.pool.Pick([]byte(k)) == p.pool.Nodes()[2]
					switch {
					case err == nil && v == "value of "+k:
					case err != nil && own && (strings.Contains(err.Error(), "redis-3") || errors.Is(err, redis.Nil)):
					default:
						t.Errorf("%s: %q, %v", k, v, err)
						return
					}
				}
				for i, v := range many.Val() {
					if v != "value of "+safe[i] {
						t.Errorf("MGET: %s is %q", safe[i], v)
						return
					}
				}
				if many.Err() != nil {
					t.Errorf("MGET: %v", many.Err())
					return
				}
			}
		})
	}
	bad := ""
	for i := range keys {
		if k := fmt.Sprintf("key-%d", i); p.pool.Pick([]byte(k)) == p.pool.Nodes()[2] {
			bad = k
		}
	}
	fails := func() bool {
		err := rdb.Get(t.Context(), bad).Err()
		return err != nil && !errors.Is(err, redis.Nil)
	}
	for range 3 {
		p.nodes[2].Kill()
		eventually(t, "it fails", fails)
		p.nodes[2].Restart()
		eventually(t, "it works", func() bool { return !fails() })
		p.nodes[2].Pause()
		p.nodes[0].CLI("PING")
		p.nodes[2].Resume()
		eventually(t, "it works", func() bool { return !fails() })
	}
	close(stop)
	wg.Wait()
}
