package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// A row is callers that queue one after the other, and the order in which they are
// served.
type row struct {
	*env

	name   string
	wg     sync.WaitGroup
	mu     sync.Mutex
	served []int
}

// join lets caller i wait, and returns when it is queued as the n-th.
func (r *row) join(ctx context.Context, m taker, i, n int) {
	r.T.Helper()
	r.wg.Go(func() {
		lease, err := m.Acquire(ctx, r.name)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				r.T.Errorf("caller %d: %v", i, err)
			}
			return
		}
		r.mu.Lock()
		r.served = append(r.served, i)
		r.mu.Unlock()
		must(r.T, lease.Release(r.T.Context()))
	})
	r.waiting(n)
}

func (r *row) waiting(n int) {
	r.T.Helper()
	inspector := r.mutex(r.newClient(), lock.Options{})
	eventually(r.T, fmt.Sprint(n, " wait"), func() bool {
		info, err := inspector.Info(r.T.Context(), r.name)
		return err == nil && info.Waiters == int64(n)
	})
}

func (r *row) want(order ...int) {
	r.T.Helper()
	r.wg.Wait()
	if !slices.Equal(r.served, order) {
		r.T.Errorf("served in the order %v, want %v", r.served, order)
	}
}

// clean wants nothing to be left in the lock's hash but what a free lock has.
// A waiter that gave up cleans up in the background.
func (r *row) clean() {
	r.T.Helper()
	eventually(r.T, "only the fields of a free lock are left", func() bool {
		left := r.Redis.HKeys(r.T.Context(), r.key(r.name)).Val()
		return !slices.ContainsFunc(left, func(f string) bool {
			return !slices.Contains([]string{"id", "until", "fence", "label", "last", "void", "dead"}, f)
		})
	})
}

// Waiters are served in the order in which they queued, whatever their
// process, and some have left. Each is two commands, however many wait.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const processes, callers = 4, 60
		r := &row{env: e, name: t.Name()}
		var mutexes []*lock.Mutex
		for range processes {
			mutexes = append(mutexes, e.mutex(e.newClient(), lock.Options{Fair: true}))
		}
		for _, m := range mutexes {
			must(t, try(t, m, "warm").Release(t.Context()))
		}
		holder := try(t, e.mutex(e.newClient(), lock.Options{}), r.name)
		rng := randtest.Rand(t)
		var cancels []context.CancelFunc
		for i := range callers {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			r.join(ctx, mutexes[rng.IntN(processes)], i, i+1)
		}
		var order []int
		gone := map[int]bool{0: true, callers - 1: true} // both ends, and some between
		for len(gone) < callers/3 {
			gone[rng.IntN(callers)] = true
		}
		for i := range callers {
			if gone[i] {
				cancels[i]()
			} else {
				order = append(order, i)
			}
		}
		r.waiting(len(order))
		before := e.calls()
		must(t, holder.Release(t.Context()))
		r.want(order...)
		if n := e.calls() - before; e.Server != nil && n > int64(2*len(order)+1) {
			t.Errorf("%d commands for %d hand-overs, want 2 each", n, len(order))
		}
		r.clean()
	})
}

// A later caller does not overtake the waiters, not even by TryAcquire.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairLetsNobodyIn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		r := &row{env: e, name: t.Name()}
		m := e.mutex(e.newClient(), lock.Options{Fair: true})
		holder := try(t, m, r.name)
		var order []int
		for i := range 30 {
			r.join(t.Context(), m, i, i+1)
			order = append(order, i)
		}
		var stop atomic.Bool
		var tries atomic.Int64
		var bargers sync.WaitGroup
		c := e.newClient()
		rw := e.rw(c, lock.Options{})
		for _, way := range []func() (*lock.Lease, *lock.Busy, error){
			func() (*lock.Lease, *lock.Busy, error) { return m.TryAcquire(t.Context(), r.name) },
			func() (*lock.Lease, *lock.Busy, error) { return rw.TryAcquire(t.Context(), r.name) },
			func() (*lock.Lease, *lock.Busy, error) { return rw.TryAcquireShared(t.Context(), r.name) },
			func() (*lock.Lease, *lock.Busy, error) {
				return newMulti(t, c, lock.Options{}).TryAcquire(t.Context(), []string{r.name})
			},
		} {
			bargers.Go(func() {
				for !stop.Load() {
					lease, _, err := way()
					must(t, err)
					tries.Add(1)
					if lease != nil {
						r.mu.Lock()
						if len(r.served) < len(order) {
							r.served = append(r.served, -1)
						}
						r.mu.Unlock()
						must(t, lease.Release(t.Context()))
					}
				}
			})
		}
		eventually(t, "they try", func() bool { return tries.Load() > 20 })
		must(t, holder.Release(t.Context()))
		r.wg.Wait()
		stop.Store(true)
		bargers.Wait()
		r.want(order...)
	})
}

