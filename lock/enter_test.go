package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/lock"
)

// calls is how many scripts clients have called on the server so far, by its own
// count.
func (e *env) calls() (n int64) {
	e.T.Helper()
	if e.Server == nil {
		return 0 // the engine keeps no such count
	}
	stats, err := e.Redis.Info(e.T.Context(), "commandstats").Result()
	must(e.T, err)
	for line := range strings.Lines(stats) {
		for _, command := range []string{"eval", "evalsha"} {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
				calls, _, _ := strings.Cut(rest, ",")
				more, err := strconv.ParseInt(calls, 10, 64)
				must(e.T, err)
				n += more
			}
		}
	}
	return n
}

// FromContext returns the lease of the Do around a function, the innermost of several.
func TestFromContext(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m, outer, inner := e.mutex(e.newClient(), lock.Options{}), t.Name(), t.Name()+" inner"
		if l := lock.FromContext(t.Context()); l != nil {
			t.Errorf("outside it is %v", l)
		}
		var last *lock.Lease
		must(t, m.Do(t.Context(), outer, func(ctx context.Context) error {
			lease := lock.FromContext(ctx)
			info, err := m.Info(ctx, outer)
			must(t, err)
			if lease.Name() != outer || lease.Token() != info.Holders[0].Token {
				t.Errorf("it is on %q with token %d; want %q with %d", lease.Name(), lease.Token(), outer, info.Holders[0].Token)
			}
			return m.Do(ctx, inner, func(ctx context.Context) error {
				last = lock.FromContext(ctx)
				return m.Do(ctx, outer, func(ctx context.Context) error {
					if l := lock.FromContext(ctx); l != lease {
						t.Errorf("in the lease that was entered again it is on %q", l.Name())
					}
					return nil
				})
			})
		}))
		if last.Name() != inner || !errors.Is(last.Err(), lock.ErrReleased) {
			t.Errorf("the inner one was on %q, and ended with %v", last.Name(), last.Err())
		}
	})
}

// A lock that is held is entered again without a word to the server, and
// released when the last has left.
//
// Promise: Entering a lease again sends no command, and fails once its
// deadline has passed; the last one to leave releases the lock.
func TestReentryCostsNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		c := e.ClientOn(conn)
		m, again := e.mutex(c, lock.Options{}), e.mutex(c, lock.Options{TTL: time.Minute})
		rw, multi := e.rw(c, lock.Options{}), newMulti(t, c, lock.Options{})
		rival := e.mutex(e.newClient(), lock.Options{})
		name := t.Name()
		must(t, try(t, m, name).Release(t.Context())) // the scripts are loaded

		before, sent := e.calls(), conn.Commands.Load()
		depth := 0
		var descend func(ctx context.Context) error
		descend = func(ctx context.Context) error {
			if depth++; depth == 100 {
				return nil
			}
			switch depth % 5 {
			case 0:
				return again.Do(ctx, name, descend)
			case 1:
				return rw.Do(ctx, name, descend)
			case 2:
				return rw.DoShared(ctx, name, descend)
			case 3:
				return multi.Do(ctx, []string{name}, descend)
			default:
				return m.Do(ctx, name, descend)
			}
		}
		must(t, m.Do(t.Context(), name, descend))
		if n := conn.Commands.Load() - sent; depth != 100 || n != 2 {
			t.Errorf("%d deep with %d commands, want 100 with the acquire and the release", depth, n)
		}
		if n := e.calls() - before; e.Server != nil && n != 2 {
			t.Errorf("the server ran %d scripts, want 2", n)
		}
		must(t, try(t, rival, name).Release(t.Context()))

		// By hand, and the first comes out before the others.
		lease := try(t, m, name)
		sent = conn.Commands.Load()
		var leaves []func(context.Context) error
		for range 3 {
			leave, err := lease.Enter()
			must(t, err)
			leaves = append(leaves, leave)
		}
		must(t, leaves[1](t.Context()))
		must(t, leaves[1](t.Context())) // a second time does nothing
		must(t, lease.Release(t.Context()))
		must(t, lease.Release(t.Context()))
		must(t, leaves[0](t.Context()))
		if n := conn.Commands.Load() - sent; n != 0 || lease.Err() != nil {
			t.Errorf("%d commands while one is inside, and Err is %v", n, lease.Err())
		}
		busyFor(t, rival, name)
		must(t, leaves[2](t.Context()))
		if n := conn.Commands.Load() - sent; n != 1 || !errors.Is(lease.Err(), lock.ErrReleased) {
			t.Errorf("%d commands and Err %v when all have left, want the release", n, lease.Err())
		}
		must(t, try(t, rival, name).Release(t.Context()))
	})
}

// One that enters is refused as soon as the deadline has passed here.
//
// Promise: Entering a lease again sends no command, and fails once its
// deadline has passed; the last one to leave releases the lock.
func TestNoReentryAfterTheDeadline(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		m := e.mutex(e.newClient(), lock.Options{TTL: 5 * time.Second, NoRenew: true})
		lease := try(t, m, t.Name())
		leave, err := lease.Enter()
		must(t, err)
		ctx := lease.Context(t.Context())
		<-ctx.Done()
		if _, err := lease.Enter(); !errors.Is(err, lock.ErrNotHeld) || !errors.Is(err, lock.ErrRanOut) {
			t.Errorf("Enter of a lease that ran out: %v", err)
		}
		never := func(context.Context) error { t.Error("fn ran"); return nil }
		if err := m.Do(context.WithoutCancel(ctx), t.Name(), never); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Do in a lease that ran out: %v", err)
		}
		if err := leave(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("who was inside left with %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release gave %v", err)
		}

		// The lease was released and not lost: a caller whose context lasts longer acquires anew.
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		m = e.mutex(e.ClientOn(conn), lock.Options{})
		var later context.Context
		must(t, m.Do(t.Context(), t.Name(), func(ctx context.Context) error {
			later = context.WithoutCancel(ctx)
			return nil
		}))
		before := conn.Commands.Load()
		must(t, m.Do(later, t.Name(), func(context.Context) error { return nil }))
		if n := conn.Commands.Load() - before; n != 2 {
			t.Errorf("%d commands, want an acquire and a release", n)
		}
	})
}

