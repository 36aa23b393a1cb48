package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// A release wakes a waiter at once, and until then the waiter asks twice: when
// it comes, and when it queues.
//
// Promise: A lost wake-up delays a waiter until the end of the lease that it
// saw, by 30 s at most.
func TestWakeUp(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{})
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		waiter := e.mutex(e.ClientOn(conn), lock.Options{})
		name := t.Name()

		first := try(t, holder, name)
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := waiter.Acquire(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		eventually(t, "one process waits", func() bool {
			info, err := holder.Info(t.Context(), name)
			return err == nil && info.Waiters == 1
		})
		if n := conn.Commands.Load(); n != 2 {
			t.Errorf("the waiter sent %d commands until it was queued, want 2", n)
		}
		released := time.Now()
		must(t, first.Release(t.Context()))
		lease := <-got
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("the hand-over took %v: that is the lease running out, not a wake-up", took)
		}
		if n := conn.Commands.Load(); n != 3 {
			t.Errorf("the waiter sent %d commands in all, want 3", n)
		}
		if lease.Token() <= first.Token() {
			t.Errorf("token %d after %d", lease.Token(), first.Token())
		}
		must(t, lease.Release(t.Context()))
	})
}

// Nobody frees the lock and nobody wakes the waiter: the end of the lease does.
func TestWaiterSeesLeaseRunOut(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{TTL: 300 * time.Millisecond, NoRenew: true})
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		waiter := e.mutex(e.ClientOn(conn), lock.Options{})
		first := take(t, holder, t.Name())
		lease, err := waiter.Acquire(t.Context(), t.Name())
		must(t, err)
		if time.Now().Before(first.Deadline()) {
			t.Error("acquired before the other lease was over")
		}
		if n := conn.Commands.Load(); n > 4 {
			t.Errorf("the waiter sent %d commands: it polls", n)
		}
		if err := first.Err(); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Err of the lease that ran out is %v", err)
		}
		must(t, lease.Release(t.Context()))
	})
}

// Promise: A lost wake-up delays a waiter until the end of the lease that it
// saw, by 30 s at most.
func TestCancelledWaiterPassesOn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{})
		name := t.Name()
		first := try(t, holder, name)

		// Two processes wait; one of them gives up.
		ctx, cancel := context.WithCancel(t.Context())
		quitter, stayer := e.mutex(e.newClient(), lock.Options{}), e.mutex(e.newClient(), lock.Options{})
		gone := make(chan error, 1)
		go func() {
			_, err := quitter.Acquire(ctx, name)
			gone <- err
		}()
		waiters := func(n int64) func() bool {
			return func() bool {
				info, err := holder.Info(t.Context(), name)
				return err == nil && info.Waiters == n
			}
		}
		eventually(t, "the first waiter is queued", waiters(1))
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := stayer.Acquire(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		eventually(t, "the second waiter is queued", waiters(2))
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter that was cancelled got %v", err)
		}
		eventually(t, "it has left the queue", waiters(1))
		released := time.Now()
		must(t, first.Release(t.Context()))
		lease := <-got
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("the other waiter was woken after %v", took)
		}
		must(t, lease.Release(t.Context()))
		eventually(t, "nobody waits", waiters(0))
	})
}

// The wake-up goes to a process whose waiter has just left: it must wake the
// next one.
func TestWakeUpOfALeaverIsPassedOn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for i := range 100 {
			holder := e.mutex(e.newClient(), lock.Options{})
			// A canceled Acquire may hold the lock for a moment: it gives the lock back in the background. So each round
			// has a name of its own.
			name := fmt.Sprint(t.Name(), i)
			first := try(t, holder, name)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			quitter, stayer := e.mutex(e.newClient(), lock.Options{}), e.mutex(e.newClient(), lock.Options{})
			wg.Go(func() {
				if lease, err := quitter.Acquire(ctx, name); err == nil {
					_ = lease.Release(t.Context())
				}
			})
			eventually(t, "the first waiter is queued", func() bool {
				info, err := holder.Info(t.Context(), name)
				return err == nil && info.Waiters == 1
			})
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				lease, err := stayer.Acquire(ctx, name)
				if err != nil {
					t.Errorf("the second waiter was not woken: %v", err)
					return
				}
				_ = lease.Release(t.Context())
			})
			wg.Go(cancel)
			must(t, first.Release(t.Context()))
			wg.Wait()
			if t.Failed() {
				return
			}
		}
	})
}

