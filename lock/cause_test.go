package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// A context of a lease ends with the reason why.
//
// Promise: The Context of a lease ends with the reason: released, handed over,
// run out, or taken away.
func TestContextSaysWhy(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		// A short TTL is for leases that are to run out. One that a renewal is to find
		// gone is renewed after a second or so, and has seconds left then.
		const short, long = 200 * time.Millisecond, 4 * time.Second
		forceAway := func(l *lock.Lease) {
			must(t, e.newClient().Do(t.Context(), wire.ReleaseCmd([]string{e.key(l.Name())}, l.ID(), "", false)).Err)
		}
		for _, c := range []struct {
			what string
			opts lock.Options
			end  func(l *lock.Lease, link *faultnet.Proxy)
			want error
		}{
			{"released", lock.Options{}, func(l *lock.Lease, _ *faultnet.Proxy) { must(t, l.Release(t.Context())) }, lock.ErrReleased},
			{"nobody renews", lock.Options{TTL: short, NoRenew: true}, func(*lock.Lease, *faultnet.Proxy) {}, lock.ErrRanOut},
			{"taken away, found by a renewal", lock.Options{TTL: long}, func(l *lock.Lease, _ *faultnet.Proxy) { forceAway(l) }, lock.ErrTaken},
			{"taken away, found by Extend", lock.Options{}, func(l *lock.Lease, _ *faultnet.Proxy) {
				forceAway(l)
				if err := l.Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrTaken) {
					t.Errorf("Extend gave %v", err)
				}
			}, lock.ErrTaken},
			{"the key is gone", lock.Options{TTL: long}, func(l *lock.Lease, _ *faultnet.Proxy) {
				must(t, e.Redis.Del(t.Context(), e.key(l.Name())).Err())
			}, lock.ErrTaken},
			{"unreachable", lock.Options{TTL: short}, func(_ *lock.Lease, link *faultnet.Proxy) { link.Blackhole(faultnet.Both) }, lock.ErrRanOut},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				link := faultnet.New(t, e.Addr)
				lease := take(t, e.mutex(e.ClientAt(link.Addr()), c.opts), t.Name())
				ctx, cancel := context.WithCancel(lease.Context(t.Context()))
				defer cancel()
				c.end(lease, link)
				<-ctx.Done()
				cause := context.Cause(ctx)
				for _, reason := range []error{lock.ErrReleased, lock.ErrRanOut, lock.ErrTaken} {
					if is := errors.Is(cause, reason); is != errors.Is(c.want, reason) {
						t.Errorf("the cause is %v; does it match %v: %v", cause, reason, is)
					}
				}
				if lost := errors.Is(cause, lock.ErrNotHeld); lost == errors.Is(c.want, lock.ErrReleased) {
					t.Errorf("the cause is %v; does it match ErrNotHeld: %v", cause, lost)
				}
				if !errors.Is(lease.Err(), c.want) {
					t.Errorf("the cause is %v and Err is %v", cause, lease.Err())
				}
			})
		}

		// The parent's own end is not the lease's.
		lease := try(t, e.mutex(e.newClient(), lock.Options{}), t.Name())
		boom := errors.New("boom")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx := lease.Context(parent)
		cancel(boom)
		if cause := context.Cause(ctx); !errors.Is(cause, boom) || lease.Err() != nil {
			t.Errorf("cause %v and Err %v after the parent ended", cause, lease.Err())
		}
		must(t, lease.Release(t.Context()))
	})
}

// The reason of a lease that ran out says that the server could not be reached.
func TestContextSaysWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		for _, hangs := range []bool{false, true} {
			s := &stub{nodes: 1}
			s.answers = func(_ string, cmds []redoubt.Cmd) time.Duration {
				if hangs && cmds[0].Script.Name() == "lock.extend" {
					return -1
				}
				return time.Millisecond
			}
			client := s.client(t)
			m, err := lock.New(client, lock.Options{TTL: ttl, NoRenew: !hangs})
			must(t, err)
			lease, _, err := m.TryAcquire(t.Context(), "n0")
			must(t, err)
			ctx := lease.Context(t.Context())
			<-ctx.Done()
			cause := context.Cause(ctx)
			if said := strings.Contains(cause.Error(), "the last renewal failed"); !errors.Is(cause, lock.ErrRanOut) || said != hangs {
				t.Errorf("the cause is %v; do renewals hang: %v", cause, hangs)
			}
			await.Advance(ttl) // the renewal that is under way is given up
			must(t, client.Close())
		}
	})
}
