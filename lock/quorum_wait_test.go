package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/lock"
)

// queued is how many entries wait for "lock" on all masters.
func (m *masters) queued() (n int) {
	for _, rdb := range m.rdbs {
		fields, _ := rdb.HKeys(context.Background(), "rd:{lock}:lock").Result()
		for _, f := range fields {
			if strings.HasPrefix(f, "PUBLISH") {
				n++
			}
		}
	}
	return n
}

// A waiter sends nothing while it waits, and is woken by the release.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumWakesUp(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		lease := try(t, m.quorum(false, lock.Options{TTL: time.Hour}), "lock")
		eventually(t, "all masters have it", func() bool { return m.holding(lease) == 3 })
		var counts []*counting
		var conns []redoubt.Conn
		for _, rdb := range m.rdbs {
			counts = append(counts, newCounting(t, rdb))
			conns = append(conns, counts[len(counts)-1])
		}
		q := newQuorum(t, conns, lock.Options{})
		sent := func() (n int64) {
			for _, c := range counts {
				n += c.Commands.Load()
			}
			return n
		}
		const callers = 20
		var wg sync.WaitGroup
		var held atomic.Int64
		for range callers {
			wg.Go(func() {
				err := q.Do(t.Context(), "lock", func(context.Context) error {
					if held.Add(1) != 1 {
						t.Error("held twice")
					}
					held.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "it waits on all masters", func() bool { return m.queued() == 3 })
		before := sent()
		eventually(t, "those who stand behind have asked once", func() bool {
			pause(100*time.Millisecond, t.Context().Done())
			quiet := before == sent()
			before = sent()
			return quiet
		})
		pause(300*time.Millisecond, t.Context().Done()) // time in which nothing is to happen
		if n := sent() - before; n != 0 {
			t.Errorf("%d commands while they wait", n)
		}
		released := time.Now()
		must(t, lease.Release(t.Context()))
		wg.Wait()
		if took := time.Since(released); took > 10*time.Second {
			t.Errorf("woken after %v", took)
		}
		eventually(t, "nobody is queued", func() bool { return m.queued() == 0 })
	})
}

// Contenders try at once, each from a process of its own. All get their turn, one at a
// time, with tokens that rise.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumSplitVotesResolve(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		const contenders, turns = 6, 5
		var wg sync.WaitGroup
		var held atomic.Int64
		var last int64
		for range contenders {
			q := m.quorum(false, lock.Options{TTL: 20 * time.Second})
			wg.Go(func() {
				for range turns {
					lease, err := q.Acquire(t.Context(), "lock")
					if err != nil {
						t.Error(err)
						return
					}
					if held.Add(1) != 1 || lease.Token() <= last {
						t.Errorf("held twice, or token %d after %d", lease.Token(), last)
					}
					last = lease.Token()
					held.Add(-1)
					if err := lease.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		began := time.Now()
		wg.Wait()
		t.Logf("%d turns in %v", contenders*turns, time.Since(began))
		eventually(t, "nothing is left", func() bool {
			free := try(t, m.quorum(false, lock.Options{}), "lock")
			return free.Release(t.Context()) == nil && m.queued() == 0
		})
	})
}

// Waits that are cancelled leave nothing on any master, nor a goroutine.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumCancelledWaitsLeaveNothing(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		lease := try(t, m.quorum(false, lock.Options{}), "lock")
		q := m.quorum(false, lock.Options{TTL: time.Hour})
		var wg sync.WaitGroup
		wait := func(ctx context.Context) {
			if _, err := q.Acquire(ctx, "lock"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire returned %v", err)
			}
		}
		first, cancel := context.WithCancel(t.Context())
		wg.Go(func() { wait(first) })
		eventually(t, "the clients listen, which they do until they are closed", func() bool {
			return !slices.ContainsFunc(m.rdbs, func(rdb *redis.Client) bool {
				channels, err := rdb.PubSubChannels(t.Context(), "*").Result()
				return err != nil || len(channels) == 0
			})
		})
		cancel()
		wg.Wait()
		before := goleak.IgnoreCurrent()
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
				defer cancel()
				wait(ctx)
			})
		}
		wg.Wait()
		eventually(t, "nobody is queued", func() bool { return m.queued() == 0 })
		must(t, lease.Release(t.Context()))
		got, err := q.Acquire(t.Context(), "lock")
		must(t, err)
		must(t, got.Release(t.Context()))
		if m.servers != nil { // otherwise their goroutines are in this process
			var left error
			defer func() {
				if left != nil {
					t.Log(left)
				}
			}()
			eventually(t, "no goroutine is left", func() bool { left = goleak.Find(before); return left == nil })
		}
	})
}

// Quorums on different masters with the same first one wait side by side.
func TestQuorumsThatShareAMaster(t *testing.T) {
	m := startMasters(t, "engine", 5)
	var clients []*redoubt.Client
	for _, rdb := range m.rdbs {
		conn := clienttest.Wrap(t, rdb)
		client := clienttest.New(t, conn, "")
		clients = append(clients, client)
	}
	var quorums []*lock.Quorum
	for _, n := range []int{3, 5} {
		q, err := lock.NewQuorum(clients[:n], lock.QuorumOptions{})
		must(t, err)
		quorums = append(quorums, q)
	}
	lease := try(t, m.quorum(false, lock.Options{}), "lock")
	eventually(t, "all masters have it", func() bool { return m.holding(lease) == 5 })
	var wg sync.WaitGroup
	for _, q := range quorums {
		wg.Go(func() {
			if err := q.Do(t.Context(), "lock", func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "it waits", func() bool { return m.queued() >= 3 })
	}
	must(t, lease.Release(t.Context()))
	wg.Wait()
}