// An unfair client waits until no fair client waits, whatever it came for and
// whoever releases the lock.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairAndUnfair(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for what, way := range map[string]func(c *redoubt.Client) taker{
			"mutex":  func(c *redoubt.Client) taker { return e.mutex(c, lock.Options{}) },
			"writer": func(c *redoubt.Client) taker { return e.rw(c, lock.Options{}) },
			"reader": func(c *redoubt.Client) taker { return readers{e.rw(c, lock.Options{})} },
			"multi":  func(c *redoubt.Client) taker { return alone{newMulti(t, c, lock.Options{})} },
		} {
			t.Run(what, func(t *testing.T) {
				e := e.in(t)
				r := &row{env: e, name: t.Name()}
				holder := try(t, way(e.newClient()), r.name)
				r.join(t.Context(), e.mutex(e.newClient(), lock.Options{}), 1, 1)
				r.join(t.Context(), e.mutex(e.newClient(), lock.Options{Fair: true}), 2, 2)
				r.join(t.Context(), e.mutex(e.newClient(), lock.Options{Fair: true}), 3, 3)
				must(t, holder.Release(t.Context()))
				r.want(2, 3, 1)
			})
		}
	})
}

// alone is a Multi that takes one name.
type alone struct{ m *lock.Multi }

func (a alone) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return a.m.Acquire(ctx, []string{name})
}

func (a alone) TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
	return a.m.TryAcquire(ctx, []string{name})
}

// The holder dies: its lease runs out, and the order is kept. It dies when all wait.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairOrderWhenTheHolderDies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		r := &row{env: e, name: t.Name()}
		link := faultnet.New(t, e.Addr)
		try(t, e.mutex(e.ClientAt(link.Addr()), lock.Options{TTL: 6 * time.Second}), r.name)
		for i := range 8 {
			r.join(t.Context(), e.mutex(e.newClient(), lock.Options{Fair: true}), i, i+1)
		}
		link.Blackhole(faultnet.Both)
		r.want(0, 1, 2, 3, 4, 5, 6, 7)
	})
}

// When a holder died, fair waiters have 3 s to come before anybody else.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairHasTimeToComeWhenTheHolderDied(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		for what, m := range map[string]taker{
			"mutex": e.mutex(c, lock.Options{}), "writer": e.rw(c, lock.Options{}),
			"reader": readers{e.rw(c, lock.Options{})}, "multi": alone{newMulti(t, c, lock.Options{})},
		} {
			name := t.Name() + what
			try(t, e.mutex(c, lock.Options{}), name)
			must(t, c.Do(t.Context(), wire.FairCmd([]string{e.key(name)}, wire.Request{ID: "waits", TTL: time.Minute, Waiter: "PUBLISH nobody"})).Err)
			ranOut := func(ago time.Duration) {
				must(t, e.Redis.HSet(t.Context(), e.key(name), "until", time.Now().Add(-ago).UnixMicro()).Err())
			}
			ranOut(time.Millisecond)
			_, busy, err := m.TryAcquire(t.Context(), name)
			must(t, err)
			if busy == nil || busy.Remaining > 3*time.Second {
				t.Errorf("%s: %+v, want busy for 3 s at most", what, busy)
			}
			ranOut(3 * time.Second)
			try(t, m, name)
		}
	})
}

// The processes of the first in the queue are gone: they cost nothing. That of the
// next doesn't answer: it costs a heartbeat, once, though it has two callers in the
// queue. On a busy machine it may seem more: then it is tried anew.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairDeadHead(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var took []time.Duration
		for trial := range 3 {
			took = append(took, deadHead(t, e, fmt.Sprint(t.Name(), trial)))
			if took[trial] < 2*heartbeat {
				return
			}
		}
		t.Errorf("it took %v, want a heartbeat of %v", took, heartbeat)
	})
}

const heartbeat = 3 * time.Second

func deadHead(t *testing.T, e *env, name string) (took time.Duration) {
	t.Helper()
	r := &row{env: e, name: name}
	c := e.newClient()
	proxy := faultnet.New(t, e.Addr)
	frozen := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{Fair: true})
	lively := e.mutex(e.newClient(), lock.Options{Fair: true})

	holder := try(t, lively, r.name)
	for i := range 20 {
		must(t, c.Do(t.Context(), wire.FairCmd([]string{e.key(r.name)}, wire.Request{ID: wire.NewID(), TTL: time.Minute, Waiter: fmt.Sprint("PUBLISH gone ", i)})).Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.join(ctx, frozen, 1, 21)
	r.join(t.Context(), lively, 2, 22)
	r.join(ctx, frozen, 3, 23)
	r.join(t.Context(), lively, 4, 24)
	proxy.Blackhole(faultnet.Both)
	released := time.Now()
	must(t, holder.Release(t.Context()))
	eventually(t, "the others are served", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.served) == 2
	})
	took = time.Since(released)
	cancel()
	r.want(2, 4)
	proxy.Heal()
	// It is heard of again, and served again.
	lease, err := frozen.Acquire(t.Context(), r.name)
	must(t, err)
	must(t, lease.Release(t.Context()))
	return took
}

