package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// A forcible is a kind of lock, one that it shuts out, and its ForceRelease.
type forcible struct {
	m, rival taker
	force    func(ctx context.Context, name string, fence int64) (bool, error)
}

var forcibles = map[string]func(e *env, c *redoubt.Client, opts lock.Options) forcible{
	"mutex": func(e *env, c *redoubt.Client, opts lock.Options) forcible {
		m := e.mutex(c, opts)
		return forcible{m, m, m.ForceRelease}
	},
	"fair": func(e *env, c *redoubt.Client, opts lock.Options) forcible {
		opts.Fair = true
		m := e.mutex(c, opts)
		return forcible{m, m, m.ForceRelease}
	},
	"writer": func(e *env, c *redoubt.Client, opts lock.Options) forcible {
		rw := e.rw(c, opts)
		return forcible{rw, rw, rw.ForceRelease}
	},
	"reader, by a mutex": func(e *env, c *redoubt.Client, opts lock.Options) forcible {
		rw := e.rw(c, opts)
		return forcible{readers{rw}, rw, e.mutex(c, opts).ForceRelease}
	},
	"permit": func(e *env, c *redoubt.Client, opts lock.Options) forcible {
		s := limited{e.semaphore(c, opts), 1}
		return forcible{s, s, s.ForceRelease}
	},
}

// A forced release ends the named lease and no other. A waiter gets the lock with a larger
// token. The holder learns of it when it renews.
//
// Promise: ForceRelease ends the lease with the named token and no other, and
// its holder learns of it at its next renewal.
func TestForceRelease(t *testing.T) {
	slow.Test(t, "a holder of a lease of a minute learns of it when it renews, after 20 s")
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := e.in(t)
				m := kind(e, e.newClient(), lock.Options{TTL: time.Minute}).m
				other := kind(e, e.newClient(), lock.Options{})
				rival, force := other.rival, other.force
				must(t, try(t, rival, t.Name()).Release(t.Context())) // so that readers have a token

				holder := try(t, m, t.Name())
				work := holder.Context(t.Context())
				got := make(chan *lock.Lease, 1)
				go func() {
					lease, err := rival.Acquire(t.Context(), t.Name())
					if err != nil {
						t.Error(err)
					}
					got <- lease
				}()
				locks, permits := e.mutex(e.newClient(), lock.Options{}), e.semaphore(e.newClient(), lock.Options{})
				eventually(t, "the other waits", func() bool {
					of, err := locks.Info(t.Context(), t.Name())
					must(t, err)
					ofPermits, err := permits.Info(t.Context(), t.Name())
					must(t, err)
					return of.Waiters+ofPermits.Waiters == 1
				})

				for _, fence := range []int64{holder.Token() - 1, holder.Token() + 1} {
					if ok, err := force(t.Context(), t.Name(), fence); err != nil || ok {
						t.Errorf("by another's token: %v, %v", ok, err)
					}
				}
				must(t, holder.Err())
				if ok, err := force(t.Context(), t.Name(), holder.Token()); err != nil || !ok {
					t.Fatalf("ForceRelease: %v, %v", ok, err)
				}
				next := <-got
				if next == nil {
					t.FailNow()
				}
				if next.Token() <= holder.Token() {
					t.Errorf("token %d after %d", next.Token(), holder.Token())
				}
				// Again: it has come too late for the next holder.
				if _, err := force(t.Context(), t.Name(), holder.Token()); err != nil {
					t.Error(err)
				}
				must(t, next.Extend(t.Context(), time.Minute))

				lock.Renew([]*lock.Lease{holder})
				<-work.Done()
				if err := context.Cause(work); !errors.Is(err, lock.ErrTaken) {
					t.Errorf("the holder's context ended with %v", err)
				}
				if err := holder.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("Release of what was taken away: %v", err)
				}
				must(t, next.Extend(t.Context(), time.Minute)) // which that didn't touch
				must(t, next.Release(t.Context()))
				if ok, err := force(t.Context(), t.Name(), next.Token()); err != nil || ok {
					t.Errorf("of a lock that is free: %v, %v", ok, err)
				}
			})
		}
	})
}

