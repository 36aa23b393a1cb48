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

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// world is one back end with clients on it, each like a process of its own.
type world struct {
	redistest.Backend
	t   *testing.T
	rdb *redis.Client // for looking at keys
}

func each(t *testing.T, run func(t *testing.T, w *world)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		w := &world{Backend: b, t: t}
		w.rdb = w.dial(b.Addr)
		run(t, w)
	})
}

func (w *world) dial(addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	w.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// client returns a Client with connections of its own.
func (w *world) client() *redoubt.Client { return w.clientAt(w.Addr) }

func (w *world) clientAt(addr string) *redoubt.Client {
	w.t.Helper()
	conn, err := goredis.Wrap(w.dial(addr))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.clientOn(conn)
}

func (w *world) clientOn(conn redoubt.Conn) *redoubt.Client {
	w.t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{Prefix: w.Prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) mutex(c *redoubt.Client, opts lock.Options) *lock.Mutex {
	w.t.Helper()
	m, err := lock.New(c, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) key(name string) string { return w.Prefix + ":{" + name + "}:lock" }

// counting counts the commands of a Conn, renewals included.
type counting struct {
	redoubt.Conn
	redoubt.Subscriber

	n atomic.Int64
}

func newCounting(t *testing.T, rdb *redis.Client) *counting {
	t.Helper()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Conn: conn, Subscriber: conn}
}

func (c *counting) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.n.Add(1)
	return c.Conn.Do(ctx, cmd)
}

func (c *counting) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	c.n.Add(int64(len(cmds)))
	return c.Conn.Pipeline(ctx, cmds)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func try(t *testing.T, m *lock.Mutex, name string) *lock.Lease {
	t.Helper()
	lease, busy, err := m.TryAcquire(t.Context(), name)
	must(t, err)
	if busy != nil {
		t.Fatalf("lock %q is busy for %v", name, busy.Remaining)
	}
	return lease
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) { // the pace of a poll
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestTryAcquire(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.mutex(w.client(), lock.Options{Label: "a"})
		b := w.mutex(w.client(), lock.Options{TTL: 5 * time.Second})
		name := t.Name()

		lease := try(t, a, name)
		if lease.Name() != name || len(lease.ID()) != 32 || lease.Err() != nil {
			t.Errorf("lease: name %q, id %q, err %v", lease.Name(), lease.ID(), lease.Err())
		}
		if left := time.Until(lease.Deadline()); left < 29*time.Second || left > lock.DefaultTTL {
			t.Errorf("the local deadline is in %v, want a little under 30 s", left)
		}
		none, busy, err := b.TryAcquire(t.Context(), name)
		must(t, err)
		if none != nil || busy == nil {
			t.Fatal("a second holder got the lock")
		}
		if busy.Label != "a" || busy.Fence != lease.Token() || busy.Remaining < 29*time.Second || busy.Remaining > 30*time.Second {
			t.Errorf("busy = %+v, want label a, fence %d, about 30 s", *busy, lease.Token())
		}
		must(t, lease.Release(t.Context()))
		must(t, lease.Release(t.Context())) // a second time does nothing
		if !errors.Is(lease.Err(), lock.ErrReleased) {
			t.Errorf("after Release Err is %v, want ErrReleased", lease.Err())
		}
		next := try(t, b, name)
		if left := time.Until(next.Deadline()); left > 5*time.Second {
			t.Errorf("TTL 5 s gave a deadline in %v", left)
		}
		must(t, next.Release(t.Context()))
	})
}

func TestTokensRise(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{})
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
				must(t, w.rdb.Del(t.Context(), w.key(name)).Err())
			}
		}
		// A primary whose clock is behind: the stored token still counts.
		future := time.Now().Add(40 * time.Second).UnixMicro()
		must(t, w.rdb.HSet(t.Context(), w.key(name), "fence", future).Err())
		lease := try(t, m, name)
		if lease.Token() != future+1 {
			t.Errorf("token %d after %d, want the next", lease.Token(), future)
		}
		must(t, lease.Release(t.Context()))
	})
}