// The turn comes to a caller whose acquisition is over: it gives up the place on
// the server that it took over, or a wake-up would go to nobody.
func TestWaiterThatIsOverLeavesTheQueue(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder, m := e.mutex(e.newClient(), lock.Options{}), e.mutex(e.newClient(), lock.Options{})
		key := e.key(t.Name())
		over := lock.Request{ID: wire.NewID(), TTL: time.Minute}
		c := e.newClient()
		must(t, c.Do(t.Context(), wire.AcquireCmd([]string{key}, wire.Request{ID: over.ID, TTL: over.TTL})).Err)
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, over.ID, "", false)).Err)
		lease := try(t, holder, t.Name())

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := m.Acquire(ctx, t.Name()); !errors.Is(err, context.Canceled) {
				t.Errorf("the waiter that was cancelled got %v", err)
			}
		})
		waiters := func(n int64) func() bool {
			return func() bool {
				info, err := holder.Info(t.Context(), t.Name())
				return err == nil && info.Waiters == n
			}
		}
		eventually(t, "the first is queued", waiters(1))
		wg.Go(func() {
			h, err := m.AcquireRequest(t.Context(), t.Name(), over)
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("AcquireRequest returned %+v, %v; want that it is over", h, err)
			}
		})
		eventually(t, "the second stands behind it", func() bool { return m.Waiting(key) == 2 })
		cancel()
		wg.Wait()
		eventually(t, "nobody is queued", waiters(0))
		must(t, lease.Release(t.Context()))
	})
}

// Waiters whose processes are gone stand before one that lives.
func TestDeadWaitersArePassedOver(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		holder := e.mutex(c, lock.Options{})
		lease := try(t, holder, t.Name())
		key, err := keyOf(c, t.Name())
		must(t, err)
		for i := range 20 {
			dead := fmt.Sprint("PUBLISH nobody\n listens ", i)
			must(t, c.Do(t.Context(), wire.AcquireCmd([]string{key}, wire.Request{ID: wire.NewID(), TTL: time.Minute, Waiter: dead})).Err)
		}
		got := make(chan error, 1)
		go func() {
			got <- e.mutex(e.newClient(), lock.Options{}).Do(t.Context(), t.Name(), func(context.Context) error { return nil })
		}()
		eventually(t, "all wait", func() bool {
			info, err := holder.Info(t.Context(), t.Name())
			return err == nil && info.Waiters == 21
		})
		released := time.Now()
		must(t, lease.Release(t.Context()))
		must(t, <-got)
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("handed over after %v", took)
		}
		left := e.Redis.HKeys(t.Context(), e.key(t.Name())).Val()
		slices.Sort(left)
		if want := []string{"fence", "id", "label", "last", "until"}; !slices.Equal(left, want) {
			t.Errorf("fields of a lock that nobody waits for: %q, want %q", left, want)
		}
	})
}

// The lock is gone without a word, long before its lease would end.
//
// Promise: A lost wake-up delays a waiter until the end of the lease that it
// saw, by 30 s at most.
func TestNobodyWakesTheWaiter(t *testing.T) {
	defer lock.MaxPoll(50 * time.Millisecond)()
	each(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{TTL: time.Hour})
		try(t, holder, t.Name())
		got := make(chan error, 1)
		go func() {
			got <- e.mutex(e.newClient(), lock.Options{}).Do(t.Context(), t.Name(), func(context.Context) error { return nil })
		}()
		eventually(t, "it waits", func() bool {
			info, err := holder.Info(t.Context(), t.Name())
			return err == nil && info.Waiters == 1
		})
		must(t, e.Redis.Del(t.Context(), e.key(t.Name())).Err())
		must(t, <-got)
	})
}

// Mutexes of one client wait in one queue: a wake-up reaches whoever is first.
func TestMutexesOfOneClientWaitTogether(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder := e.mutex(e.newClient(), lock.Options{})
		lease := try(t, holder, t.Name())
		c := e.newClient()
		var wg sync.WaitGroup
		var started atomic.Int32
		for range 5 {
			m := e.mutex(c, lock.Options{})
			wg.Go(func() {
				started.Add(1)
				if err := m.Do(t.Context(), t.Name(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "one of them waits for all", func() bool {
			info, err := holder.Info(t.Context(), t.Name())
			return err == nil && info.Waiters == 1 && started.Load() == 5
		})
		released := time.Now()
		must(t, lease.Release(t.Context()))
		wg.Wait()
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("all had the lock after %v: somebody was not woken", took)
		}
	})
}
