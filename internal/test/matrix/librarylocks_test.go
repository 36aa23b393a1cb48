package matrix

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/lock"
)

func mutex(t *testing.T, c *redoubt.Client, o lock.Options) *lock.Mutex {
	t.Helper()
	o.TTL = lease
	m, err := lock.New(c, o)
	must(t, err)
	return m
}

func (l *library) exclusion(t *testing.T, name string) {
	a, b := mutex(t, l.a, lock.Options{}), mutex(t, l.b, lock.Options{})
	var inside atomic.Int64
	var wg sync.WaitGroup
	for _, m := range []*lock.Mutex{a, b, a, b} {
		wg.Go(func() {
			for range 3 {
				x, err := m.Acquire(within(t), name)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				if _, err := m.Info(t.Context(), name); err != nil { // time for others to come in
					t.Error(err)
				}
				inside.Add(-1)
				if err := x.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	x, err := a.Acquire(within(t), name)
	must(t, err)
	if other, busy, err := b.TryAcquire(t.Context(), name); other != nil || busy == nil || busy.Token != x.Token() || err != nil {
		t.Errorf("beside a holder: %v, %+v, %v", other, busy, err)
	}
	must(t, x.Release(t.Context()))
}

func (l *library) wakeUp(t *testing.T, name string) {
	a, b := mutex(t, l.a, lock.Options{}), mutex(t, l.b, lock.Options{})
	for i := range 5 { // on all servers
		name := fmt.Sprint(name, i)
		x, err := a.Acquire(within(t), name)
		must(t, err)
		done := promptly(t, func() error {
			y, err := b.Acquire(within(t), name)
			if err == nil {
				err = y.Release(t.Context())
			}
			return err
		})
		waiting(t, a, name, 1)
		must(t, x.Release(t.Context()))
		must(t, <-done)
	}
}

// promptly runs f on a goroutine of its own, which the test waits for at its end.
func promptly(t *testing.T, f func() error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- f() })
	t.Cleanup(wg.Wait)
	return done
}

// waiting returns once n wait for a lock.
func waiting(t *testing.T, m *lock.Mutex, name string, n int64) {
	t.Helper()
	await.Soon(t, fmt.Sprint(n, " wait"), func() bool {
		info, err := m.Info(t.Context(), name)
		must(t, err)
		return info.Waiters == n
	})
}

func (l *library) fairness(t *testing.T, name string) {
	a, b := mutex(t, l.a, lock.Options{Fair: true}), mutex(t, l.b, lock.Options{Fair: true})
	x, err := a.Acquire(within(t), name)
	must(t, err)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		served []int
	)
	t.Cleanup(wg.Wait)
	for i, m := range []*lock.Mutex{b, a, b, b, a} {
		wg.Go(func() {
			y, err := m.Acquire(within(t), name)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			if err := y.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		waiting(t, a, name, int64(i+1))
	}
	must(t, x.Release(t.Context()))
	wg.Wait()
	if !slices.Equal(served, []int{0, 1, 2, 3, 4}) {
		t.Errorf("they queued as 0 to 4 and were served as %v", served)
	}
}

func (l *library) fencing(t *testing.T, name string) {
	guard, err := fence.New(l.b, fence.Options{})
	must(t, err)
	var tokens []int64
	for _, c := range []*redoubt.Client{l.a, l.b, l.a} {
		x, err := mutex(t, c, lock.Options{}).Acquire(within(t), name)
		must(t, err)
		tokens = append(tokens, x.Token())
		must(t, x.Release(t.Context()))
	}
	if tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
		t.Errorf("the tokens are %v", tokens)
	}
	key, err := l.a.Key(name, "balance")
	must(t, err)
	set := func(token int64, value string) error {
		return guard.Do(t.Context(), name, token, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{value}}).Err
	}
	must(t, set(tokens[2], "new"))
	expect.Is(t, set(tokens[1], "old"), fence.ErrStale)
	if got, err := l.a.Do(t.Context(), redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}).Text(); got != "new" || err != nil {
		t.Errorf("the resource is %q, %v", got, err)
	}
}

