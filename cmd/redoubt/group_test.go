//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// A load is clients at work on a server. No command of theirs may fail.
type load struct {
	good atomic.Int64
	stop context.CancelFunc
	work sync.WaitGroup
}

// startLoad has n clients work until the test ends. step does one piece of work of a client.
func startLoad(t *testing.T, n int, step func(ctx context.Context, client, i int) error) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	for client := range n {
		l.work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := step(context.WithoutCancel(ctx), client, i); err != nil {
					t.Errorf("client %d, step %d: %v", client, i, err)
					return
				}
				l.good.Add(1)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.work.Wait()
}

// goesOn waits until the clients have done more work.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	from := l.good.Load()
	eventually(t, "the clients work", func() bool { return t.Failed() || l.good.Load() > from+50 })
}

// lastLine returns the last line of a text that contains words.
func lastLine(text, words string) (last string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, words) {
			last = line
		}
	}
	return last
}

// TestServeSentinel: `serve --backend redis-sentinel://…` uses the prefix and the database of its command line, and
// the library behind it sees no failover: not one that is asked for, and not a killed master.
func TestServeSentinel(t *testing.T) {
	master := redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replicas := []*redistest.Server{redistest.Start(t, "--replicaof", host, port), redistest.Start(t, "--replicaof", host, port)}
	sentinels := redistest.StartSentinels(t, 3, []redistest.Watched{{Name: "orders", Master: master, Replicas: replicas}})
	var addrs []string
	for _, s := range sentinels {
		addrs = append(addrs, s.Addr())
	}
	s := startServe(t, "--backend=redis-sentinel://"+strings.Join(addrs, ",")+"/orders/2", "--prefix=shop", "--max-clients=100")
	mustContain(t, "the log", fmt.Sprint(s.line), `master "orders" of Sentinels `+addrs[0])

	// DownAfter would end a call on a machine that is busy.
	client, err := redoubt.Open(t.Context(), "redis://"+s.addr+"?read_timeout=30s", redoubt.Options{Prefix: "shop", DownAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, 4, func(ctx context.Context, c, i int) error {
		key := fmt.Sprint("key", c)
		set := client.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{fmt.Sprint(i)}, Flags: redoubt.Idempotent})
		return set.Err
	})
	raw := dial(t, s.addr)
	conn := raw.Conn()
	defer func() { _ = conn.Close() }()
	id, err := conn.ClientID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	l.goesOn(t)
	lease, err := locks.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := master.CLI("-n", "2", "EXISTS", "shop:{x}:lock"); got != "1" {
		t.Errorf("the lock has not the prefix and the database of serve: %s", got)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do(t.Context(), "LOCK.ACQUIRE", "y", 60_000).Result(); err != nil {
		t.Fatal(err)
	}
	if got := master.CLI("-n", "2", "EXISTS", "shop:{y}:lock"); got != "1" {
		t.Errorf("LOCK.ACQUIRE has not the prefix of serve: %s", got)
	}

	at := master
	moves := func(how string, move func()) {
		t.Helper()
		before := strings.Count(s.stderr.String(), "a server's master has changed")
		move()
		eventually(t, "the switch is logged: "+how, func() bool {
			return t.Failed() || strings.Count(s.stderr.String(), "a server's master has changed") > before
		})
		for _, r := range replicas {
			if strings.Contains(lastLine(s.stderr.String(), "a server's master has changed"), fmt.Sprintf(`"to":%q`, r.Addr())) {
				at = r
			}
		}
		l.goesOn(t)
		if !strings.Contains(at.CLI("CLIENT", "LIST"), "cmd=set") {
			t.Errorf("%s: the new master %s is not written to", how, at.Addr())
		}
	}
	moves("asked for", func() {
		if got := sentinels[0].CLI("SENTINEL", "FAILOVER", "orders"); got != "OK" {
			t.Fatal(got)
		}
	})
	other := replicas[0]
	if other == at {
		other = replicas[1]
	}
	_, port, _ = net.SplitHostPort(at.Addr())
	eventually(t, "the other replica follows", func() bool {
		info := other.CLI("INFO", "replication")
		return strings.Contains(info, "master_port:"+port) && strings.Contains(info, "master_link_status:up")
	})
	eventually(t, "the Sentinels know that", func() bool {
		for _, w := range sentinels {
			if !strings.Contains(w.CLI("SENTINEL", "REPLICAS", "orders"), other.Addr()) || !strings.HasPrefix(w.CLI("SENTINEL", "CKQUORUM", "orders"), "OK 3") {
				return false
			}
		}
		return true
	})
	moves("killed", at.Kill)
	if now, err := conn.ClientID(t.Context()).Result(); now != id || err != nil {
		t.Errorf("the client was %d and is %d, %v", id, now, err)
	}
	l.end()
	status, body := s.get(t, "/readyz")
	_, metrics := s.get(t, "/metrics")
	if status != http.StatusOK || body != "ok\n" {
		t.Errorf("/readyz is %d, %q", status, body)
	}
	mustContain(t, "metrics", metrics, "redoubt_clients ", `redoubt_pool_server_up{pool="orders",protocol="resp3",server="orders"} 1`)
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, s.stderr.String())
	}
}

