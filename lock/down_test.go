package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// A waiter for a lock waits as long as the server lives, whatever DownAfter is. When the
// server is down, an Acquire without a deadline ends; and a lease is renewed once it is back,
// although the server was known to be down when that was due.
func TestServerDown(t *testing.T) {
	slow.Test(t, "a lease that a busy machine renews in time takes seconds until it is due")
	const downAfter, ttl = 100 * time.Millisecond, 6 * time.Second
	s := redistest.Start(t)
	client := func() *redoubt.Client {
		c, err := redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, s.Addr())), redoubt.Options{DownAfter: downAfter})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holders, err := lock.New(client(), lock.Options{TTL: ttl})
	must(t, err)
	waiters, err := lock.New(client(), lock.Options{TTL: ttl})
	must(t, err)

	held := try(t, holders, "n")
	got := make(chan *lock.Lease, 1)
	go func() {
		l, err := waiters.Acquire(context.Background(), "n")
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	await.Always(t, 5*downAfter, "the waiter waits", func() bool { return len(got) == 0 })
	must(t, held.Release(t.Context()))
	lease := <-got
	if lease == nil {
		return
	}

	before := lease.Deadline()
	s.Pause()
	if _, err := holders.Acquire(context.Background(), "n"); !errors.Is(err, redoubt.ErrUnavailable) {
		t.Errorf("Acquire on a server that is down: %v", err)
	}
	// Renewals are due from a quarter of the TTL on.
	await.Until(t, ttl, "a renewal is due", func() bool { return time.Until(before) < ttl*3/5 })
	s.Resume()
	await.Until(t, ttl, "it is renewed", func() bool { return lease.Deadline().After(before) })
	must(t, lease.Err())
	must(t, lease.Release(t.Context()))
}