func (l *library) semaphore(t *testing.T, name string) {
	a, err := lock.NewSemaphore(l.a, lock.SemaphoreOptions{TTL: lease})
	must(t, err)
	b, err := lock.NewSemaphore(l.b, lock.SemaphoreOptions{TTL: lease})
	must(t, err)
	x, err := a.Acquire(within(t), name, 2)
	must(t, err)
	y, err := b.Acquire(within(t), name, 2)
	must(t, err)
	if z, busy, err := a.TryAcquire(t.Context(), name, 2); z != nil || busy == nil || err != nil {
		t.Errorf("a third permit of two: %v, %+v, %v", z, busy, err)
	}
	done := promptly(t, func() error {
		z, err := b.Acquire(within(t), name, 2)
		if err == nil {
			err = z.Release(t.Context())
		}
		return err
	})
	await.Soon(t, "one waits", func() bool {
		info, err := a.Info(t.Context(), name)
		must(t, err)
		return info.Waiters == 1
	})
	must(t, x.Release(t.Context()))
	must(t, <-done)
	must(t, y.Release(t.Context()))
}

func (l *library) readersWriters(t *testing.T, name string) {
	a, err := lock.NewRWMutex(l.a, lock.RWMutexOptions{TTL: lease})
	must(t, err)
	b, err := lock.NewRWMutex(l.b, lock.RWMutexOptions{TTL: lease})
	must(t, err)
	x, err := a.AcquireShared(within(t), name)
	must(t, err)
	y, err := b.AcquireShared(within(t), name)
	must(t, err)
	done := promptly(t, func() error {
		z, err := b.Acquire(within(t), name)
		if err == nil {
			err = z.Release(t.Context())
		}
		return err
	})
	waiting(t, mutex(t, l.a, lock.Options{}), name, 1)
	must(t, x.Release(t.Context()))
	await.Always(t, stays, "the writer waits beside a reader", func() bool { return len(done) == 0 })
	must(t, y.Release(t.Context()))
	must(t, <-done)
}

func (l *library) latch(t *testing.T, name string) {
	a, err := lock.NewLatch(l.a, lock.LatchOptions{TTL: lease})
	must(t, err)
	b, err := lock.NewLatch(l.b, lock.LatchOptions{TTL: lease})
	must(t, err)
	_, err = a.Set(t.Context(), name, 2)
	must(t, err)
	key, err := l.a.Key(name, "latch")
	must(t, err)
	var done []<-chan error
	for _, x := range []*lock.Latch{a, b} {
		done = append(done, promptly(t, func() error { return x.Wait(within(t), name) }))
	}
	await.Soon(t, "both wait", func() bool {
		tail := l.a.Do(t.Context(), redoubt.Cmd{Name: "HGET", Keys: []string{key}, Args: []string{"tail"}, Flags: redoubt.ReadOnly})
		must(t, tail.Err)
		return tail.Val == "2"
	})
	for i, member := range []string{"x", "x", "y"} { // x says so again
		left, err := b.CountDown(t.Context(), name, member)
		if want := []int64{1, 1, 0}[i]; left != want || err != nil {
			t.Errorf("%d left, %v; want %d", left, err, want)
		}
	}
	for _, d := range done {
		must(t, <-d)
	}
}

func (l *library) multi(t *testing.T, name string) {
	a, err := lock.NewMulti(l.a, lock.MultiOptions{TTL: lease})
	must(t, err)
	b, err := lock.NewMulti(l.b, lock.MultiOptions{TTL: lease})
	must(t, err)
	var names []string // on all servers
	for i := range 8 {
		names = append(names, fmt.Sprint(name, i))
	}
	x, err := a.Acquire(within(t), names[:5])
	must(t, err)
	if y, busy, err := b.TryAcquire(t.Context(), names[4:]); y != nil || busy == nil || err != nil {
		t.Errorf("one of the names is held: %v, %+v, %v", y, busy, err)
	}
	done := promptly(t, func() error {
		y, err := b.Acquire(within(t), names[4:])
		if err == nil {
			err = y.Release(t.Context())
		}
		return err
	})
	waiting(t, mutex(t, l.a, lock.Options{}), names[4], 1)
	must(t, x.Release(t.Context()))
	must(t, <-done)
	for _, n := range names { // nothing is left
		y, busy, err := mutex(t, l.b, lock.Options{}).TryAcquire(t.Context(), n)
		if y == nil {
			t.Fatalf("%s is held: %+v, %v", n, busy, err)
		}
		must(t, y.Release(t.Context()))
	}
}
