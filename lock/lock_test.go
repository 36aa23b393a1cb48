package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// Promise: At most one lease on a name is valid at a time, through faults of
// the network, flushed scripts, moving slots, a dead shard, and a server with
// a log that is killed and restarted.
func TestTryAcquire(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.mutex(e.newClient(), lock.Options{Label: "a"})
		b := e.mutex(e.newClient(), lock.Options{TTL: 20 * time.Second})
		name := t.Name()

		began := time.Now()
		lease := try(t, a, name)
		if lease.Name() != name || len(lease.ID()) != 32 || lease.Err() != nil {
			t.Errorf("lease: name %q, id %q, err %v", lease.Name(), lease.ID(), lease.Err())
		}
		if left := time.Until(lease.Deadline()); left < 29*time.Second-time.Since(began) || left > lock.DefaultTTL {
			t.Errorf("the local deadline is in %v, want a little under 30 s", left)
		}
		none, busy, err := b.TryAcquire(t.Context(), name)
		must(t, err)
		if none != nil || busy == nil {
			t.Fatal("a second holder got the lock")
		}
		if busy.Label != "a" || busy.Token != lease.Token() || busy.Remaining < 29*time.Second-time.Since(began) || busy.Remaining > 30*time.Second {
			t.Errorf("busy = %+v, want label a, fence %d, about 30 s", *busy, lease.Token())
		}
		must(t, lease.Release(t.Context()))
		must(t, lease.Release(t.Context())) // a second time does nothing
		if !errors.Is(lease.Err(), lock.ErrReleased) {
			t.Errorf("after Release Err is %v, want ErrReleased", lease.Err())
		}
		next := try(t, b, name)
		if left := time.Until(next.Deadline()); left > 20*time.Second {
			t.Errorf("TTL 20 s gave a deadline in %v", left)
		}
		must(t, next.Release(t.Context()))
	})
}

// Promise: The tokens of a name rise strictly, also when the key has expired, and through each of
// FLUSHALL, a failover, and a step of the server's clock by itself.
func TestTokensRise(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{})
		name := t.Name()
		var last int64
		for i := range 50 {
			lease := try(t, m, name)
			if lease.Token() <= last {
				t.Fatalf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
			must(t, lease.Release(t.Context()))
			if i%10 == 9 {
				must(t, e.Redis.Del(t.Context(), e.key(name)).Err())
			}
		}
		// A primary whose clock is behind: the stored token still counts.
		future := time.Now().Add(40 * time.Second).UnixMicro()
		must(t, e.Redis.HSet(t.Context(), e.key(name), "fence", future).Err())
		lease := try(t, m, name)
		if lease.Token() != future+1 {
			t.Errorf("token %d after %d, want the next", lease.Token(), future)
		}
		must(t, lease.Release(t.Context()))
	})
}