// Several processes ask again and again, and give up now and then. A client that was queued
// before another asked gets the lock before it.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairHistory(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const processes, callers, rounds = 3, 5, 12
		type turn struct {
			asked, queued time.Time // zero when it never had to queue
			fence         int64
		}
		var mu sync.Mutex
		var turns []turn
		var wg sync.WaitGroup
		var inside atomic.Int32
		for p := range processes {
			conn := newWatching(t, e)
			m := e.mutex(e.ClientOn(conn), lock.Options{Fair: true})
			for i := range callers {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(i)))
				wg.Go(func() {
					for range rounds {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						if rng.IntN(4) == 0 {
							cancel()
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.IntN(5000))*time.Microsecond)
						}
						asked := time.Now()
						lease, err := m.Acquire(ctx, t.Name())
						cancel()
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							continue
						}
						if inside.Add(1) != 1 {
							t.Error("two holders at once")
						}
						mu.Lock()
						turns = append(turns, turn{asked, conn.queued(lease.ID()), lease.Token()})
						mu.Unlock()
						inside.Add(-1)
						must(t, lease.Release(t.Context()))
					}
				})
			}
		}
		wg.Wait()
		queued := 0
		for _, a := range turns {
			if a.queued.IsZero() {
				continue
			}
			queued++
			for _, b := range turns {
				if a.queued.Before(b.asked) && a.fence > b.fence {
					t.Fatalf("one asked %v after another was queued, and was served before it", b.asked.Sub(a.queued))
				}
			}
		}
		if queued < len(turns)/4 || len(turns) < processes*callers*rounds/2 {
			t.Errorf("%d turns, of which %d queued: the test shows little", len(turns), queued)
		}
		(&row{env: e, name: t.Name()}).waiting(0)
	})
}

// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairWaitsLeaveNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		r := &row{env: e, name: t.Name()}
		lease := try(t, e.mutex(e.newClient(), lock.Options{}), r.name)
		m := e.mutex(e.newClient(), lock.Options{Fair: true})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
				defer cancel()
				if _, err := m.Acquire(ctx, r.name); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire returned %v", err)
				}
			})
		}
		wg.Wait()
		r.waiting(0)
		must(t, lease.Release(t.Context()))
		r.clean()
		// An acquire that arrived late may have it until its undoing, and no longer.
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		last, err := m.Acquire(ctx, r.name)
		must(t, err)
		must(t, last.Release(t.Context()))
	})
}

// watching notes when a fair acquisition was queued.
type watching struct {
	*counting

	mu sync.Mutex
	at map[string]time.Time
}

func newWatching(t *testing.T, e *env) *watching {
	return &watching{counting: newCounting(t, clienttest.Dial(t, e.Addr)), at: map[string]time.Time{}}
}

func (c *watching) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.counting.Do(ctx, cmd)
	c.note(cmd, r)
	return r
}

func (c *watching) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := c.counting.Pipeline(ctx, cmds)
	for i := range cmds {
		c.note(cmds[i], replies[i])
	}
	return replies
}

func (c *watching) note(cmd redoubt.Cmd, r redoubt.Reply) {
	if cmd.Script == nil || cmd.Script.Name() != "lock.fair" {
		return
	}
	if a, err := wire.ReadAttempt(r); err == nil && a.Status == wire.Held {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.at[cmd.Args[0]].IsZero() {
			c.at[cmd.Args[0]] = time.Now()
		}
	}
}

func (c *watching) queued(id string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[id]
}

// An ID that may have been asked for again elsewhere leaves: it gives on what was
// handed to it, and not what it has acquired.
func TestFairLeaveKeepsWhatIsAcquired(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, key := e.newClient(), e.key(t.Name())
		do := func(cmd redoubt.Cmd, want wire.Status) {
			t.Helper()
			if a, err := wire.ReadAttempt(c.Do(t.Context(), cmd)); err != nil || a.Status != want {
				t.Errorf("%+v (%v), want status %d", a, err, want)
			}
		}
		leave := func(id string, want bool) {
			t.Helper()
			if ok, err := wire.ReadRelease(c.Do(t.Context(), wire.FairLeaveCmd([]string{key}, id))); err != nil || ok != want {
				t.Errorf("%s leaves: %v (%v), want %v", id, ok, err, want)
			}
		}
		waiter, err := c.Waiter(t.Context(), t.Name(), key)
		must(t, err)
		defer waiter.Close()
		wake := waiter.Verb + " " + waiter.Channel
		do(wire.FairCmd([]string{key}, wire.Request{ID: "a", TTL: time.Minute, Waiter: wake}), wire.Acquired)
		do(wire.FairCmd([]string{key}, wire.Request{ID: "b", TTL: time.Minute, Waiter: wake}), wire.Held)
		leave("a", false)
		do(wire.FairCmd([]string{key}, wire.Request{ID: "a", TTL: time.Minute, Waiter: wake}), wire.Acquired)
		must(t, c.Do(t.Context(), wire.ReleaseCmd([]string{key}, "a", "", false)).Err) // to b
		leave("b", true)
		do(wire.FairCmd([]string{key}, wire.Request{ID: "c", TTL: time.Minute, Waiter: wake}), wire.Acquired)
		leave("c", false)
	})
}