// TestServeCluster: `serve --backend` takes a cluster by its own URL or by that of any node. Clients that know nothing
// of clusters see no error while slots move.
func TestServeCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	nodes := cluster.Nodes()
	for i, url := range []string{"redis-cluster://" + strings.Join(cluster.Addrs()[:2], ","), nodes[1].URL()} {
		s := startServe(t, "--backend="+url, "--prefix=shop")
		c := redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 5, MaxRetries: -1})
		defer func() { _ = c.Close() }()
		const clients = 4
		counts := [clients]int64{}
		l := startLoad(t, clients, func(ctx context.Context, client, _ int) error {
			key := fmt.Sprintf("{moving}:%s:%d", s.addr, client)
			n, err := c.Incr(ctx, key).Result()
			if counts[client]++; err == nil && n != counts[client] {
				err = fmt.Errorf("%s is %d after %d increments", key, n, counts[client])
			}
			if err == nil {
				err = c.MSet(ctx, "a", 1, "b", 2, "c", 3).Err()
			}
			return err
		})
		l.goesOn(t)
		slot := cluster.Slot("{moving}")
		from := cluster.Primary("{moving}")
		for range 2 {
			to := nodes[0]
			if to == from {
				to = nodes[1]
			}
			cluster.Move(slot, from, to, func() { l.goesOn(t) })
			l.goesOn(t)
			from = to
		}
		l.end()
		name := fmt.Sprint("y", i)
		if _, err := c.Do(t.Context(), "LOCK.ACQUIRE", name, 60_000).Result(); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Exists(t.Context(), "shop:{"+name+"}:lock").Result(); n != 1 || err != nil {
			t.Errorf("LOCK.ACQUIRE has not the prefix of serve: %d, %v", n, err)
		}
		_, metrics := s.get(t, "/metrics")
		mustContain(t, "metrics", metrics, fmt.Sprintf(`redoubt_pool_server_up{pool="cluster",protocol="resp3",server=%q} 1`, nodes[2].Addr()))
		s.signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			t.Errorf("exit %d: %s", code, s.stderr.String())
		}
	}
}