// Promise: At most one lease on a name is valid at a time, through faults of
// the network, flushed scripts, moving slots, a dead shard, and a server with
// a log that is killed and restarted.
func TestMutualExclusion(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const processes, callers, rounds = 4, 8, 10
		var inside, total atomic.Int32
		var wg sync.WaitGroup
		for range processes {
			m := e.mutex(e.newClient(), lock.Options{TTL: time.Minute})
			for range callers {
				wg.Go(func() {
					for range rounds {
						err := m.Do(t.Context(), t.Name(), func(context.Context) error {
							if inside.Add(1) != 1 {
								t.Error("two holders at once")
							}
							total.Add(1)
							inside.Add(-1)
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		if got := total.Load(); got != processes*callers*rounds {
			t.Errorf("%d rounds, want %d", got, processes*callers*rounds)
		}
	})
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		const ttl = 9 * time.Second // a busy machine may stand still for half of it
		m := e.mutex(e.newClient(), lock.Options{TTL: ttl})
		other := e.mutex(e.newClient(), lock.Options{})
		const n = 50
		leases := make([]*lock.Lease, n)
		for i := range leases {
			leases[i] = try(t, m, fmt.Sprint(t.Name(), i))
		}
		await.Always(t, ttl*5/4, "they are held", func() bool {
			for i, l := range leases {
				if err := l.Err(); err != nil {
					t.Fatalf("lease %d was lost: %v", i, err)
				}
			}
			if l, _, err := other.TryAcquire(t.Context(), leases[0].Name()); err != nil || l != nil {
				t.Fatalf("another got a renewed lock (%v)", err)
			}
			return true
		})
		for _, l := range leases {
			must(t, l.Release(t.Context()))
		}
		if l, busy, err := other.TryAcquire(t.Context(), leases[0].Name()); err != nil || busy != nil {
			t.Errorf("still busy after the release: %v %v", busy, err)
		} else {
			must(t, l.Release(t.Context()))
		}
	})
}

// Promise: An extension never makes a lease shorter, in whatever order
// extensions and their replies arrive.
func TestExtend(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{TTL: time.Minute, NoRenew: true})
		lease := try(t, m, t.Name())
		must(t, lease.Extend(t.Context(), time.Hour))
		if left := time.Until(lease.Deadline()); left < 59*time.Minute {
			t.Errorf("after Extend(1h) the deadline is in %v", left)
		}
		info, err := m.Info(t.Context(), t.Name())
		must(t, err)
		if len(info.Holders) != 1 || info.Holders[0].TTL < 59*time.Minute || info.Token != lease.Token() {
			t.Errorf("the server says %+v", info)
		}
		for _, bad := range []time.Duration{0, -time.Second, time.Microsecond, lock.MaxTTL + 1} {
			if err := lease.Extend(t.Context(), bad); err == nil || errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("Extend(%v) gave %v", bad, err)
			}
		}
		// A shorter one, which may have been overtaken, changes nothing.
		must(t, lease.Extend(t.Context(), 50*time.Millisecond))
		if left := time.Until(lease.Deadline()); left < 58*time.Minute {
			t.Errorf("after Extend(50ms) the deadline is in %v", left)
		}
		if info, err := m.Info(t.Context(), t.Name()); err != nil || info.Holders[0].TTL < 58*time.Minute {
			t.Errorf("after Extend(50ms) the server says %+v (%v)", info, err)
		}
		must(t, lease.Release(t.Context()))

		m = e.mutex(e.newClient(), lock.Options{TTL: 50 * time.Millisecond, NoRenew: true})
		lease = take(t, m, t.Name())
		<-lease.Done()
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Extend of a lease that ran out gave %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release of a lease that ran out gave %v", err)
		}
	})
}

// Promise: Release and Extend never touch the lease of another holder.
func TestStaleLeaseIsRefused(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{})
		stale := try(t, m, t.Name())
		// The lock is forced away and taken by another.
		must(t, e.Redis.Del(t.Context(), e.key(t.Name())).Err())
		holder := try(t, e.mutex(e.newClient(), lock.Options{}), t.Name())
		before := e.Redis.HGetAll(t.Context(), e.key(t.Name())).Val()

		if err := stale.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Extend of a stale lease gave %v", err)
		}
		select {
		case <-stale.Done():
		default:
			t.Error("Done is open after the server refused the extension")
		}
		if err := stale.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release of a stale lease gave %v", err)
		}
		after := e.Redis.HGetAll(t.Context(), e.key(t.Name())).Val()
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("the holder's lock changed from %v to %v", before, after)
		}
		must(t, holder.Release(t.Context()))
	})
}

func TestNothingIsLeft(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{TTL: time.Hour})
		lease := try(t, m, t.Name())
		ttl := e.Redis.PTTL(t.Context(), e.key(t.Name())).Val()
		if ttl < time.Hour || ttl > time.Hour+61*time.Second {
			t.Errorf("the key of a held lock lives for %v, want its TTL and a minute", ttl)
		}
		must(t, lease.Release(t.Context()))
		if ttl := e.Redis.PTTL(t.Context(), e.key(t.Name())).Val(); ttl < 0 || ttl > 61*time.Second {
			t.Errorf("the key of a free lock lives for %v, want at most a minute", ttl)
		}
		keys := e.Redis.Keys(t.Context(), e.Prefix+":{"+t.Name()+"}:*").Val()
		if len(keys) != 1 {
			t.Errorf("keys of a free lock: %q", keys)
		}
	})
}

func TestLeaseContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		m := e.mutex(e.newClient(), lock.Options{TTL: 5 * time.Second, NoRenew: true})
		lease := try(t, m, t.Name())
		ctx := lease.Context(t.Context())
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrNotHeld) {
			t.Errorf("cause is %v", cause)
		}
		if late := lease.Context(t.Context()); !errors.Is(context.Cause(late), lock.ErrNotHeld) {
			t.Error("a context of a lost lease is alive")
		}
		released := take(t, e.mutex(e.newClient(), lock.Options{}), t.Name()) // the server's deadline is a little later
		ctx = released.Context(t.Context())
		must(t, released.Release(t.Context()))
		if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrReleased) {
			t.Errorf("cause after Release is %v", cause)
		}
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		m := e.mutex(e.newClient(), lock.Options{TTL: 9 * time.Second})
		boom := errors.New("boom")
		if err := m.Do(t.Context(), t.Name(), func(context.Context) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("Do returned %v, want what fn returned", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), t.Name(), func(context.Context) error { panic("boom") })
		}()
		must(t, try(t, m, t.Name()).Release(t.Context())) // free after the panic

		err := m.Do(t.Context(), t.Name(), func(ctx context.Context) error {
			must(t, e.Redis.Del(t.Context(), e.key(t.Name())).Err())
			<-ctx.Done() // the next renewal finds out
			return nil
		})
		if !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Do with a lost lease returned %v, want ErrNotHeld", err)
		}
	})
}

func TestReleaseWithADeadContext(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{})
		lease := try(t, m, t.Name())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, lease.Release(ctx))
		must(t, try(t, m, t.Name()).Release(t.Context()))
	})
}

// Promise: A late copy of an acquire that was already released or given up
// takes nothing, unless another acquire was released or given up after it.
func TestLateAcquireIsVoid(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		key, err := keyOf(c, t.Name())
		must(t, err)
		ask := func(cmd redoubt.Cmd) wire.Attempt {
			t.Helper()
			a, err := wire.ReadAttempt(c.Do(t.Context(), cmd))
			must(t, err)
			return a
		}
		acquire := wire.AcquireCmd([]string{key}, wire.Request{ID: wire.NewID(), TTL: time.Minute})
		first, again := ask(acquire), ask(acquire)
		if first.Status != wire.Acquired || again.Status != wire.Acquired || again.Token != first.Token {
			t.Errorf("the same acquisition twice: %+v, then %+v", first, again)
		}
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, acquire.Args[0], "", false)).Err)
		if late := ask(acquire); late.Status != wire.Over {
			t.Errorf("a copy of the acquire after its release: %+v, want Over", late)
		}

		// Given up while the lock is free, before the acquire comes.
		acquire = wire.AcquireCmd([]string{key}, wire.Request{ID: wire.NewID(), TTL: time.Minute})
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, acquire.Args[0], "", true)).Err)
		if late := ask(acquire); late.Status != wire.Over {
			t.Errorf("an acquire after it was given up: %+v, want Over", late)
		}
		// Given up while another holds the lock.
		acquire = wire.AcquireCmd([]string{key}, wire.Request{ID: wire.NewID(), TTL: time.Minute})
		lease := try(t, e.mutex(c, lock.Options{}), t.Name())
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, acquire.Args[0], "", true)).Err)
		must(t, lease.Release(t.Context()))
		if late := ask(acquire); late.Status != wire.Over {
			t.Errorf("an acquire after it was given up and the lock was released: %+v, want Over", late)
		}
		// Given up when it has the lock.
		acquire = wire.AcquireCmd([]string{key}, wire.Request{ID: wire.NewID(), TTL: time.Minute})
		ask(acquire)
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, acquire.Args[0], "", true)).Err)
		must(t, try(t, e.mutex(c, lock.Options{}), t.Name()).Release(t.Context()))
	})
}