// A lease does not let in: another name, another client, a permit, and a
// reader that would write.
//
// Promise: Entering a lease again sends no command, and fails once its
// deadline has passed; the last one to leave releases the lock.
func TestReentryHasItsBounds(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		c := e.ClientOn(conn)
		m, rw, multi := e.mutex(c, lock.Options{}), e.rw(c, lock.Options{}), newMulti(t, c, lock.Options{})
		semaphore := e.semaphore(c, lock.Options{})
		stranger := e.mutex(e.newClient(), lock.Options{})
		name := t.Name()
		nothing := func(context.Context) error { return nil }
		counted := func(what string, want int64, f func() error) {
			t.Helper()
			before := conn.Commands.Load()
			must(t, f())
			if n := conn.Commands.Load() - before; n != want {
				t.Errorf("%s took %d commands, want %d", what, n, want)
			}
		}
		must(t, m.Do(t.Context(), name, func(ctx context.Context) error {
			counted("another name", 2, func() error { return m.Do(ctx, name+"2", nothing) })
			counted("three names of which one is held", 3, func() error {
				return multi.Do(ctx, []string{name + "}b", name, name + "}a"}, nothing)
			})
			busyFor(t, stranger, name)
			return nil
		}))
		must(t, multi.Do(t.Context(), []string{name, name + "2"}, func(ctx context.Context) error {
			counted("one of two names", 0, func() error { return m.Do(ctx, name, nothing) })
			return nil
		}))
		must(t, semaphore.Do(t.Context(), name, 2, func(ctx context.Context) error {
			counted("a second permit", 2, func() error { return semaphore.Do(ctx, name, 2, nothing) })
			return nil
		}))
		must(t, rw.DoShared(t.Context(), name, func(ctx context.Context) error {
			counted("a reader that reads", 0, func() error { return rw.DoShared(ctx, name, nothing) })
			for what, do := range map[string]func() error{
				"RWMutex": func() error { return rw.Do(ctx, name, nothing) },
				"Mutex":   func() error { return m.Do(ctx, name, nothing) },
				"Multi":   func() error { return multi.Do(ctx, []string{name, name + "2"}, nothing) },
			} {
				if err := do(); !errors.Is(err, lock.ErrUpgrade) {
					t.Errorf("a reader that would write by a %s got %v", what, err)
				}
			}
			return nil
		}))
	})
}

// Goroutines enter and leave, and the one that comes out last releases.
//
// Promise: Entering a lease again sends no command, and fails once its
// deadline has passed; the last one to leave releases the lock.
func TestLastOneOutReleases(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m, rival := e.mutex(e.newClient(), lock.Options{}), e.mutex(e.newClient(), lock.Options{})
		for round := range 20 {
			name := fmt.Sprint(t.Name(), round)
			var wg sync.WaitGroup
			must(t, m.Do(t.Context(), name, func(ctx context.Context) error {
				for range 8 {
					leave, err := occupy(ctx, m, name)
					must(t, err)
					wg.Go(func() {
						if err := leave(context.Background()); err != nil {
							t.Error(err)
						}
					})
				}
				return nil
			}))
			wg.Wait()
			must(t, try(t, rival, name).Release(t.Context()))
		}
	})
}

// occupy enters what ctx carries and stays there, as a goroutine of fn's does.
func occupy(ctx context.Context, m *lock.Mutex, name string) (leave func(context.Context) error, err error) {
	inside, out := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- m.Do(ctx, name, func(context.Context) error {
			close(inside)
			<-out
			return nil
		})
	}()
	select {
	case err := <-done:
		return nil, err
	case <-inside:
	}
	return func(context.Context) error {
		close(out)
		return <-done
	}, nil
}

func TestBusyIsAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		m := e.mutex(c, lock.Options{Label: "web-1"})
		rw, multi := e.rw(c, lock.Options{}), newMulti(t, c, lock.Options{})
		for what, try := range map[string]func() (*lock.Lease, *lock.Busy, error){
			"mutex":  func() (*lock.Lease, *lock.Busy, error) { return m.TryAcquire(t.Context(), t.Name()) },
			"writer": func() (*lock.Lease, *lock.Busy, error) { return rw.TryAcquire(t.Context(), t.Name()) },
			"reader": func() (*lock.Lease, *lock.Busy, error) { return rw.TryAcquireShared(t.Context(), t.Name()) },
			"multi": func() (*lock.Lease, *lock.Busy, error) {
				return multi.TryAcquire(t.Context(), []string{t.Name(), t.Name() + "2"})
			},
		} {
			holder, _, err := m.TryAcquire(t.Context(), t.Name())
			must(t, err)
			_, busy, err := try()
			must(t, err)
			if err := busy.Err(); !errors.Is(err, lock.ErrBusy) || !strings.Contains(err.Error(), "web-1") || !strings.Contains(err.Error(), t.Name()) {
				t.Errorf("%s: Err is %v", what, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if _, err := busy.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Wait gave %v while the lock is held", what, err)
			}
			cancel()
			must(t, holder.Release(t.Context()))
			lease, err := busy.Wait(t.Context())
			must(t, err)
			must(t, lease.Release(t.Context()))
		}
	})
}
