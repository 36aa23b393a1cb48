package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

func newMulti(t testing.TB, c *redoubt.Client, opts lock.Options) *lock.Multi {
	t.Helper()
	m, err := lock.NewMulti(c, optionsOf[lock.MultiOptions](opts))
	must(t, err)
	return m
}

// suffixed is a Multi that takes three names for one, two of them in one slot.
type suffixed struct{ *lock.Multi }

func three(name string) []string { return []string{name + "}a", name + "}b", name + "-c"} }

func (m suffixed) TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
	return m.Multi.TryAcquire(ctx, three(name))
}

func (m suffixed) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return m.Multi.Acquire(ctx, three(name))
}

func TestSlot(t *testing.T) {
	// As CLUSTER KEYSLOT says.
	for name, want := range map[string]uint16{"123456789": 12739, "foo": 12182, "foo}bar": 12182, "a": 15495} {
		if got := lock.Slot(name); got != want {
			t.Errorf("slot of %q is %d, want %d", name, got, want)
		}
	}
}

// All or none, whichever is busy, and the same locks as a Mutex has.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestMultiTakesAllOrNone(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		multi, m := newMulti(t, c, lock.Options{}), e.mutex(c, lock.Options{Label: "single"})
		names := []string{t.Name() + "1", t.Name() + "2}x", t.Name() + "2}y", t.Name() + "2}z", t.Name() + "3"}
		for _, taken := range names {
			single := try(t, m, taken)
			lease, busy, err := multi.TryAcquire(t.Context(), names)
			must(t, err)
			if lease != nil || busy.Name != taken || busy.Token != single.Token() || busy.Label != "single" || busy.Remaining <= 0 {
				t.Fatalf("%s is taken: busy is %+v", taken, busy)
			}
			must(t, single.Release(t.Context()))
			for _, other := range names {
				must(t, try(t, m, other).Release(t.Context()))
			}
		}
		lease, busy, err := multi.TryAcquire(t.Context(), names)
		must(t, err)
		if busy != nil {
			t.Fatalf("busy: %+v", busy)
		}
		if lease.Token() != 0 || lease.Name() != "" || lease.ID() != "" {
			t.Error("a lease on several names says that it is on one")
		}
		tokens := lease.Tokens()
		if got := slices.Sorted(maps.Keys(tokens)); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
			t.Errorf("tokens for %q", got)
		}
		for _, name := range names {
			if busy := busyFor(t, m, name); busy.Token != tokens[name] {
				t.Errorf("%s has token %d, want %d", name, tokens[name], busy.Token)
			}
		}
		must(t, lease.Extend(t.Context(), time.Hour))
		if left := time.Until(lease.Deadline()); left < 59*time.Minute {
			t.Errorf("%v are left after an extension by an hour", left)
		}
		must(t, lease.Release(t.Context()))
		must(t, lease.Release(t.Context()))
		for _, name := range names {
			next := try(t, m, name)
			if next.Token() <= tokens[name] {
				t.Errorf("token %d after %d", next.Token(), tokens[name])
			}
			must(t, next.Release(t.Context()))
		}
		for _, bad := range [][]string{nil, {"a", "a"}, {""}, make([]string, lock.MaxNames+1)} {
			if _, _, err := multi.TryAcquire(t.Context(), bad); err == nil {
				t.Errorf("%d names %.20q are accepted", len(bad), bad)
			}
		}
	})
}

