package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/lock"
)

// Replicas that live have enough time on a busy machine, others little.
const enough, little = 2 * time.Second, 100 * time.Millisecond

// replicated says what comes of an acquire that wants n replicas in time.
func replicated(t *testing.T, c *redoubt.Client, n int, timeout time.Duration, name string) error {
	t.Helper()
	m, err := lock.New(c, lock.Options{Replicas: n, ReplicaTimeout: timeout})
	must(t, err)
	plain, err := lock.New(c, lock.Options{})
	must(t, err)
	lease, busy, err := m.TryAcquire(t.Context(), name)
	if busy != nil {
		t.Fatal(busy.Err())
	}
	if err == nil {
		must(t, lease.Release(t.Context()))
		return m.Do(t.Context(), name, func(context.Context) error { return nil })
	}
	must(t, try(t, plain, name).Release(t.Context())) // it was given back
	if derr := m.Do(t.Context(), name, func(context.Context) error { return nil }); !errors.Is(derr, lock.ErrNotReplicated) {
		t.Errorf("TryAcquire gave %v, and Do %v", err, derr)
	}
	must(t, try(t, plain, name).Release(t.Context()))
	return err
}

// A lock that too few replicas know of is given back, and the error says so.
//
// Promise: With Replicas, a lock is acquired only once that many replicas
// confirm it, and is released otherwise.
func TestReplicas(t *testing.T) {
	primary := redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	e := &env{testenv.New(t, redistest.Backend{Addr: primary.Addr(), Server: primary})}
	c := e.newClient()
	eventually(t, "the replica is there", func() bool {
		return e.Redis.Do(t.Context(), "WAIT", 1, 10).Val() == int64(1)
	})
	must(t, replicated(t, c, 1, enough, t.Name()))
	must(t, e.Redis.ScriptFlush(t.Context()).Err())
	must(t, replicated(t, c, 1, enough, t.Name()))
	if err := replicated(t, c, 2, enough/2, t.Name()); !errors.Is(err, lock.ErrNotReplicated) || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("two replicas of one: %v", err)
	}
	replica.Pause()
	if err := replicated(t, c, 1, little, t.Name()); !errors.Is(err, lock.ErrNotReplicated) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("a replica that doesn't answer: %v", err)
	}
	// Even the script is missing, and the connection new: nothing is confirmed
	// that the replica has not got.
	must(t, e.Redis.ScriptFlush(t.Context()).Err())
	if err := replicated(t, e.newClient(), 1, little, t.Name()); !errors.Is(err, lock.ErrNotReplicated) {
		t.Errorf("a replica that doesn't answer: %v", err)
	}
	replica.Resume()
}

// WAIT comes behind a write on its connection: since Redis 7.2 it ignores reads.
func TestReplicasNeedAWrite(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &recording{losing: &losing{counting: newCounting(t, clienttest.Dial(t, e.Addr))}}
		c, err := redoubt.New(conn, redoubt.Options{})
		must(t, err)
		m, err := lock.New(c, lock.Options{Replicas: 1, ReplicaTimeout: little})
		must(t, err)
		if err := m.Do(t.Context(), t.Name(), func(context.Context) error { return nil }); !errors.Is(err, lock.ErrNotReplicated) {
			t.Errorf("a server without replicas: %v", err)
		}
		conn.mu.Lock()
		defer conn.mu.Unlock()
		at := slices.IndexFunc(conn.cmds, func(c redoubt.Cmd) bool { return c.Name == "WAIT" })
		if at < 1 || conn.cmds[at-1].Name != "SET" || conn.cmds[at-1].Flags.Resendable() || conn.cmds[at].Flags.Resendable() {
			t.Errorf("the commands are %v; want a SET in front of WAIT, and neither sent again", conn.cmds)
		}
	})
}

// Promise: With Replicas, a lock is acquired only once that many replicas
// confirm it, and is released otherwise.
func TestReplicasOfNone(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		if err := replicated(t, e.newClient(), 1, little, t.Name()); !errors.Is(err, lock.ErrNotReplicated) {
			t.Errorf("a server without replicas: %v", err)
		}
	})
}

// On a cluster the replicas of the primary that owns the name are asked.
//
// Promise: With Replicas, a lock is acquired only once that many replicas
// confirm it, and is released otherwise.
func TestReplicasOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1)
	c := clienttest.Open(t, cluster.URL())
	// The replica of one primary is held up: its names fail, and no others do.
	key, err := keyOf(c, "a")
	must(t, err)
	owner := cluster.Primary(key)
	for _, node := range cluster.Nodes() {
		if port := portOf(owner.Addr()); strings.Contains(node.CLI("INFO", "replication"), "master_port:"+port) {
			node.Pause()
			defer node.Resume()
		}
	}
	failed := 0
	for name := range strings.SplitSeq("abcdefghij", "") {
		key, err := keyOf(c, name)
		must(t, err)
		owned, timeout := cluster.Primary(key).Addr() == owner.Addr(), enough
		if owned {
			timeout = little
		}
		err = replicated(t, c, 1, timeout, name)
		if owned != errors.Is(err, lock.ErrNotReplicated) || !owned && err != nil {
			t.Errorf("%q, on that primary: %v: %v", name, owned, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed == 0 || failed == 10 {
		t.Errorf("%d of 10 failed: the test shows nothing", failed)
	}
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func TestBadReplicas(t *testing.T) {
	c := connect()
	for _, opts := range []lock.Options{
		{Replicas: -1},
		{Replicas: lock.MaxReplicas + 1},
		{Replicas: 1, ReplicaTimeout: -1},
		{Replicas: 1, ReplicaTimeout: time.Microsecond},
		{Replicas: 1, ReplicaTimeout: 6 * time.Second, TTL: 10 * time.Second},
	} {
		if _, err := lock.New(c, opts); err == nil || !strings.Contains(err.Error(), "replica") {
			t.Errorf("New with %+v: %v", opts, err)
		}
	}
	if _, err := lock.New(c, lock.Options{Replicas: 1, TTL: time.Second}); err != nil {
		t.Errorf("the default for a short TTL: %v", err)
	}
}