// TestServeClusterFailover: a master of the cluster behind `serve --backend` dies. Clients wait for its replica, and only
// the commands that it may have run fail. In a pipeline, a command behind which others have left may also be told that the
// cluster is down; the others keep their order.
func TestServeClusterFailover(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1)
	s := startServe(t, "--backend=redis-cluster://"+strings.Join(cluster.Addrs()[:2], ","))
	c := redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 12, MaxRetries: -1, ReadTimeout: time.Minute})
	defer func() { _ = c.Close() }()
	lost := func(err error) bool { return err != nil && strings.Contains(err.Error(), "the command may have run") }
	down := func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN ") }
	l := startLoad(t, 8, func(ctx context.Context, client, i int) error {
		key := fmt.Sprintf("%d:%d", client, i)
		if i%2 == 0 {
			if err := c.Set(ctx, key, i, 0).Err(); err != nil && !lost(err) {
				return err
			}
			if err := c.Do(ctx, "CL.THROTTLE", key, 10, 10, 60).Err(); err != nil && !lost(err) {
				return err
			}
			return nil
		}
		pipe := c.Pipeline()
		for range 5 {
			pipe.Incr(ctx, key)
		}
		cmds, _ := pipe.Exec(ctx)
		last := int64(0)
		for _, cmd := range cmds {
			switch n, err := cmd.(*redis.IntCmd).Result(); {
			case lost(err), down(err):
			case err != nil:
				return err
			case n <= last:
				return fmt.Errorf("%s is %d after it was %d", key, n, last)
			default:
				last = n
			}
		}
		return nil
	})
	l.goesOn(t)
	cluster.Primary("{moving}").Kill()
	eventually(t, "a replica has the slots", func() bool { return c.Set(t.Context(), "{moving}", 1, 0).Err() == nil })
	l.goesOn(t)
	l.end()
}

// TestServeClusterHealth: /readyz names a master that is down.
func TestServeClusterHealth(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	s := startServe(t, "--backend=redis-cluster://"+cluster.Addrs()[0])
	if status, body := s.get(t, "/readyz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/readyz is %d, %q", status, body)
	}
	gone := cluster.Nodes()[2]
	gone.Kill()
	defer func(killed time.Time) {
		if took := time.Since(killed); took > 900*time.Millisecond { // a probe has a second
			t.Errorf("/readyz took %v to name it: it waits for another connection, as commands do", took)
		}
	}(time.Now())
	eventually(t, "/readyz names it", func() bool {
		_, body := s.get(t, "/readyz")
		return body == "ok\npool cluster: server "+gone.Addr()+" is down\n"
	})
}

// TestServeGroupRefuses: the URL of a Sentinel group or a cluster is refused with what is wrong with it.
func TestServeGroupRefuses(t *testing.T) {
	node := redistest.StartCluster(t, 1, 0).Nodes()[0]
	_, port, _ := net.SplitHostPort(node.Addr())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--backend redis-cluster://h?pool_size=7", exitUsage, `leave out the URL's option "pool_size": it has no effect here, because clients share the connections to each server`},
		{"--backend redis-sentinel://h/m?client_name=x", exitUsage, `leave out the URL's option "client_name": it has no effect here`},
		{"--backend redis-sentinel://:s3cret@h/m --dir /data", exitUsage, `dir is /data, but the back end is master "m" of Sentinels h:26379`},
		{"--backend redis-cluster://:s3cret@h --fsync always", exitUsage, "fsync is always, but the back end is h:6379"},
		{"--backend redis-sentinel://:s3cret@127.0.0.1:1/m", exitUnavailable, `back end master "m" of Sentinels 127.0.0.1:1 `},
		{"--backend redis-cluster://:s3cret@127.0.0.1:1", exitUnavailable, "back end 127.0.0.1:1 does not answer"},
		{"--backend redis://127.0.0.1:" + port + "?cluster=false", exitUsage, "is a node of a cluster; serve needs the cluster: name it by redis-cluster://host:port"},
		{"--backend redis://127.0.0.1:" + port + "/3", exitUsage, "it is a cluster, which has no database 3"},
	} {
		code, _, stderr := runToEnd(t, nil, append([]string{"serve", "--http", "", "--listen=127.0.0.1:0"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "s3cret") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("serve %s: exit %d, %q; want %d, %q in one line", c.args, code, stderr, c.code, c.want)
		}
	}
}
