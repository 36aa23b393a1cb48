package goredis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/redoubttest"
)

// newRing returns a Ring of shards at addrs that looks at them every 20 ms.
func newRing(t *testing.T, addrs ...string) *redis.Ring {
	t.Helper()
	opts := &redis.RingOptions{Addrs: make(map[string]string), HeartbeatFrequency: 20 * time.Millisecond}
	for i, addr := range addrs {
		opts.Addrs[fmt.Sprint("shard", i)] = addr
	}
	ring := redis.NewRing(opts)
	t.Cleanup(func() { _ = ring.Close() })
	return ring
}

func threeServers(t *testing.T) (servers []*redistest.Server, addrs []string) {
	t.Helper()
	for range 3 {
		s := redistest.Start(t)
		servers, addrs = append(servers, s), append(addrs, s.Addr())
	}
	return servers, addrs
}

func TestConformanceRing(t *testing.T) {
	_, addrs := threeServers(t)
	redoubttest.Run(t, func(t *testing.T) redoubt.Conn { return wrapped(t, newRing(t, addrs...)) })
}

func TestConformanceRingFaults(t *testing.T) {
	redoubttest.RunFaults(t, redoubttest.Network{
		Server: func(t *testing.T) string { return redistest.Start(t).Addr() },
		Proxy:  func(t *testing.T, addr string) redoubttest.Proxy { return proxy{faultnet.New(t, addr)} },
		Open: func(t *testing.T, addr string) redoubt.Conn {
			ring := newRing(t, addr)
			return wrapped(t, ring)
		},
	})
}

// TestRingPlaces: while all shards are up, a key is where the Ring has it. A program finds by the Ring what Redoubt wrote.
func TestRingPlaces(t *testing.T) {
	_, addrs := threeServers(t)
	ring := newRing(t, addrs...)
	c := wrapped(t, ring)
	topology := c.(redoubt.Topology)
	used := make(map[string]bool)
	for i := range 100 {
		for _, key := range []string{fmt.Sprint(i), fmt.Sprintf("a{%d}b", i), fmt.Sprintf("{}%d", i), fmt.Sprintf("{%d", i)} {
			if r := c.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"v"}}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got, err := ring.Get(t.Context(), key).Result(); got != "v" || err != nil {
				t.Errorf("%q by the Ring: %q, %v", key, got, err)
			}
			used[topology.Node(key)] = true
		}
	}
	if len(used) != len(addrs) {
		t.Errorf("keys are on %v, want all of %v", used, addrs)
	}
	primaries, err := topology.Primaries(t.Context())
	if err != nil || len(primaries) != len(addrs) {
		t.Errorf("%d primaries, %v", len(primaries), err)
	}
}

// TestRingKeepsPlaces: the Ring takes a dead shard out and moves its keys. A lock that is held there is not free elsewhere.
//
// Promise: When a shard of a Ring is down, no key moves: calls for its keys fail, and calls for others go on.
func TestRingKeepsPlaces(t *testing.T) {
	servers, addrs := threeServers(t)
	ring := newRing(t, addrs...)
	conn := wrapped(t, ring)
	client := clientOf(t, conn)
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dead := servers[0]
	var on, off []string // names on the dead shard, and on others
	for i := 0; len(on) < 5 || len(off) < 5; i++ {
		name := fmt.Sprint("name", i)
		if client.Node("rd:{"+name+"}:lock") == dead.Addr() {
			on = append(on, name)
		} else {
			off = append(off, name)
		}
	}
	if _, err := locks.Acquire(t.Context(), on[0]); err != nil {
		t.Fatal(err)
	}
	dead.Kill()
	eventually(t, "the Ring has taken the shard out", func() bool { return ring.Len() == 2 })
	if err := ring.Set(t.Context(), "{"+on[0]+"}", "v", 0).Err(); err != nil {
		t.Fatalf("the Ring doesn't move keys: the test tests nothing: %v", err)
	}
	for _, name := range on {
		if _, _, err := locks.TryAcquire(t.Context(), name); !errors.Is(err, redoubt.ErrUnavailable) {
			t.Errorf("a lock of the dead shard: %v", err)
		}
	}
	var held *lock.Lease
	for _, name := range off {
		var err error
		if held, _, err = locks.TryAcquire(t.Context(), name); err != nil || held == nil {
			t.Fatalf("a lock of another shard: %v", err)
		}
	}
	busy := held.Name()
	// A waiter of a healthy shard doesn't wait for the dead one.
	waiting := make(chan error, 1)
	go func() {
		lease, err := locks.Acquire(t.Context(), busy)
		if err == nil {
			err = lease.Release(t.Context())
		}
		waiting <- err
	}()
	if _, err := goredis.Wrap(ring); !errors.Is(err, goredis.ErrUnsupportedClient) || !strings.Contains(fmt.Sprint(err), dead.Addr()) {
		t.Errorf("a Ring without the dead shard: %v", err)
	}
	eventually(t, "a client waits", func() bool {
		info, err := locks.Info(t.Context(), busy)
		return err == nil && info.Waiters > 0
	})
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("a waiter of another shard: %v", err)
	}
	dead.Restart()
	eventually(t, "the shard is back", func() bool {
		_, _, err := locks.TryAcquire(t.Context(), on[1])
		return err == nil
	})
}