// It holds what comes before the busy one, renewed, and none of what comes behind
// it; one of them lost ends the lease.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestMultiWaitsInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		c := e.newClient()
		for _, noRenew := range []bool{false, true} {
			const ttl = 6 * time.Second
			multi, m := newMulti(t, e.newClient(), lock.Options{TTL: ttl, NoRenew: noRenew}), e.mutex(c, lock.Options{})
			names := []string{t.Name() + "}a", t.Name() + "}b", t.Name() + "}c"} // of one slot, so sorted so
			single := try(t, m, names[1])
			got := make(chan *lock.Lease, 1)
			go func() {
				lease, err := multi.Acquire(t.Context(), names)
				if err != nil {
					t.Error(err)
				}
				got <- lease
			}()
			eventually(t, "it waits", func() bool {
				info, err := m.Info(t.Context(), names[1])
				return err == nil && info.Waiters == 1
			})
			fence := busyFor(t, m, names[0]).Token
			must(t, try(t, m, names[2]).Release(t.Context()))
			began := time.Now()
			eventually(t, "the TTL is over", func() bool { return time.Since(began) > ttl*5/4 })
			if busy := busyFor(t, m, names[0]); busy.Token != fence {
				t.Error("what was held has run out, although it is renewed")
			}
			must(t, single.Release(t.Context()))
			lease := <-got
			if lease.Tokens()[names[0]] != fence {
				t.Error("it has another lease than the one that it held")
			}
			if left := time.Until(lease.Deadline()); left < ttl/2 {
				t.Errorf("%v are left of a new lease", left)
			}

			must(t, e.Redis.HSet(t.Context(), e.key(names[2]), "until", 1).Err())
			if noRenew {
				if err := lease.Extend(t.Context(), ttl); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("Extend returned %v", err)
				}
			}
			<-lease.Done()
			if err := lease.Err(); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("Err is %v", err)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("Release returned %v", err)
			}
			for _, name := range names { // it gave the others back all the same
				must(t, try(t, m, name).Release(t.Context()))
			}
		}
	})
}

// A caller gives up while it holds some and waits for another: nothing is left.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestCancelledMultiGivesAllBack(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		multi, m := newMulti(t, e.newClient(), lock.Options{TTL: time.Hour}), e.mutex(e.newClient(), lock.Options{})
		names := []string{t.Name() + "}a", t.Name() + "}b", t.Name() + "}c"}
		single := try(t, m, names[2])
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := multi.Acquire(ctx, names)
			gone <- err
		}()
		eventually(t, "it waits", func() bool {
			info, err := m.Info(t.Context(), names[2])
			return err == nil && info.Waiters == 1
		})
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire returned %v", err)
		}
		must(t, single.Release(t.Context()))
		for _, name := range names {
			eventually(t, "it is free", func() bool {
				info, err := m.Info(t.Context(), name)
				return err == nil && info.Mode == lock.Free && info.Waiters == 0
			})
		}
	})
}

// between is a Conn that loses the first reply of a script, and does something
// before it sends that again.
type between struct {
	redoubt.Conn

	script string
	do     func()
	once   sync.Once
}

func (b *between) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	reply := b.Conn.Do(ctx, cmd)
	if cmd.Script != nil && cmd.Script.Name() == b.script {
		b.once.Do(func() {
			b.do()
			reply = b.Conn.Do(ctx, cmd)
		})
	}
	return reply
}

// One of several locks is taken away before its holder has heard that it has them:
// the others are given back, and it acquires them anew.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestMultiTakenAwayBeforeItsReply(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		names := []string{t.Name() + "}a", t.Name() + "}b"}
		m := e.mutex(e.newClient(), lock.Options{})
		conn := clienttest.Wrap(t, e.Redis)
		multi := newMulti(t, e.ClientOn(&between{Conn: conn, script: "lock.multi_acquire", do: func() {
			released, err := m.ForceRelease(t.Context(), names[1], busyFor(t, m, names[1]).Token)
			if !released || err != nil {
				t.Errorf("released: %t, %v", released, err)
			}
		}}), lock.Options{TTL: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease, err := multi.Acquire(ctx, names)
		must(t, err)
		must(t, lease.Release(t.Context()))
		for _, name := range names {
			must(t, try(t, m, name).Release(t.Context()))
		}
	})
}

// holdingBack is a Conn that keeps the next acquire of several names to itself,
// and says that nobody knows what became of it.
type holdingBack struct {
	redoubt.Conn

	kept chan redoubt.Cmd
	next atomic.Bool
}

func (h *holdingBack) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script == nil || cmd.Script.Name() != "lock.multi_acquire" {
		return h.Conn.Do(ctx, cmd)
	}
	h.kept <- cmd
	if h.next.Load() {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(context.DeadlineExceeded)}
	}
	return h.Conn.Do(ctx, cmd)
}

