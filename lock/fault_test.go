package lock_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// A reply is lost: the call is repeated, or its effect undone.
//
// Promise: A call that is repeated after a lost reply gives the same answer
// and the same token; a release does so until a later lease on the name is
// released too.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		m := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{})
		must(t, try(t, m, t.Name()).Release(t.Context())) // the scripts are loaded

		proxy.SwallowNextReply()
		lease := try(t, m, t.Name())
		proxy.SwallowNextReply()
		must(t, lease.Extend(t.Context(), time.Minute))
		proxy.SwallowNextReply()
		must(t, lease.Release(t.Context()))

		other := e.mutex(e.newClient(), lock.Options{})
		must(t, try(t, other, t.Name()).Release(t.Context()))
	})
}

// The caller leaves while its acquire is on the server: the lock is given back
// behind it.
func TestCancelInMidAcquire(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		m := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{TTL: time.Hour})
		must(t, try(t, m, t.Name()).Release(t.Context()))

		proxy.Blackhole(faultnet.ToClient)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := m.Acquire(ctx, t.Name())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("Acquire returned %v, want the ctx's error with an unknown outcome", err)
		}
		proxy.Heal()
		other := e.mutex(e.newClient(), lock.Options{})
		lease, err := other.Acquire(t.Context(), t.Name())
		must(t, err)
		must(t, lease.Release(t.Context()))
	})
}

// The deadline counts from before the call was sent, whatever its reply took,
// and is a hundredth short of the TTL.
//
// Promise: The client treats a lease as expired before the server does, and
// Done, Err and the Context say so at the local deadline.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const ttl, delay = 60 * time.Second, 200 * time.Millisecond
		proxy := faultnet.New(t, e.Addr)
		m := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{TTL: ttl, NoRenew: true})
		must(t, try(t, m, t.Name()).Release(t.Context())) // the scripts are loaded
		proxy.Delay(delay)
		check := func(what string, sent time.Time, lease *lock.Lease) {
			t.Helper()
			if d := lease.Deadline().Sub(sent); d > ttl-ttl/100+delay/2 {
				t.Errorf("%s: the deadline is %v after the sending, want %v", what, d, ttl-ttl/100)
			}
		}
		sent := time.Now()
		lease := try(t, m, t.Name())
		check("TryAcquire", sent, lease)
		sent = time.Now()
		must(t, lease.Extend(t.Context(), ttl))
		check("Extend", sent, lease)
		must(t, lease.Release(t.Context()))

		const short = 3 * time.Second
		proxy.Delay(0)
		m = e.mutex(e.ClientAt(proxy.Addr()), lock.Options{TTL: short})
		must(t, try(t, m, t.Name()).Release(t.Context())) // it is connected
		proxy.Delay(delay)
		lease = try(t, m, t.Name())
		first := lease.Deadline()
		eventually(t, "it is renewed", func() bool { return lease.Deadline() != first })
		if left := time.Until(lease.Deadline()); left > short-short/100-delay/2 {
			t.Errorf("just renewed, over a link of %v, it has %v left", delay, left)
		}
		must(t, lease.Release(t.Context()))
	})
}

// The ctx of a release ends before it reaches the server: it goes on.
func TestReleaseOutlivesItsContext(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		m := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{TTL: time.Hour})
		lease := try(t, m, t.Name())
		proxy.Refuse()
		proxy.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if err := lease.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Release returned %v, want the ctx's error", err)
		}
		proxy.Accept()
		other := e.mutex(e.newClient(), lock.Options{})
		next, err := other.Acquire(t.Context(), t.Name())
		must(t, err)
		must(t, next.Release(t.Context()))
	})
}

// losing loses the reply to the next command for good.
type losing struct {
	*counting

	next atomic.Bool
}

func (c *losing) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.counting.Do(ctx, cmd)
	if c.next.CompareAndSwap(true, false) {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(io.EOF)}
	}
	return r
}

// Nobody knows that the lock was acquired: it is given back.
func TestUnknownOutcomeIsUndone(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		other := e.mutex(e.newClient(), lock.Options{})
		for what, acquire := range map[string]func(*lock.Mutex) error{
			"TryAcquire": func(m *lock.Mutex) error { _, _, err := m.TryAcquire(t.Context(), t.Name()); return err },
			"Acquire":    func(m *lock.Mutex) error { _, err := m.Acquire(t.Context(), t.Name()); return err },
		} {
			// Each has a client of its own: the second undoing of the former would be the next command.
			conn := &losing{counting: newCounting(t, clienttest.Dial(t, e.Addr))}
			m := e.mutex(e.ClientOn(conn), lock.Options{TTL: time.Hour})
			conn.next.Store(true)
			if err := acquire(m); !errors.Is(err, redoubt.ErrUnknownOutcome) {
				t.Errorf("%s returned %v", what, err)
			}
			next, err := other.Acquire(t.Context(), t.Name())
			must(t, err)
			must(t, next.Release(t.Context()))
		}
	})
}

// failing fails two extensions of three without sending them.
type failing struct {
	*counting

	failed, passed atomic.Int64
}

func (c *failing) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if c.failed.Load() >= 2*(c.passed.Load()+1) {
		c.passed.Add(1)
		return c.counting.Pipeline(ctx, cmds)
	}
	c.failed.Add(1)
	replies := make([]redoubt.Reply, len(cmds))
	for i := range replies {
		replies[i].Err = io.ErrUnexpectedEOF
	}
	return replies
}

// A renewal that fails is tried again, for as long as the lease lasts.
//
// goRedisson's ends with the first that fails, and says so to nobody.
func TestFailedRenewalsAreRepeated(t *testing.T) {
	slow.Test(t, "two renewals of a lease of 9 s on each back end")
	each(t, func(t *testing.T, e *env) {
		conn := &failing{counting: newCounting(t, clienttest.Dial(t, e.Addr))}
		m := e.mutex(e.ClientOn(conn), lock.Options{TTL: 9 * time.Second})
		lease := try(t, m, t.Name())
		first := lease.Deadline()
		eventually(t, "it is renewed twice", func() bool { return conn.passed.Load() >= 2 && lease.Deadline().After(first) })
		must(t, lease.Err())
		must(t, lease.Release(t.Context()))
	})
}