func TestMutualExclusion(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const processes, callers, rounds = 4, 8, 10
		var inside, total atomic.Int32
		var wg sync.WaitGroup
		for range processes {
			m := w.mutex(w.client(), lock.Options{TTL: 10 * time.Second})
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

// A release wakes a waiter at once, and until then the waiter asks twice: when
// it comes, and when it queues.
func TestWakeUp(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder := w.mutex(w.client(), lock.Options{})
		conn := newCounting(t, w.dial(w.Addr))
		waiter := w.mutex(w.clientOn(conn), lock.Options{})
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
			info, err := holder.Inspect(t.Context(), name)
			return err == nil && info.Waiters == 1
		})
		if n := conn.n.Load(); n != 2 {
			t.Errorf("the waiter sent %d commands until it was queued, want 2", n)
		}
		released := time.Now()
		must(t, first.Release(t.Context()))
		lease := <-got
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("the hand-over took %v: that is the lease running out, not a wake-up", took)
		}
		if n := conn.n.Load(); n != 3 {
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
	each(t, func(t *testing.T, w *world) {
		holder := w.mutex(w.client(), lock.Options{TTL: 300 * time.Millisecond, NoRenew: true})
		conn := newCounting(t, w.dial(w.Addr))
		waiter := w.mutex(w.clientOn(conn), lock.Options{})
		first := try(t, holder, t.Name())
		lease, err := waiter.Acquire(t.Context(), t.Name())
		must(t, err)
		if time.Now().Before(first.Deadline()) {
			t.Error("acquired before the other lease was over")
		}
		if n := conn.n.Load(); n > 4 {
			t.Errorf("the waiter sent %d commands: it polls", n)
		}
		if err := first.Err(); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Err of the lease that ran out is %v", err)
		}
		must(t, lease.Release(t.Context()))
	})
}

func TestCancelledWaiterPassesOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder := w.mutex(w.client(), lock.Options{})
		name := t.Name()
		first := try(t, holder, name)

		// Two processes wait; one of them gives up.
		ctx, cancel := context.WithCancel(t.Context())
		quitter, stayer := w.mutex(w.client(), lock.Options{}), w.mutex(w.client(), lock.Options{})
		gone := make(chan error, 1)
		go func() {
			_, err := quitter.Acquire(ctx, name)
			gone <- err
		}()
		waiters := func(n int64) func() bool {
			return func() bool {
				info, err := holder.Inspect(t.Context(), name)
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
	each(t, func(t *testing.T, w *world) {
		for range 100 {
			holder := w.mutex(w.client(), lock.Options{})
			name := t.Name()
			first := try(t, holder, name)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			quitter, stayer := w.mutex(w.client(), lock.Options{}), w.mutex(w.client(), lock.Options{})
			wg.Go(func() {
				if lease, err := quitter.Acquire(ctx, name); err == nil {
					_ = lease.Release(t.Context())
				}
			})
			eventually(t, "the first waiter is queued", func() bool {
				info, err := holder.Inspect(t.Context(), name)
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

func TestRenewal(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 500 * time.Millisecond
		m := w.mutex(w.client(), lock.Options{TTL: ttl})
		other := w.mutex(w.client(), lock.Options{})
		const n = 50
		leases := make([]*lock.Lease, n)
		for i := range leases {
			leases[i] = try(t, m, fmt.Sprint(t.Name(), i))
		}
		for start := time.Now(); time.Since(start) < 4*ttl; {
			for i, l := range leases {
				if err := l.Err(); err != nil {
					t.Fatalf("lease %d was lost: %v", i, err)
				}
			}
			if l, _, err := other.TryAcquire(t.Context(), leases[0].Name()); err != nil || l != nil {
				t.Fatalf("another got a renewed lock (%v)", err)
			}
			time.Sleep(5 * time.Millisecond) // the pace of a poll
		}
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

func TestExtend(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{TTL: time.Second, NoRenew: true})
		lease := try(t, m, t.Name())
		must(t, lease.Extend(t.Context(), time.Minute))
		if left := time.Until(lease.Deadline()); left < 55*time.Second {
			t.Errorf("after Extend(1m) the deadline is in %v", left)
		}
		info, err := m.Inspect(t.Context(), t.Name())
		must(t, err)
		if !info.Held || info.TTL < 55*time.Second || info.Fence != lease.Token() {
			t.Errorf("the server says %+v", info)
		}
		for _, bad := range []time.Duration{0, -time.Second, time.Microsecond, lock.MaxTTL + 1} {
			if err := lease.Extend(t.Context(), bad); err == nil || errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("Extend(%v) gave %v", bad, err)
			}
		}
		// Shorter works too, and the deadline follows.
		must(t, lease.Extend(t.Context(), 50*time.Millisecond))
		<-lease.Done()
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Extend of a lease that ran out gave %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release of a lease that ran out gave %v", err)
		}
	})
}

func TestStaleLeaseIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{})
		stale := try(t, m, t.Name())
		// The lock is forced away and taken by another.
		must(t, w.rdb.Del(t.Context(), w.key(t.Name())).Err())
		holder := try(t, w.mutex(w.client(), lock.Options{}), t.Name())
		before := w.rdb.HGetAll(t.Context(), w.key(t.Name())).Val()

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
		after := w.rdb.HGetAll(t.Context(), w.key(t.Name())).Val()
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("the holder's lock changed from %v to %v", before, after)
		}
		must(t, holder.Release(t.Context()))
	})
}