// The acquire of several names that arrives behind its undoing, or another time when
// others have had them since, takes nothing.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestLateMultiIsVoid(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		names := []string{t.Name() + "}a", t.Name() + "}b"}
		conn := clienttest.Wrap(t, e.Redis)
		back := &holdingBack{Conn: conn, kept: make(chan redoubt.Cmd, 1)}
		multi, m := newMulti(t, e.ClientOn(back), lock.Options{TTL: time.Hour}), e.mutex(e.newClient(), lock.Options{})
		arrives := func(late redoubt.Cmd) {
			t.Helper()
			reply, err := conn.Do(t.Context(), late).Array()
			must(t, err)
			if reply[0] != int64(wire.Over) {
				t.Errorf("a late copy is answered %v", reply)
			}
			for _, name := range names {
				must(t, try(t, m, name).Release(t.Context()))
			}
		}

		lease, err := multi.Acquire(t.Context(), names)
		must(t, err)
		must(t, lease.Release(t.Context()))
		for _, name := range names {
			try(t, m, name)
			must(t, e.Redis.HSet(t.Context(), e.key(name), "until", 1).Err()) // it runs out
		}
		arrives(<-back.kept)

		back.next.Store(true)
		if _, err := multi.Acquire(t.Context(), names); !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("Acquire returned %v", err)
		}
		late := <-back.kept
		for _, name := range names {
			eventually(t, "it is undone", func() bool { return e.Redis.HGet(t.Context(), e.key(name), "void").Val() == late.Args[0] })
		}
		arrives(late)
	})
}

// Sets that overlap, in any order of their names: nobody waits for ever, and no
// name has two holders.
func testOverlap(t *testing.T, clients []*redoubt.Client, names []string) {
	inside := make([]sync.Mutex, len(names))
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, c := range clients {
		multi := newMulti(t, c, lock.Options{TTL: time.Minute})
		for j := range 2 {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for range 10 {
					set := rng.Perm(len(names))[:2+rng.IntN(3)]
					var chosen []string
					for _, n := range set {
						chosen = append(chosen, names[n])
					}
					err := multi.Do(ctx, chosen, func(context.Context) error {
						for _, n := range set {
							if !inside[n].TryLock() {
								return fmt.Errorf("%s has two holders", names[n])
							}
						}
						for _, n := range set {
							inside[n].Unlock()
						}
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
}

// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestOverlappingMultisDoNotDeadlock(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		names := []string{"a", "b", "c", "d}1", "d}2", "d}3"}
		testOverlap(t, []*redoubt.Client{e.newClient(), e.newClient(), e.newClient()}, names)
	})
}

// On a cluster the names lie on several servers.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestMultiOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	var clients []*redoubt.Client
	for range 3 {
		client := clienttest.Open(t, cluster.URL())
		clients = append(clients, client)
	}
	names := []string{"a", "b", "c", "d}1", "d}2", "d}3"}
	testOverlap(t, clients, names)

	// A server that is dead ends the lease, and what is on the others is given
	// back.
	const ttl = 3 * time.Second // a busy machine renews late
	multi := newMulti(t, clients[0], lock.Options{TTL: ttl})
	lease, err := multi.Acquire(t.Context(), names)
	must(t, err)
	first := lease.Deadline() // the earliest deadline of its locks
	eventually(t, "all are renewed", func() bool { return lease.Deadline().After(first) })
	must(t, lease.Err())
	key := func(name string) string {
		key, err := keyOf(clients[0], name)
		must(t, err)
		return key
	}
	dead, other := cluster.Primary(key("a")), ""
	for _, name := range names {
		if cluster.Primary(key(name)) != dead {
			other = name
		}
		if got := dead.CLI("CLUSTER", "KEYSLOT", key(name)); got != fmt.Sprint(lock.Slot(name)) {
			t.Errorf("slot of %q is %s, want %d", name, got, lock.Slot(name))
		}
	}
	dead.Pause()
	<-lease.Done()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := lease.Release(ctx); err == nil {
		t.Error("the release of a lost lease returned nil")
	}
	dead.Resume()
	m, err := lock.New(clients[1], lock.Options{})
	must(t, err)
	next, err := m.Acquire(t.Context(), other)
	must(t, err)
	must(t, next.Release(t.Context()))
}
