package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// A context of a lease ends with the reason why.
func TestContextSaysWhy(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const short = 200 * time.Millisecond
		proxy := faultnet.New(t, w.Addr)
		behind := w.clientAt(proxy.Addr())
		forceAway := func(l *lock.Lease) {
			must(t, w.client().Do(t.Context(), lock.ReleaseCmd(w.key(l.Name()), l.ID())).Err)
		}
		for _, c := range []struct {
			what string
			opts lock.Options
			end  func(l *lock.Lease)
			want error
			text string
		}{
			{"released", lock.Options{}, func(l *lock.Lease) { must(t, l.Release(t.Context())) }, lock.ErrReleased, ""},
			{"nobody renews", lock.Options{TTL: short, NoRenew: true}, func(*lock.Lease) {}, lock.ErrRanOut, ""},
			{"taken away, found by a renewal", lock.Options{TTL: short}, forceAway, lock.ErrTaken, ""},
			{"taken away, found by Extend", lock.Options{}, func(l *lock.Lease) {
				forceAway(l)
				if err := l.Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrTaken) {
					t.Errorf("Extend gave %v", err)
				}
			}, lock.ErrTaken, ""},
			{"the key is gone", lock.Options{TTL: short}, func(l *lock.Lease) {
				must(t, w.rdb.Del(t.Context(), w.key(l.Name())).Err())
			}, lock.ErrTaken, ""},
			{"unreachable", lock.Options{TTL: short}, func(*lock.Lease) { proxy.Blackhole(faultnet.Both) }, lock.ErrRanOut, "the last renewal failed"},
		} {
			t.Run(c.what, func(t *testing.T) {
				lease := try(t, w.mutex(behind, c.opts), t.Name())
				ctx, cancel := context.WithCancel(lease.Context(t.Context()))
				defer cancel()
				c.end(lease)
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
				if !strings.Contains(cause.Error(), c.text) || !errors.Is(lease.Err(), c.want) {
					t.Errorf("the cause is %v and Err is %v", cause, lease.Err())
				}
			})
		}
		proxy.Heal()

		// The parent's own end is not the lease's.
		lease := try(t, w.mutex(w.client(), lock.Options{}), t.Name())
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
