package goredis_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// clientOf returns a Client that takes a server to be down after 200 ms.
func clientOf(t *testing.T, conn redoubt.Conn) *redoubt.Client {
	t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{DownAfter: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var set = redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}

// A server that is stopped or killed ends the calls without a deadline: calls under way soon, blocking ones
// too, and later calls at once. One call asks whether the server is back.
//
// Promise: A call to a server that is down ends once the server was silent for DownAfter.
func TestServerDown(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, s *redistest.Server) redoubt.Conn{
		"Wrap": func(t *testing.T, s *redistest.Server) redoubt.Conn { return wrap(t, &redis.Options{Addr: s.Addr()}) },
		"Open": func(t *testing.T, s *redistest.Server) redoubt.Conn { return dial(t, s.URL()) },
	} {
		for fault, steps := range map[string]struct{ begin, end func(*redistest.Server) }{
			"silent": {(*redistest.Server).Pause, (*redistest.Server).Resume},
			"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		} {
			t.Run(name+" "+fault, func(t *testing.T) {
				s := redistest.Start(t)
				c := clientOf(t, open(t, s))
				if err := c.Do(t.Context(), set).Err; err != nil {
					t.Fatal(err)
				}
				before := time.Now()
				steps.begin(s)
				pulse := await.NewPulse(t)
				errs := make([]error, 50) // more than have a connection of their own
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = c.Do(t.Context(), set).Err })
				}
				wg.Wait()
				if d := pulse.Now(); d > 2*time.Second {
					t.Errorf("the first calls ended after %v", d)
				}
				var since time.Time
				for _, err := range errs {
					var down *redoubt.UnavailableError
					if errors.Is(err, redoubt.ErrUnknownOutcome) && !errors.Is(err, redoubt.ErrUnavailable) {
						continue // its connection was closed when the server was killed
					}
					if !errors.As(err, &down) {
						t.Fatalf("got %v", err)
					}
					since = down.Since
				}
				if since.Before(before.Add(-time.Second)) || since.After(time.Now()) {
					t.Errorf("down since %v; it was up at %v", since, before)
				}

				var slow atomic.Int64
				for range 1000 {
					wg.Go(func() {
						began := pulse.Now()
						if err := c.Do(t.Context(), set).Err; !errors.Is(err, redoubt.ErrUnavailable) || errors.Is(err, redoubt.ErrUnknownOutcome) {
							t.Errorf("got %v", err)
						}
						if pulse.Now()-began > 100*time.Millisecond {
							slow.Add(1)
						}
					})
				}
				wg.Wait()
				if n := slow.Load(); n > 10 {
					t.Errorf("%d of 1000 calls were slow to fail, want one that asks", n)
				}

				steps.end(s)
				await.Soon(t, "the server is back", func() bool { return c.Do(t.Context(), set).Err == nil })
			})
		}
	}
}

// A blocking command, and a call that waits for its turn among many, lasts as long as the server lives,
// however long that is compared with DownAfter.
func TestBlockingOnALivingServer(t *testing.T) {
	s := redistest.Start(t)
	c := clientOf(t, dial(t, s.URL()))
	blocked := make(chan redoubt.Reply, 2)
	for _, key := range []string{"q", "lost"} {
		go func() {
			blocked <- c.Do(t.Context(), redoubt.Cmd{Name: "BLPOP", Keys: []string{key}, Args: []string{"0"}, Flags: redoubt.Blocking})
		}()
	}
	before := s.CLI("INFO", "commandstats")
	await.Soon(t, "the server is asked for a sign of life", func() bool {
		return pings(s.CLI("INFO", "commandstats")) != pings(before)
	})
	s.CLI("RPUSH", "q", "v")
	if r := <-blocked; r.Err != nil {
		t.Errorf("a blocking command on a server that lives: %v", r.Err)
	}
	s.Pause()
	defer s.Resume()
	if r := <-blocked; !errors.Is(r.Err, redoubt.ErrUnavailable) {
		t.Errorf("a blocking command on a server that was stopped: %v", r.Err)
	}
}

// pings returns what INFO says of PING.
func pings(stats string) string {
	_, rest, _ := strings.Cut(stats, "cmdstat_ping:calls=")
	n, _, _ := strings.Cut(rest, ",")
	return n
}

// When one node of a cluster is down, only the calls for its keys end. It is asked again when it is back.
//
// Promise: A call to a server that is down ends once the server was silent for DownAfter.
func TestClusterNodeDown(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	c := clientOf(t, dial(t, cluster.URL()))
	on := func(key string) redoubt.Cmd {
		return redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{"v"}}
	}
	const dead, alive = "a", "b"
	node := cluster.Primary(dead)
	if cluster.Primary(alive) == node {
		t.Fatal("the keys are of one node")
	}
	await.Soon(t, "the client knows the slots", func() bool { return c.Node(dead) != "" && c.Do(t.Context(), on(dead)).Err == nil })
	node.Pause()
	var down *redoubt.UnavailableError
	r := c.Pipeline(t.Context(), []redoubt.Cmd{on(dead), on(alive)})
	if !errors.As(r[0].Err, &down) || down.Node != node.Addr() {
		t.Errorf("the dead node's: %v", r[0].Err)
	}
	if r[1].Err != nil {
		t.Errorf("the other node's: %v", r[1].Err)
	}
	if err := c.Do(t.Context(), on(alive)).Err; err != nil {
		t.Errorf("the other node's: %v", err)
	}
	node.Resume()
	await.Soon(t, "the node is back", func() bool { return c.Do(t.Context(), on(dead)).Err == nil })
}

// When a replica has replaced a dead primary, calls reach it soon. They wait neither for the dead primary
// nor for the next time that the client reads the topology.
func TestClusterFailoverAfterDown(t *testing.T) {
	slow.Test(t, "a cluster takes seconds to start and to replace a primary")
	cluster := redistest.StartCluster(t, 3, 1)
	c := clientOf(t, dial(t, cluster.URL()))
	await.Soon(t, "the client knows the slots", func() bool { return c.Node("k") != "" && c.Do(t.Context(), set).Err == nil })
	dead := cluster.Primary("k")
	dead.Kill()
	await.Soon(t, "the primary is known to be down", func() bool {
		return errors.Is(c.Do(t.Context(), set).Err, redoubt.ErrUnavailable)
	})
	await.Soon(t, "calls go to the replica", func() bool { return c.Do(t.Context(), set).Err == nil })
	if c.Node("k") == dead.Addr() {
		t.Error("the client names the dead node")
	}
}

// A silent master is found to be down, and its successor is found when Sentinel names one.
func TestSentinelMasterDown(t *testing.T) {
	slow.Test(t, "Sentinels take seconds to replace a master")
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica.CLI("REPLICAOF", host, port)
	await.Soon(t, "the replica is in step", func() bool {
		return strings.Contains(replica.CLI("INFO", "replication"), "master_link_status:up")
	})
	sentinel := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "m", Master: master, Replicas: []*redistest.Server{replica}}})[0]
	c := clientOf(t, dial(t, "redis-sentinel://"+sentinel.Addr()+"/m"))
	if err := c.Do(t.Context(), set).Err; err != nil {
		t.Fatal(err)
	}
	master.Pause()
	await.Soon(t, "the master is known to be down", func() bool {
		return errors.Is(c.Do(t.Context(), set).Err, redoubt.ErrUnavailable)
	})
	await.Soon(t, "calls go to its successor", func() bool { return c.Do(t.Context(), set).Err == nil })
	if got := replica.CLI("GET", "k"); got != "v" {
		t.Errorf("the successor has %q", got)
	}
}
