package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// Locks in all slots of a cluster: exclusion, renewal, and wake-ups through
// sharded pub/sub.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	mutex := func() *lock.Mutex {
		t.Helper()
		conn, err := goredis.Open(t.Context(), cluster.URL())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		client, err := redoubt.New(conn, redoubt.Options{})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		if verb, err := client.PublishVerb(t.Context()); verb != "SPUBLISH" || err != nil {
			t.Fatalf("wake-ups by %s (%v), want SPUBLISH", verb, err)
		}
		m, err := lock.New(client, lock.Options{TTL: 2 * time.Second})
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
				info, err := a.Inspect(t.Context(), name)
				return err == nil && info.Waiters == 1
			})
			released := time.Now()
			must(t, lease.Release(t.Context()))
			must(t, <-got)
			if took := time.Since(released); took > 1500*time.Millisecond {
				t.Errorf("handed over after %v: the wake-up was lost", took)
			}
		})
	}
}
