package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// Locks in all slots of a cluster: exclusion, renewal, and wake-ups through
// sharded pub/sub.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	mutex := func() *lock.Mutex {
		t.Helper()
		client := clienttest.Open(t, cluster.URL())
		m, err := lock.New(client, lock.Options{})
		must(t, err)
		return m
	}
	a, b := mutex(), mutex()
	for i := range 30 {
		name := fmt.Sprint("orders:", i)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := try(t, a, name)
			got := make(chan error, 1)
			go func() {
				got <- b.Do(t.Context(), name, func(context.Context) error { return nil })
			}()
			eventually(t, "the other waits", func() bool {
				info, err := a.Info(t.Context(), name)
				return err == nil && info.Waiters == 1
			})
			released := time.Now()
			must(t, lease.Release(t.Context()))
			must(t, <-got)
			if took := time.Since(released); took > 15*time.Second { // the lease would run out after 30 s
				t.Errorf("handed over after %v: the wake-up was lost", took)
			}
		})
	}
}

// A lock in a slot that is half-way to another node: its key, and a key that is
// not there yet.
func TestMigratingSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	m, err := lock.New(client, lock.Options{TTL: time.Minute})
	must(t, err)
	key, err := keyOf(client, "orders")
	must(t, err)
	lease := try(t, m, "orders")

	from := cluster.Primary(key)
	var to *redistest.Server
	for _, n := range cluster.Nodes() {
		if n != from {
			to = n
		}
	}
	slot := from.CLI("CLUSTER", "KEYSLOT", key)
	to.CLI("CLUSTER", "SETSLOT", slot, "IMPORTING", from.CLI("CLUSTER", "MYID"))
	from.CLI("CLUSTER", "SETSLOT", slot, "MIGRATING", to.CLI("CLUSTER", "MYID"))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, busy, err := m.TryAcquire(ctx, "orders"); err != nil || busy == nil {
		t.Errorf("a held lock: busy %v, error %v", busy, err)
	}
	must(t, lease.Extend(ctx, time.Hour))
	must(t, lease.Release(ctx))
	from.CLI("DEL", key)
	lease, _, err = m.TryAcquire(ctx, "orders")
	must(t, err)
	must(t, lease.Release(ctx))
	if to.CLI("CLUSTER", "COUNTKEYSINSLOT", slot) != "1" {
		t.Error("a new lock was not made on the node that takes the slot over")
	}
}
