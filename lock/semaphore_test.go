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

	"github.com/anishathalye/porcupine"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

func (e *env) semaphore(c *redoubt.Client, opts lock.Options) *lock.Semaphore {
	e.T.Helper()
	s, err := lock.NewSemaphore(c, optionsOf[lock.SemaphoreOptions](opts))
	must(e.T, err)
	return s
}

// limited is a semaphore with one limit.
type limited struct {
	*lock.Semaphore

	limit int
}

func (s limited) TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
	return s.Semaphore.TryAcquire(ctx, name, s.limit)
}

func (s limited) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return s.Semaphore.Acquire(ctx, name, s.limit)
}

func TestSemaphoreLimit(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const limit, callers, rounds = 3, 8, 12
		var inside, most, runs atomic.Int32
		var wg sync.WaitGroup
		for range callers {
			s := e.semaphore(e.newClient(), lock.Options{})
			wg.Go(func() {
				for range rounds {
					err := s.Do(t.Context(), t.Name(), limit, func(context.Context) error {
						n := inside.Add(1)
						defer inside.Add(-1)
						for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
						}
						runs.Add(1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if most.Load() > limit || runs.Load() != callers*rounds {
			t.Errorf("%d runs, %d at once; want %d and at most %d", runs.Load(), most.Load(), callers*rounds, limit)
		}
	})
}

// Every permit has a token, larger than those before it, and the one that ends
// first is told to whoever finds none.
func TestPermits(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		long := limited{e.semaphore(e.newClient(), lock.Options{TTL: time.Hour}), 2}
		short := limited{e.semaphore(e.newClient(), lock.Options{TTL: time.Minute, Label: "short"}), 2}
		a, b := try(t, long, t.Name()), try(t, short, t.Name())
		if b.Token() <= a.Token() {
			t.Errorf("token %d after %d", b.Token(), a.Token())
		}
		_, busy, err := long.TryAcquire(t.Context(), t.Name())
		must(t, err)
		if busy == nil || busy.Label != "short" || busy.Token != b.Token() || busy.Remaining > time.Minute || busy.Remaining < 50*time.Second {
			t.Errorf("busy is %+v", busy)
		}
		info, err := long.Info(t.Context(), t.Name())
		must(t, err)
		if info.Taken != 2 || info.Token != b.Token() || len(info.Holders) != 2 || info.Holders[0].Label != "short" || info.Holders[1].Token != a.Token() {
			t.Errorf("info is %+v", info)
		}
		must(t, b.Extend(t.Context(), 2*time.Hour))
		info, err = long.Info(t.Context(), t.Name())
		must(t, err)
		if info.Holders[0].Token != a.Token() {
			t.Errorf("the permit that ends first is %+v", info.Holders[0])
		}
		must(t, a.Release(t.Context()))
		must(t, b.Release(t.Context()))
		if left := e.Redis.HKeys(t.Context(), e.Prefix+":{"+t.Name()+"}:sem").Val(); !slices.Equal(left, []string{"fence"}) {
			t.Errorf("fields of a semaphore that nobody holds: %q, want fence alone", left)
		}
		for _, part := range []string{":sem", ":permits"} {
			if left := e.Redis.PTTL(t.Context(), e.Prefix+":{"+t.Name()+"}"+part).Val(); left <= 0 || left > 61*time.Second {
				t.Errorf("the key %s lives for another %v", part, left)
			}
		}
	})
}

// Callers disagree on the limit: each is held to its own.
//
// Promise: At most limit permits of a semaphore are held at a time, with
// tokens that rise; the permits of dead holders come back.
func TestCallersDisagreeOnTheLimit(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		s := e.semaphore(e.newClient(), lock.Options{})
		three, one := limited{s, 3}, limited{s, 1}
		var leases []*lock.Lease
		for range 3 {
			leases = append(leases, try(t, three, t.Name()))
		}
		for _, l := range leases {
			if _, busy, err := one.TryAcquire(t.Context(), t.Name()); err != nil || busy == nil {
				t.Fatalf("the lower limit lets one in beside others: %v, %v", busy, err)
			}
			must(t, l.Err()) // and takes none away
			must(t, l.Extend(t.Context(), time.Minute))
			must(t, l.Release(t.Context()))
		}
		last := try(t, one, t.Name())
		must(t, try(t, three, t.Name()).Release(t.Context()))
		must(t, last.Release(t.Context()))

		for _, limit := range []int{0, -1, lock.MaxLimit + 1} {
			if _, _, err := s.TryAcquire(t.Context(), t.Name(), limit); err == nil {
				t.Errorf("a limit of %d is accepted", limit)
			}
		}
	})
}