// TestRingRefusesSeveralShards: no command runs on one shard with keys of another.
func TestRingRefusesSeveralShards(t *testing.T) {
	_, addrs := threeServers(t)
	c := wrapped(t, newRing(t, addrs...))
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint(i))
	}
	script := redoubt.NewScript("two", "return redis.call('SET', KEYS[1], 'v')")
	for _, r := range append(c.Pipeline(t.Context(), []redoubt.Cmd{{Name: "DEL", Keys: keys}, {Script: script, Keys: keys}}),
		c.Do(t.Context(), redoubt.Cmd{Name: "MGET", Keys: keys})) {
		if !redoubt.IsCode(r.Err, "CROSSSLOT") {
			t.Errorf("got %#v", r)
		}
	}
}

// TestRingMulti: names of one hash slot may be on several shards of a Ring. A lock.Multi takes each on its own.
func TestRingMulti(t *testing.T) {
	_, addrs := threeServers(t)
	client := clientOf(t, wrapped(t, newRing(t, addrs...)))
	multi, err := lock.NewMulti(client, lock.MultiOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint16]string)
	for i := 0; ; i++ {
		name := fmt.Sprint("name", i)
		slot := keyslot.Of([]byte(name))
		other, ok := seen[slot]
		if !ok || client.Node("{"+name+"}") == client.Node("{"+other+"}") {
			seen[slot] = name
			continue
		}
		lease, err := multi.Acquire(t.Context(), []string{name, other})
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
}

// TestRingSubscription: an ordinary channel gets the messages of all shards, and a shard that is silent is subscribed later.
func TestRingSubscription(t *testing.T) {
	servers, addrs := threeServers(t)
	c := wrapped(t, newRing(t, addrs...)).(redoubt.Subscriber)
	events := make(chan string, 100)
	listen := func(channel string) {
		t.Helper()
		stop, err := c.Subscribe(t.Context(), channel, false, func(payload string, lost bool) {
			if lost {
				payload = "lost"
			}
			events <- payload
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	listen("ch")
	for _, s := range servers {
		s.CLI("PUBLISH", "ch", s.Addr())
		if got := <-events; got != s.Addr() {
			t.Errorf("got %q, want %q", got, s.Addr())
		}
	}
	servers[0].Pause()
	listen("late")
	servers[1].CLI("PUBLISH", "late", "from another")
	if got := <-events; got != "from another" {
		t.Errorf("got %q", got)
	}
	servers[0].Resume()
	if got := <-events; got != "lost" {
		t.Errorf("got %q", got)
	}
	servers[0].CLI("PUBLISH", "late", "at last")
	for got := <-events; got != "at last"; got = <-events {
		if got != "lost" {
			t.Errorf("got %q", got)
		}
	}
}
