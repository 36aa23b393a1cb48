package sentinel_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/sentinel"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// startWatched starts masters redis-1 …, each with a replica that has its data.
func startWatched(t *testing.T, n int) []redistest.Watched {
	t.Helper()
	var all []redistest.Watched
	for i := range n {
		w := redistest.Watched{Name: fmt.Sprintf("redis-%d", i+1), Master: redistest.Start(t)}
		host, port, _ := net.SplitHostPort(w.Master.Addr())
		r := redistest.Start(t, "--replicaof", host, port)
		await.Soon(t, "the replica is in sync", func() bool {
			return strings.Contains(r.CLI("INFO", "replication"), "master_link_status:up")
		})
		w.Replicas = append(w.Replicas, r)
		all = append(all, w)
	}
	return all
}

func addrs(servers []*redistest.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// A front is a pool of masters, and what serves it.
type front struct {
	pool *proxy.Pool
	addr string
}

// serve serves the masters of a Group as one pool.
func serve(t *testing.T, o sentinel.Options, watched []redistest.Watched) *front {
	t.Helper()
	g, err := sentinel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	opts := proxy.PoolOptions{Name: "alpha", Hash: ring.MD5, Distribution: ring.Ketama, Tag: "{}"}
	for _, w := range watched {
		opts.Servers = append(opts.Servers, proxy.PoolServer{
			Server: ring.Server{Name: w.Name, Weight: 1},
			Backend: g.Master(sentinel.MasterOptions{Name: w.Name, Server: func(addr string) *proxy.Redis {
				return &proxy.Redis{Addr: addr, Label: w.Name}
			}}),
		})
	}
	pool, addr := servertest.ServePool(t, opts)
	return &front{pool, addr}
}

func (f *front) client(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: 30 * time.Second})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A writer writes and reads keys of one server, whose values name them.
type writer struct {
	server       string
	keys         []string
	good, failed atomic.Int64
}

// work is done until stop is closed.
func (w *writer) work(t *testing.T, c *redis.Client, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		key := w.keys[i%len(w.keys)]
		pipe := c.Pipeline()
		set := pipe.Set(t.Context(), key, "value of "+key, 0)
		get := pipe.Get(t.Context(), key)
		_, _ = pipe.Exec(t.Context())
		switch {
		case set.Err() != nil || get.Err() != nil:
			if err := fmt.Sprint(set.Err(), get.Err()); !strings.Contains(err, w.server) && !strings.Contains(err, "READONLY") {
				t.Errorf("%s: %s", key, err)
				return
			}
			w.failed.Add(1)
		case get.Val() != "value of "+key:
			t.Errorf("%s is %q", key, get.Val())
			return
		default:
			w.good.Add(1)
		}
	}
}

