package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// A tardy Conn hands a number of replies out only after a time.
type tardy struct {
	redoubt.Conn
	redoubt.Subscriber

	by   time.Duration
	left atomic.Int64
}

func (c *tardy) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	acquires := []string{"lock.acquire", "lock.fair", "lock.rw_read", "lock.sem_acquire"}
	if cmd.Script != nil && slices.Contains(acquires, cmd.Script.Name()) && c.left.Add(-1) >= 0 {
		pause(c.by, ctx.Done())
	}
	return r
}

func (c *tardy) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = c.Do(ctx, cmd)
	}
	return replies
}

// The reply to an acquire comes after the lease's own deadline, but before that of
// the server, as after it was sent again. Nobody gets a lease that is over:
// TryAcquire says so, Acquire acquires anew, and the lock is given back.
func TestNoLeaseIsOverOnArrival(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	each(t, func(t *testing.T, w *world) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := &world{Backend: w.Backend, t: t, rdb: w.rdb}
				conn := &tardy{Conn: newCounting(t, w.rdb).Conn, by: ttl}
				conn.Subscriber = newCounting(t, w.rdb)
				m := kind(w, w.clientOn(conn), lock.Options{TTL: ttl, NoRenew: true}).m
				conn.left.Store(1)
				if lease, busy, err := m.TryAcquire(t.Context(), t.Name()); lease != nil || busy != nil || !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("TryAcquire: %v, %v, %v", lease, busy, err)
				}
				conn.left.Store(1)
				lease, err := m.Acquire(t.Context(), t.Name())
				must(t, err)
				if left := time.Until(lease.Deadline()); left < ttl/4 {
					t.Errorf("Acquire gave a lease that lasts for another %v", left)
				}
				must(t, lease.Release(t.Context()))
			})
		}
	})
}

// It is given back at once, not at the end of its TTL, however much of that is left
// on the server.
func TestLeaseThatIsOverOnArrivalIsGivenBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		conn := &early{Conn: newCounting(t, w.rdb).Conn}
		conn.Subscriber = newCounting(t, w.rdb)
		c := w.clientOn(conn)
		for what, m := range map[string]taker{
			"mutex": w.mutex(c, lock.Options{TTL: time.Hour}),
			"multi": alone{newMulti(t, c, lock.Options{TTL: time.Hour})},
		} {
			name := t.Name() + what
			if lease, _, err := m.TryAcquire(t.Context(), name); lease != nil || !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: %v, %v", what, lease, err)
			}
			eventually(t, "it is free", func() bool {
				lease, _, err := w.mutex(w.client(), lock.Options{}).TryAcquire(t.Context(), name)
				must(t, err)
				return lease != nil
			})
		}
	})
}

// An early Conn says of what was acquired that nothing is left of it.
type early struct {
	redoubt.Conn
	redoubt.Subscriber
}

func (c *early) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	if a, ok := r.Val.([]any); ok && len(a) > 3 && a[0] == int64(1) {
		a[2] = int64(0)
	}
	return r
}

// A fair acquisition whose reply was lost, and whose caller is still there, has no
// place in the queue any more: the lock would be handed to it for nobody.
func TestFairLeavesTheQueueAfterALostReply(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder := w.mutex(w.client(), lock.Options{})
		lease := try(t, holder, t.Name())
		counting := newCounting(t, w.rdb)
		m := w.mutex(w.clientOn(&muffled{Conn: counting.Conn, Subscriber: counting, script: "lock.fair"}), lock.Options{Fair: true})
		_, err := m.AcquireRequest(t.Context(), t.Name(), lock.Request{ID: lock.NewID(), TTL: time.Minute})
		if !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Fatalf("AcquireRequest returned %v", err)
		}
		info, err := holder.Inspect(t.Context(), t.Name())
		must(t, err)
		if info.Waiters != 0 {
			t.Errorf("%d wait", info.Waiters)
		}
		must(t, lease.Release(t.Context()))
		must(t, try(t, holder, t.Name()).Release(t.Context()))
	})
}