// The holder's own calls find nothing, also before anybody else has the lock: a
// release doesn't say that all was well, and a late copy of the acquire takes
// nothing.
//
// Promise: ForceRelease ends the lease with the named token and no other, and
// its holder learns of it at its next renewal.
func TestForcedLeaseIsOver(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				e := e.in(t)
				k := kind(e, e.newClient(), lock.Options{TTL: time.Minute, NoRenew: true})
				m, rival, force := k.m, k.rival, k.force
				a := try(t, m, t.Name())
				for i := range 2 { // as after a lost reply
					want := i == 0 || name != "permit"
					if ok, err := force(t.Context(), t.Name(), a.Token()); err != nil || ok != want {
						t.Fatalf("ForceRelease: %v, %v", ok, err)
					}
				}
				if err := a.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("Release: %v", err)
				}
				b := try(t, m, t.Name())
				if ok, err := force(t.Context(), t.Name(), b.Token()); err != nil || !ok {
					t.Fatalf("ForceRelease: %v, %v", ok, err)
				}
				if err := b.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrTaken) {
					t.Errorf("Extend: %v", err)
				}
				must(t, try(t, rival, t.Name()).Release(t.Context()))
			})
		}
	})
}

// All readers lose the lock at once; of permits only the one that is named.
//
// Promise: ForceRelease ends the lease with the named token and no other, and
// its holder learns of it at its next renewal.
func TestForceHitsAllReadersAndOnePermit(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		opts := lock.Options{TTL: time.Minute, NoRenew: true}
		rw := e.rw(e.newClient(), opts)
		a, b := try(t, readers{rw}, t.Name()), try(t, readers{rw}, t.Name())
		if ok, err := rw.ForceRelease(t.Context(), t.Name(), a.Token()); err != nil || !ok {
			t.Fatalf("ForceRelease: %v, %v", ok, err)
		}
		for _, reader := range []*lock.Lease{a, b} {
			if err := reader.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("a reader's Extend: %v", err)
			}
		}
		must(t, try(t, rw, t.Name()).Release(t.Context()))

		s := limited{e.semaphore(e.newClient(), opts), 700} // more than a page of them
		var permits []*lock.Lease
		for range 600 {
			permits = append(permits, try(t, s, t.Name()))
		}
		gone := permits[333]
		if ok, err := s.ForceRelease(t.Context(), t.Name(), gone.Token()); err != nil || !ok {
			t.Fatalf("ForceRelease: %v, %v", ok, err)
		}
		for i, p := range permits {
			if err := p.Extend(t.Context(), time.Hour); errors.Is(err, lock.ErrNotHeld) != (p == gone) {
				t.Errorf("permit %d: %v", i, err)
			}
		}
		if info, err := s.Info(t.Context(), t.Name()); err != nil || info.Taken != 599 {
			t.Errorf("%d are taken, want 599 (%v)", info.Taken, err)
		}
	})
}

func TestForceReleaseRefuses(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		for _, fence := range []int64{0, -1} {
			_, err := e.mutex(c, lock.Options{}).ForceRelease(t.Context(), t.Name(), fence)
			_, serr := e.semaphore(c, lock.Options{}).ForceRelease(t.Context(), t.Name(), fence)
			for _, err := range []error{err, serr} {
				if err == nil || !strings.Contains(err.Error(), "want that of the holder") {
					t.Errorf("fence %d: %v", fence, err)
				}
			}
		}
		_, err := e.mutex(c, lock.Options{}).ForceRelease(t.Context(), "}", 1)
		_, serr := e.semaphore(c, lock.Options{}).ForceRelease(t.Context(), "}", 1)
		if !errors.Is(err, redoubt.ErrInvalidName) || !errors.Is(serr, redoubt.ErrInvalidName) {
			t.Errorf("a bad name: %v, %v", err, serr)
		}
	})
}

// Who, since when, which token, how long, how many wait: of every kind.
func TestInfo(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for name, kind := range forcibles {
			t.Run(name, func(t *testing.T) {
				e := e.in(t)
				k := kind(e, e.newClient(), lock.Options{TTL: time.Minute, Label: "a b\nc"})
				must(t, try(t, k.rival, t.Name()).Release(t.Context()))
				before := e.now(t.Name())
				lease := try(t, k.m, t.Name())
				after := e.now(t.Name())
				other, err := lock.New(e.newClient(), lock.Options{})
				must(t, err)
				info, err := other.Info(t.Context(), t.Name())
				must(t, err)
				holders, held := info.Holders, info.Mode != lock.Free
				if name == "permit" {
					info, err := e.semaphore(e.newClient(), lock.Options{}).Info(t.Context(), t.Name())
					must(t, err)
					holders, held = info.Holders, info.Taken == 1
				}
				if !held || len(holders) != 1 {
					t.Fatalf("%v, %+v", held, holders)
				}
				h := holders[0]
				if h.Label != "a b\nc" || h.Token != lease.Token() || h.TTL > time.Minute || h.TTL < 30*time.Second {
					t.Errorf("the holder is %+v", h)
				}
				if h.Since.Before(before) || h.Since.After(after) {
					t.Errorf("since %v; acquired between %v and %v", h.Since, before, after)
				}
				must(t, lease.Release(t.Context()))
			})
		}
	})
}