// load has 8 clients at work on each server of the pool, until the test ends.
func (f *front) load(t *testing.T) (of map[string]*writer, end func()) {
	t.Helper()
	of = map[string]*writer{}
	for i := range 64 {
		key := fmt.Sprintf("key:%d", i)
		name := f.pool.Pick([]byte(key)).Name()
		if of[name] == nil {
			of[name] = &writer{server: name}
		}
		of[name].keys = append(of[name].keys, key)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, w := range of {
		for range 8 {
			c := f.client(t)
			wg.Go(func() { w.work(t, c, stop) })
		}
	}
	end = sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	t.Cleanup(end)
	return of, end
}

// again waits until much of the load on a server goes well.
func again(t *testing.T, w *writer) {
	t.Helper()
	from := w.good.Load()
	await.Soon(t, "its commands work again", func() bool { return t.Failed() || w.good.Load() > from+500 })
}

// TestFailOver: a master is killed under load, and another is made a replica by hand. Only
// commands for its keys fail, until its replica has taken over, and no key moves.
func TestFailOver(t *testing.T) {
	watched := startWatched(t, 2)
	sentinels := redistest.StartSentinels(t, 3, watched)
	f := serve(t, sentinel.Options{Addrs: addrs(sentinels), Poll: time.Hour}, watched)
	digest := f.pool.Digest()
	of, end := f.load(t)
	one, two := of["redis-1"], of["redis-2"]
	again(t, one)
	again(t, two)

	watched[0].Master.Kill()
	await.Soon(t, "its commands fail", func() bool { return one.failed.Load() > 0 })
	again(t, one)
	if n := two.failed.Load(); n != 0 {
		t.Errorf("%d commands for the other server failed", n)
	}

	failed := one.failed.Load()
	blocked := f.client(t)
	popped := make(chan error, 1)
	go func() { popped <- blocked.BLPop(t.Context(), 0, "{"+two.keys[0]+"}:list").Err() }()
	await.Soon(t, "a client waits", func() bool {
		return strings.Contains(watched[1].Master.CLI("CLIENT", "LIST"), "cmd=blpop")
	})
	if got := sentinels[0].CLI("SENTINEL", "FAILOVER", "redis-2"); got != "OK" {
		t.Fatal(got)
	}
	if err := <-popped; err == nil {
		t.Error("what waited at the old master got no error")
	}
	if !strings.Contains(watched[1].Master.CLI("INFO", "replication"), "role:master") {
		t.Error("the old master was left only when the Sentinels made it a replica, some 10 s later")
	}
	again(t, two)
	if got := watched[1].Master.CLI("CLIENT", "LIST"); strings.Contains(got, "cmd=set") || strings.Contains(got, "cmd=get") {
		t.Errorf("the old master still has clients:\n%s", got)
	}
	end()
	if n := one.failed.Load(); n != failed {
		t.Errorf("%d commands for the other server failed", n-failed)
	}
	for i, w := range []*writer{one, two} {
		for _, k := range w.keys {
			if got := watched[i].Replicas[0].CLI("GET", k); got != "value of "+k {
				t.Errorf("%s has %q for %s", watched[i].Name, got, k)
			}
		}
	}
	if got := f.pool.Digest(); got != digest {
		t.Errorf("the ring has changed: %s, %s", digest, got)
	}
}

// TestSilentMaster: a master that hangs is left once the Sentinels name another, even if
// the message is missed: here they may not be listened to.
func TestSilentMaster(t *testing.T) {
	watched := startWatched(t, 1)
	sentinels := redistest.StartSentinels(t, 3, watched, "user deaf on >pw +@all -subscribe -psubscribe ~* &*")
	f := serve(t, sentinel.Options{Addrs: addrs(sentinels), Username: "deaf", Password: "pw", Poll: 200 * time.Millisecond}, watched)
	c := f.client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	watched[0].Master.Pause()
	if err := c.Set(t.Context(), "k", "lost", 0).Err(); err == nil || !strings.Contains(err.Error(), "may have run") {
		t.Errorf("what was in flight: %v", err)
	}
	await.Soon(t, "the replica is the master", func() bool { return c.Set(t.Context(), "k", "w", 0).Err() == nil })
	if got := watched[0].Replicas[0].CLI("GET", "k"); got != "w" {
		t.Errorf("the new master has %q", got)
	}
	watched[0].Master.Resume()
	if got := watched[0].Master.CLI("CLIENT", "LIST"); strings.Contains(got, "cmd=set") {
		t.Errorf("the old one still has clients:\n%s", got)
	}
}

// TestStaleSentinel: a Sentinel that has missed a switch doesn't count.
func TestStaleSentinel(t *testing.T) {
	watched := startWatched(t, 1)
	old, replica := watched[0].Master, watched[0].Replicas[0]
	stale := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "redis-1", Master: old, Replicas: watched[0].Replicas}})
	know := redistest.StartSentinels(t, 2, watched)
	_ = stale[0].CLI("SENTINEL", "REMOVE", "redis-1")
	if got := know[0].CLI("SENTINEL", "FAILOVER", "redis-1"); got != "OK" {
		t.Fatal(got)
	}
	_, now, _ := net.SplitHostPort(replica.Addr())
	for _, s := range know {
		await.Soon(t, "they know", func() bool {
			return strings.Contains(s.CLI("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "redis-1"), now)
		})
	}
	other := redistest.Start(t) // a master, as the old one would be behind a cut
	_, port, _ := net.SplitHostPort(other.Addr())
	if got := stale[0].CLI("SENTINEL", "MONITOR", "redis-1", "127.0.0.1", port, "1"); got != "OK" {
		t.Fatal(got)
	}
	for i := range 20 {
		f := serve(t, sentinel.Options{Addrs: addrs(append(stale, know...)), Poll: time.Millisecond}, watched)
		if err := f.client(t).Set(t.Context(), "k", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := other.CLI("DBSIZE"); got != "0" {
		t.Errorf("%s keys went where the stale one leads", got)
	}
	if got := replica.CLI("GET", "k"); got != "19" {
		t.Errorf("the master has %q", got)
	}
}

// TestSwitchThatOneKnows: while one Sentinel knows of a switch and two don't yet, a lost
// connection doesn't lead back.
func TestSwitchThatOneKnows(t *testing.T) {
	watched := startWatched(t, 1)
	now := watched[0].Replicas[0]
	others := redistest.StartSentinels(t, 2, nil)
	know := redistest.StartSentinels(t, 1, watched)[0]
	if got := know.CLI("SENTINEL", "FAILOVER", "redis-1"); got != "OK" {
		t.Fatal(got)
	}
	_, port, _ := net.SplitHostPort(now.Addr())
	await.Soon(t, "it knows", func() bool {
		return strings.Contains(know.CLI("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "redis-1"), port)
	})
	f := serve(t, sentinel.Options{Addrs: addrs(append(others, know)), Poll: time.Hour}, watched)
	c := f.client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	behind := redistest.Start(t) // a master, as the old one would be behind a cut
	_, port, _ = net.SplitHostPort(behind.Addr())
	know.Pause()
	for _, s := range others {
		if got := s.CLI("SENTINEL", "MONITOR", "redis-1", "127.0.0.1", port, "1"); got != "OK" {
			t.Fatal(got)
		}
	}
	_ = now.CLI("CONFIG", "SET", "requirepass", "x")
	_ = now.CLI("-a", "x", "CLIENT", "KILL", "TYPE", "normal")
	await.Soon(t, "it can't be connected to", func() bool { return c.Get(t.Context(), "k").Err() != nil })
	await.Always(t, 300*time.Millisecond, "nothing goes back", func() bool {
		_ = c.Set(t.Context(), "k", "w", 0).Err()
		return behind.CLI("DBSIZE") == "0"
	})
	_ = now.CLI("-a", "x", "CONFIG", "SET", "requirepass", "")
	know.Resume()
	await.Soon(t, "it goes on", func() bool { return c.Set(t.Context(), "k", "x", 0).Err() == nil })
	if got := behind.CLI("DBSIZE"); got != "0" {
		t.Errorf("%s keys went back", got)
	}
}

// TestNoSentinel: what is known is used while no Sentinel answers, and what is not is an
// error that says so.
func TestNoSentinel(t *testing.T) {
	watched := startWatched(t, 1)
	sentinels := redistest.StartSentinels(t, 1, watched)
	f := serve(t, sentinel.Options{Addrs: addrs(sentinels)}, watched)
	c := f.client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	sentinels[0].Kill()
	watched[0].Master.Kill()
	await.Soon(t, "it is found down", func() bool {
		err := c.Get(t.Context(), "k").Err()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	})
	watched[0].Master.Restart()
	await.Soon(t, "there is a connection again", func() bool { return c.Set(t.Context(), "k", "v", 0).Err() == nil })

	refused := func(why string) {
		t.Helper()
		f := serve(t, sentinel.Options{Addrs: addrs(sentinels)}, watched)
		err := f.client(t).Get(t.Context(), "k").Err()
		for _, want := range []string{"back end redis-1 is unreachable", `no Sentinel knows where the master "redis-1" is: Sentinel ` + sentinels[0].Addr(), why} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
	}
	refused("connection refused")
	sentinels[0].Restart()
	if got := sentinels[0].CLI("SENTINEL", "REMOVE", "redis-1"); got != "OK" {
		t.Fatal(got)
	}
	refused("no such master")
}
