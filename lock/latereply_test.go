package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
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
//
// Promise: No lease is returned that has already expired when its reply
// arrives: it is released instead.
func TestNoLeaseIsOverOnArrival(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	each(t, func(t *testing.T, e *env) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := e.in(t)
				conn := &tardy{Conn: newCounting(t, e.Redis).Conn, by: ttl}
				conn.Subscriber = newCounting(t, e.Redis)
				m := kind(e, e.ClientOn(conn), lock.Options{TTL: ttl, NoRenew: true}).m
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
//
// Promise: No lease is returned that has already expired when its reply
// arrives: it is released instead.
func TestLeaseThatIsOverOnArrivalIsGivenBack(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &early{Conn: newCounting(t, e.Redis).Conn}
		conn.Subscriber = newCounting(t, e.Redis)
		c := e.ClientOn(conn)
		for what, m := range map[string]taker{
			"mutex": e.mutex(c, lock.Options{TTL: time.Hour}),
			"multi": alone{newMulti(t, c, lock.Options{TTL: time.Hour})},
		} {
			name := t.Name() + what
			if lease, _, err := m.TryAcquire(t.Context(), name); lease != nil || !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: %v, %v", what, lease, err)
			}
			eventually(t, "it is free", func() bool {
				lease, _, err := e.mutex(e.newClient(), lock.Options{}).TryAcquire(t.Context(), name)
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

// A caller's time ends at the moment when the lock comes. It gets a lease, and that is
// not given back behind its back.
//
// Promise: A lease that is returned lasts, even when the caller's context has
// just ended.
func TestLeaseOfTheLastMomentLasts(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				e := e.in(t)
				holder := try(t, kind(e, e.newClient(), lock.Options{TTL: time.Minute}).m, t.Name())
				conn := &lastMoment{Conn: newCounting(t, e.Redis).Conn, Context: t.Context()}
				conn.Subscriber = newCounting(t, e.Redis)
				c := e.ClientOn(conn)
				m := kind(e, c, lock.Options{TTL: time.Minute, NoRenew: true}).rival
				got := make(chan error, 1)
				go func() {
					_, err := m.Acquire(conn, t.Name())
					got <- err
				}()
				locks, permits := e.mutex(e.newClient(), lock.Options{}), e.semaphore(e.newClient(), lock.Options{})
				eventually(t, "it waits", func() bool {
					of, err := locks.Info(t.Context(), t.Name())
					must(t, err)
					ofPermits, err := permits.Info(t.Context(), t.Name())
					must(t, err)
					return of.Waiters+ofPermits.Waiters == 1
				})
				must(t, holder.Release(t.Context()))
				must(t, <-got)
				must(t, c.Close()) // waits for what it still does
				if lease, _, err := kind(e, e.newClient(), lock.Options{}).m.TryAcquire(t.Context(), t.Name()); err != nil || lease != nil {
					t.Errorf("another got it too (%v)", err)
				}
			})
		}
	})
}

// A lastMoment is a Conn, and the Context of a call that uses it: that is over once the
// Conn has answered that a lock was acquired, though nobody has been told yet.
type lastMoment struct {
	redoubt.Conn
	redoubt.Subscriber
	context.Context //nolint:containedctx // it is one

	over atomic.Bool
}

func (c *lastMoment) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

func (c *lastMoment) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	if a, ok := r.Val.([]any); ok && len(a) > 3 && a[0] == int64(1) {
		c.over.Store(true)
	}
	return r
}

func (c *lastMoment) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = c.Do(ctx, cmd)
	}
	return replies
}

// A straggler Conn sends claims late, even when their caller has gone, and meanwhile what else it
// is given.
type straggler struct {
	redoubt.Conn
	redoubt.Subscriber

	claimed, released atomic.Int64
	claiming          chan struct{}
}

func (c *straggler) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script == nil || cmd.Script.Name() != "lock.rw_claim" {
		r := c.Conn.Do(ctx, cmd)
		if cmd.Script != nil && cmd.Script.Name() == "lock.rw_release" {
			c.released.Add(1)
		}
		return r
	}
	c.claiming <- struct{}{}
	reply := make(chan redoubt.Reply, 1)
	go func() {
		pause(200*time.Millisecond, nil)
		reply <- c.Conn.Do(context.WithoutCancel(ctx), cmd)
		c.claimed.Add(1)
	}()
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return redoubt.Reply{Err: redoubt.UnknownOutcome(ctx.Err())}
	}
}

func (c *straggler) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = c.Do(ctx, cmd)
	}
	return replies
}

// A writer gives up while its claim is on its way: that keeps no reader out once it
// has arrived, for the claim is taken back behind it.
func TestLateClaimIsTakenBack(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		reader := e.rw(e.newClient(), lock.Options{})
		lease, err := reader.AcquireShared(t.Context(), t.Name())
		must(t, err)
		conn := &straggler{Conn: newCounting(t, e.Redis).Conn, claiming: make(chan struct{}, 100)}
		conn.Subscriber = newCounting(t, e.Redis)
		writer := e.rw(e.ClientOn(conn), lock.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-conn.claiming; cancel() }()
		if _, err := writer.Acquire(ctx, t.Name()); !errors.Is(err, context.Canceled) {
			t.Fatalf("the writer's Acquire returned %v", err)
		}
		eventually(t, "the claim has arrived, and what takes it back", func() bool {
			return conn.claimed.Load() > 0 && conn.released.Load() > 0
		})
		another, busy, err := reader.TryAcquireShared(t.Context(), t.Name())
		must(t, err)
		if another == nil {
			t.Fatalf("a reader is kept out for another %v", busy.Remaining)
		}
		must(t, errors.Join(another.Release(t.Context()), lease.Release(t.Context())))
	})
}

// A fair acquisition whose reply was lost, and whose caller is still there, has no
// place in the queue any more: the lock would be handed to it for nobody.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairLeavesTheQueueAfterALostReply(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{})
		lease := try(t, holder, t.Name())
		counting := newCounting(t, e.Redis)
		m := e.mutex(e.ClientOn(&muffled{Conn: counting.Conn, Subscriber: counting, script: "lock.fair"}), lock.Options{Fair: true})
		_, err := m.AcquireRequest(t.Context(), t.Name(), lock.Request{ID: wire.NewID(), TTL: time.Minute})
		if !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Fatalf("AcquireRequest returned %v", err)
		}
		info, err := holder.Info(t.Context(), t.Name())
		must(t, err)
		if info.Waiters != 0 {
			t.Errorf("%d wait", info.Waiters)
		}
		must(t, lease.Release(t.Context()))
		must(t, try(t, holder, t.Name()).Release(t.Context()))
	})
}
