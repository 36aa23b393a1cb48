package goredis_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestSubscriptionFollowsTheMaster: a subscription moves to the new master at once. The old one keeps its subscribers,
// because here the Sentinels can't make it a replica.
func TestSubscriptionFollowsTheMaster(t *testing.T) {
	t.Run("ordinary", func(t *testing.T) { subscriptionFollowsTheMaster(t, false, "PUBLISH") })
	t.Run("sharded", func(t *testing.T) {
		redistest.Needs(t, 7, 0, "sharded pub/sub")
		subscriptionFollowsTheMaster(t, true, "SPUBLISH")
	})
}

func subscriptionFollowsTheMaster(t *testing.T, sharded bool, publish string) { //nolint:revive // the parameter is the state
	primary := redistest.Start(t, "--rename-command", "SLAVEOF", "")
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := redistest.Start(t, "--replicaof", host, port)
	s := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "m", Master: primary, Replicas: []*redistest.Server{replica}}})[0]
	c := dial(t, "redis-sentinel://"+s.Addr()+"/m")
	heard := make(chan string, 10)
	stop, err := c.Subscribe(t.Context(), "news", sharded, func(payload string, lost bool) {
		if lost {
			payload = "lost"
		}
		heard <- payload
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s.CLI("SENTINEL", "FAILOVER", "m")
	next := func() string {
		select {
		case payload := <-heard:
			return payload
		case <-time.After(30 * time.Second):
			t.Fatal("it hears nothing")
			return ""
		}
	}
	if got := next(); got != "lost" {
		t.Errorf("after the failover it hears %q, want that something may be lost", got)
	}
	if got := replica.CLI(publish, "news", "hello"); got != "1" {
		t.Errorf("the new master has %s subscribers", got)
	}
	if got := next(); got != "hello" {
		t.Errorf("it hears %q from the new master", got)
	}
	if role := primary.CLI("ROLE"); !strings.HasPrefix(role, "master") {
		t.Errorf("the old master is %q: the test shows nothing", role)
	}
}

// TestSentinelFailover counts through a failover: nothing that was acknowledged
// runs twice or is refused.
func TestSentinelFailover(t *testing.T) {
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica.CLI("REPLICAOF", host, port)
	addr := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "m", Master: primary, Replicas: []*redistest.Server{replica}}})[0].Addr()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = sentinel.Close() })
	eventually(t, "the Sentinel knows the replica", func() bool {
		rs, err := sentinel.Replicas(t.Context(), "m").Result()
		return err == nil && len(rs) == 1 && rs[0]["master-link-status"] == "ok"
	})
	eventually(t, "the replica is in step", func() bool {
		return strings.Contains(replica.CLI("INFO", "replication"), "master_link_status:up")
	})

	c := dial(t, "redis-sentinel://"+addr+"/m")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	script := redoubt.NewScript("incr", "return redis.call('INCR', KEYS[1])")
	incr := func() redoubt.Reply { return c.Do(ctx, redoubt.Cmd{Script: script, Keys: []string{"n"}}) }
	if r := incr(); r.Val != any(int64(1)) {
		t.Fatalf("got %#v", r)
	}
	if got := primary.CLI("GET", "n"); got != "1" {
		t.Fatalf("the primary counted %q", got)
	}
	if err := sentinel.Failover(t.Context(), "m").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica counts", func() bool {
		if r := incr(); r.Err != nil && !isUnknown(r.Err) {
			t.Fatalf("during the failover: %v", r.Err)
		}
		return strings.Contains(replica.CLI("INFO", "replication"), "role:master") && replica.CLI("GET", "n") != "1"
	})
	if r := incr(); r.Err != nil {
		t.Errorf("after the failover: %v", r.Err)
	}
}