func TestNothingIsLeft(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{TTL: time.Hour})
		lease := try(t, m, t.Name())
		ttl := w.rdb.PTTL(t.Context(), w.key(t.Name())).Val()
		if ttl < time.Hour || ttl > time.Hour+61*time.Second {
			t.Errorf("the key of a held lock lives for %v, want its TTL and a minute", ttl)
		}
		must(t, lease.Release(t.Context()))
		if ttl := w.rdb.PTTL(t.Context(), w.key(t.Name())).Val(); ttl < 0 || ttl > 61*time.Second {
			t.Errorf("the key of a free lock lives for %v, want at most a minute", ttl)
		}
		keys := w.rdb.Keys(t.Context(), w.Prefix+":{"+t.Name()+"}:*").Val()
		if len(keys) != 1 {
			t.Errorf("keys of a free lock: %q", keys)
		}
	})
}

func TestLeaseContext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{TTL: 100 * time.Millisecond, NoRenew: true})
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
		released, err := m.Acquire(t.Context(), t.Name()) // the server's deadline is a little later
		must(t, err)
		ctx = released.Context(t.Context())
		must(t, released.Release(t.Context()))
		if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrReleased) {
			t.Errorf("cause after Release is %v", cause)
		}
	})
}

func TestDo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{TTL: 200 * time.Millisecond})
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
			must(t, w.rdb.Del(t.Context(), w.key(t.Name())).Err())
			<-ctx.Done() // the next renewal finds out
			return nil
		})
		if !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Do with a lost lease returned %v, want ErrNotHeld", err)
		}
	})
}

func TestReleaseWithADeadContext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{})
		lease := try(t, m, t.Name())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, lease.Release(ctx))
		must(t, try(t, m, t.Name()).Release(t.Context()))
	})
}

func TestLateAcquireIsVoid(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client()
		keys, err := lock.NewKeys(c, t.Name())
		must(t, err)
		id := lock.NewID()
		acquire := lock.AcquireCmd(keys, id, time.Minute, "", "")
		first, err := lock.ReadAttempt(c.Do(t.Context(), acquire))
		must(t, err)
		again, err := lock.ReadAttempt(c.Do(t.Context(), acquire))
		must(t, err)
		if first.Status != lock.Acquired || again.Status != lock.Acquired || again.Fence != first.Fence {
			t.Errorf("the same acquisition twice: %+v, then %+v", first, again)
		}
		release := lock.ReleaseCmd(keys, id, "PUBLISH")
		for range 2 {
			if ok, err := lock.ReadRelease(c.Do(t.Context(), release)); err != nil || !ok {
				t.Errorf("release: %v %v", ok, err)
			}
		}
		late, err := lock.ReadAttempt(c.Do(t.Context(), acquire))
		must(t, err)
		if late.Status != lock.Over {
			t.Errorf("a copy of the acquire after the release: %+v, want Over", late)
		}
		must(t, try(t, w.mutex(c, lock.Options{}), t.Name()).Release(t.Context()))
	})
}

func TestScriptFlush(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.mutex(w.client(), lock.Options{})
		for range 20 {
			lease := try(t, m, t.Name())
			must(t, w.rdb.ScriptFlush(t.Context()).Err())
			must(t, lease.Release(t.Context()))
		}
	})
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client()
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
		m := w.mutex(c, lock.Options{})
		for _, name := range []string{"", "}x", strings.Repeat("x", redoubt.MaxName+1)} {
			if _, _, err := m.TryAcquire(t.Context(), name); !errors.Is(err, redoubt.ErrInvalidName) {
				t.Errorf("TryAcquire(%.10q…): %v", name, err)
			}
			if _, err := m.Acquire(t.Context(), name); !errors.Is(err, redoubt.ErrInvalidName) {
				t.Errorf("Acquire(%.10q…): %v", name, err)
			}
		}
		for _, name := range []string{"a b", "\x00\xff\r\n", "{x}", "a}b", strings.Repeat("x", redoubt.MaxName)} {
			must(t, try(t, m, name).Release(t.Context()))
		}
		// A key of another type is an error, and is not touched.
		must(t, w.rdb.Set(t.Context(), w.key("taken"), "x", 0).Err())
		if _, _, err := m.TryAcquire(t.Context(), "taken"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a string in the lock's place: %v", err)
		}
		if v := w.rdb.Get(t.Context(), w.key("taken")).Val(); v != "x" {
			t.Errorf("the string is now %q", v)
		}
	})
}

func TestCancelledWaitsLeaveNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder := w.mutex(w.client(), lock.Options{})
		lease := try(t, holder, t.Name())
		c := w.client()
		m := w.mutex(c, lock.Options{})
		warm, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, _ = m.Acquire(warm, t.Name()) // the inbox and the pool's connections are open now
		cancel()
		before := goleak.IgnoreCurrent()
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
				defer cancel()
				if _, err := m.Acquire(ctx, t.Name()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire returned %v", err)
				}
			})
		}
		wg.Wait()
		eventually(t, "nobody is queued", func() bool {
			info, err := holder.Inspect(t.Context(), t.Name())
			return err == nil && info.Waiters == 0
		})
		must(t, lease.Release(t.Context()))
		if w.Server == nil {
			return // the server's own goroutines are in this process
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}