// Many permits run out at once: all of them can be taken again, in whatever
// batches they are reclaimed, and none can be released or extended.
//
// Promise: At most limit permits of a semaphore are held at a time, with
// tokens that rise; the permits of dead holders come back.
func TestExpiredPermits(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 100
		s := limited{e.semaphore(e.newClient(), lock.Options{TTL: 300 * time.Millisecond, NoRenew: true}), n}
		var old []*lock.Lease
		for range n {
			old = append(old, take(t, s, t.Name()))
		}
		for _, l := range old {
			<-l.Done()
		}
		info := func() lock.SemaphoreInfo {
			info, err := s.Info(t.Context(), t.Name())
			must(t, err)
			return info
		}
		eventually(t, "all are over on the server", func() bool { return info().Taken == 0 })
		fresh := limited{e.semaphore(e.newClient(), lock.Options{}), n}
		for i := range n {
			lease := try(t, fresh, t.Name())
			if lease.Token() <= old[n-1].Token() {
				t.Errorf("token %d after %d", lease.Token(), old[n-1].Token())
			}
			if err := old[i].Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("the release of a permit that ran out returned %v", err)
			}
		}
		if taken := info().Taken; taken != n {
			t.Errorf("%d are taken, want %d", taken, n)
		}
		if over := e.Redis.ZCount(t.Context(), e.Prefix+":{"+t.Name()+"}:permits", "-inf", "0").Val(); over > 129 {
			t.Errorf("%d acquisitions that are over are remembered, want 128", over)
		}
	})
}

// Several permits come back at once while several processes wait.
func TestEveryPermitWakesAWaiter(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const n = 4
		s := limited{e.semaphore(e.newClient(), lock.Options{}), n}
		var held []*lock.Lease
		for range n {
			held = append(held, try(t, s, t.Name()))
		}
		got := make(chan error, 2*n)
		for range n { // two callers in each of n processes
			c := e.newClient()
			for range 2 {
				go func() {
					_, err := e.semaphore(c, lock.Options{}).Acquire(t.Context(), t.Name(), 2*n)
					got <- err
				}()
			}
		}
		for range n { // half of them find a permit by their higher limit
			must(t, <-got)
		}
		eventually(t, "the others wait", func() bool {
			info, err := s.Info(t.Context(), t.Name())
			return err == nil && info.Waiters > 0 && info.Taken == 2*n
		})
		released := time.Now()
		for _, l := range held {
			must(t, l.Release(t.Context()))
		}
		for range n {
			must(t, <-got)
		}
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("all had a permit after %v: somebody was not woken", took)
		}
	})
}

// holders returns the ids of the holders of a semaphore, sorted, each with a blank after it.
type holders struct {
	ids   string
	fence int64
}

func (h holders) with(id string) string {
	ids := append(strings.Fields(h.ids), id)
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (h holders) without(id string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(h.ids), func(o string) bool { return o == id }), " ")
}

func (h holders) has(id string) bool { return slices.Contains(strings.Fields(h.ids), id) }

const historyLimit = 2

// semaphoreModel is so many holders at a time, with tokens that rise.
func semaphoreModel(limit int) porcupine.Model {
	return porcupine.Model{
		Partition: byName,
		Init:      func() any { return holders{} },
		Step: func(state, input, _ any) (bool, any) {
			s, e := state.(holders), input.(event)
			switch e.what {
			case acquired:
				return len(strings.Fields(s.ids)) < limit && e.fence > s.fence, holders{s.with(e.id), e.fence}
			case ended:
				return s.has(e.id), holders{s.without(e.id), s.fence}
			case extended:
				return s.has(e.id), s
			default: // busy, strange: leases are held that nobody learnt of
				return true, s
			}
		},
		DescribeOperation: describe,
	}
}