// A release whose reply was lost comes again after the waiter that it woke has
// acquired the lock.
//
// Promise: A call that is repeated after a lost reply gives the same answer
// and the same token; a release does so until a later lease on the name is
// released too.
func TestRepeatedRelease(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		key, err := keyOf(c, t.Name())
		must(t, err)
		lease := try(t, e.mutex(c, lock.Options{}), t.Name())
		release := wire.ReleaseCmd([]string{key}, lease.ID(), "", false)
		for range 2 {
			if ok, err := wire.ReadRelease(c.Do(t.Context(), release)); err != nil || !ok {
				t.Errorf("release: %v %v", ok, err)
			}
		}
		next := try(t, e.mutex(c, lock.Options{}), t.Name())
		if ok, err := wire.ReadRelease(c.Do(t.Context(), release)); err != nil || !ok {
			t.Errorf("the same release when another has the lock: %v %v", ok, err)
		}
		if info, err := e.mutex(c, lock.Options{}).Info(t.Context(), t.Name()); err != nil || info.Mode != lock.Exclusive || info.Token != next.Token() {
			t.Errorf("the other's lock is now %+v (%v)", info, err)
		}
		must(t, next.Release(t.Context()))
	})
}

func TestContextsThatEndAreForgotten(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		lease := try(t, e.mutex(e.newClient(), lock.Options{}), t.Name())
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			lease.Context(ctx)
			cancel()
		}
		eventually(t, "the lease holds no context", func() bool { return lease.Contexts() == 0 })
		must(t, lease.Release(t.Context()))

		// Nor is anything left of a Do in a lease, however long that one lasts.
		m := e.mutex(e.newClient(), lock.Options{})
		lease = try(t, m, t.Name())
		ctx := lease.Context(t.Context())
		for range 100 {
			must(t, m.Do(ctx, t.Name(), func(context.Context) error { return nil }))
		}
		eventually(t, "the lease holds one context", func() bool { return lease.Contexts() == 1 })
		must(t, lease.Release(t.Context()))
	})
}

// A caller that releases a lost lease is told each time, not only the first.
func TestReleaseOfALostLeaseSaysSoAgain(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{TTL: 20 * time.Millisecond, NoRenew: true})
		lease := take(t, m, t.Name())
		<-lease.Done()
		for range 2 {
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrRanOut) {
				t.Errorf("Release returned %v, want %v", err, lock.ErrRanOut)
			}
		}
	})
}

func TestScriptFlush(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{})
		for range 20 {
			lease := try(t, m, t.Name())
			must(t, e.Redis.ScriptFlush(t.Context()).Err())
			must(t, lease.Release(t.Context()))
		}
	})
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		for _, ttl := range []time.Duration{-1, 1, time.Millisecond - 1, lock.MaxTTL + 1} {
			if _, err := lock.New(c, lock.Options{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "ttl") {
				t.Errorf("New with TTL %v: %v", ttl, err)
			}
		}
		_, err := lock.New(nil, lock.Options{TTL: -1, Label: strings.Repeat("x", lock.MaxLabel+1)})
		for _, want := range []string{"client", "ttl", "label"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("New with three faults: %v, want one about %s too", err, want)
			}
		}
		m := e.mutex(c, lock.Options{})
		for _, name := range []string{"", "}x", strings.Repeat("x", redoubt.MaxName+1)} {
			if _, _, err := m.TryAcquire(t.Context(), name); !errors.Is(err, redoubt.ErrInvalidName) {
				t.Errorf("TryAcquire(%.10q…): %v", name, err)
			}
			if _, err := m.Acquire(t.Context(), name); !errors.Is(err, redoubt.ErrInvalidName) {
				t.Errorf("Acquire(%.10q…): %v", name, err)
			}
		}
		for what, r := range map[string]lock.Request{
			"ttl":   {ID: "x"},
			"id":    {TTL: time.Second},
			"label": {ID: "x", TTL: time.Second, Label: strings.Repeat("x", lock.MaxLabel+1)},
		} {
			if _, err := m.AcquireRequest(t.Context(), t.Name(), r); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("AcquireRequest with a bad %s: %v", what, err)
			}
		}
		for _, name := range []string{"a b", "\x00\xff\r\n", "{x}", "a}b", strings.Repeat("x", redoubt.MaxName)} {
			must(t, try(t, m, name).Release(t.Context()))
		}
		// A key of another type is an error, and is not touched.
		must(t, e.Redis.Set(t.Context(), e.key("taken"), "x", 0).Err())
		if _, _, err := m.TryAcquire(t.Context(), "taken"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a string in the lock's place: %v", err)
		}
		if v := e.Redis.Get(t.Context(), e.key("taken")).Val(); v != "x" {
			t.Errorf("the string is now %q", v)
		}
	})
}
