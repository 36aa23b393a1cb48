package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/lock"
)

// A slowed Conn delays each call and each reply by a random time, so that they overtake
// each other as they do on several connections.
type slowed struct {
	redoubt.Conn

	most time.Duration

	mu   sync.Mutex
	rand *rand.Rand
}

func (c *slowed) pause() {
	c.mu.Lock()
	d := time.Duration(c.rand.Int64N(int64(c.most)))
	if c.rand.IntN(8) == 0 {
		d *= 50
	}
	c.mu.Unlock()
	await.Advance(d)
}

func (c *slowed) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.pause()
	defer c.pause()
	return c.Conn.Do(ctx, cmd)
}

// Calls and replies of one lease, and of the leases after it, overtake each other. No
// lease is lost by that.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumCallsOvertakeEachOther(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	rounds := 100
	if os.Getenv("LOCK_FAULTS") == "full" {
		rounds = 5000
	}
	for i := range rounds {
		seed := r.Uint64()
		steps.Begin(func() string { return fmt.Sprintf("round %d", i) })
		synctest.Test(t, func(t *testing.T) {
			_, conns, _ := clocks(t, 3)
			for i := range conns {
				conns[i] = &slowed{Conn: conns[i], most: 3 * time.Millisecond, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
			}
			q := newQuorum(t, conns, lock.Options{})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := q.Do(t.Context(), "lock", func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			await.Advance(time.Minute) // for what is still under way
		})
	}
}

// A reordered Conn keeps back the replies of extensions and the first release.
type reordered struct {
	redoubt.Conn

	on             atomic.Bool
	released       atomic.Bool
	reply, release chan struct{} // closed to let them go
}

func (c *reordered) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if !c.on.Load() || cmd.Script == nil {
		return c.Conn.Do(ctx, cmd)
	}
	switch cmd.Script.Name() {
	case "lock.release":
		if !c.released.Swap(true) {
			<-c.release
		}
	case "lock.quorum_extend":
		r := c.Conn.Do(ctx, cmd)
		<-c.reply
		return r
	}
	return c.Conn.Do(ctx, cmd)
}

// A lease is released while an extension is under way on two of three masters. The replies
// of the extension come first, so these masters are released for them too. Then others
// have the lock, and the first release comes last. The lease was held until its release,
// and its caller is told so.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumReleaseComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conns, _ := clocks(t, 3)
		others := newQuorum(t, slices.Clone(conns), lock.Options{NoRenew: true})
		reply, release := make(chan struct{}), make(chan struct{})
		var slow []*reordered
		for i := range 2 {
			c := &reordered{Conn: conns[i], reply: reply, release: release}
			conns[i], slow = c, append(slow, c)
		}
		q := newQuorum(t, conns, lock.Options{TTL: time.Hour, NoRenew: true})
		lease := try(t, q, "lock")
		await.Advance(time.Second)
		for _, c := range slow {
			c.on.Store(true)
		}
		extended, ended := make(chan error, 1), make(chan error, 1)
		go func() { extended <- lease.Extend(t.Context(), 2*time.Hour) }()
		await.Advance(time.Second)
		go func() { ended <- lease.Release(t.Context()) }()
		await.Advance(time.Second)
		close(reply)
		if err := <-extended; !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("the extension of a lease that has been released: %v", err)
		}
		await.Advance(time.Second)
		if next, _, err := others.TryAcquire(t.Context(), "lock"); next != nil {
			must(t, next.Release(t.Context()))
		} else {
			must(t, err)
		}
		close(release)
		must(t, <-ended)
		await.Advance(time.Minute)
		must(t, try(t, others, "lock").Release(t.Context()))
	})
}

// A release begins in time, and reaches two of three masters only when the lease has run out
// there and others have it. Nobody took the lease away: it ran out.
func TestQuorumReleaseComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conns, _ := clocks(t, 3)
		others := newQuorum(t, slices.Clone(conns), lock.Options{NoRenew: true})
		release := make(chan struct{})
		var slow []*reordered
		for i := range 2 {
			c := &reordered{Conn: conns[i], release: release}
			conns[i], slow = c, append(slow, c)
		}
		lease := try(t, newQuorum(t, conns, lock.Options{TTL: 2 * time.Second, NoRenew: true}), "lock")
		await.Advance(time.Second)
		for _, c := range slow {
			c.on.Store(true)
		}
		ended := make(chan error, 1)
		go func() { ended <- lease.Release(t.Context()) }()
		await.Advance(2 * time.Second)
		next := try(t, others, "lock")
		await.Advance(time.Millisecond) // A majority is enough for try; now every master has it.
		close(release)
		if err := <-ended; !errors.Is(err, lock.ErrRanOut) || errors.Is(err, lock.ErrTaken) {
			t.Errorf("the release: %v; want %v", err, lock.ErrRanOut)
		}
		must(t, next.Release(t.Context()))
		await.Advance(time.Minute)
	})
}
