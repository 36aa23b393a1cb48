package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// The holder is cut off in either direction. Its lease must be over before
// anybody else can get the lock, and the cause must say why.
func TestLeaseEndsWhenServerIsUnreachable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, dir := range map[string]faultnet.Direction{
			"to the server": faultnet.ToServer, "to the client": faultnet.ToClient, "both": faultnet.Both,
		} {
			t.Run(name, func(t *testing.T) {
				const ttl = 600 * time.Millisecond
				proxy := faultnet.New(t, w.Addr)
				holder := w.mutex(w.clientAt(proxy.Addr()), lock.Options{TTL: ttl})
				other := w.mutex(w.client(), lock.Options{})
				lease := try(t, holder, t.Name())
				ctx := lease.Context(t.Context())
				proxy.Blackhole(dir)

				next, err := other.Acquire(t.Context(), t.Name())
				must(t, err)
				if lease.Err() == nil || ctx.Err() == nil {
					t.Fatal("two valid leases at once")
				}
				if err := lease.Err(); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("Err is %v", err)
				}
				if !errors.Is(context.Cause(ctx), lock.ErrNotHeld) {
					t.Errorf("cause is %v", context.Cause(ctx))
				}
				if next.Token() <= lease.Token() {
					t.Errorf("token %d after %d", next.Token(), lease.Token())
				}
				proxy.Heal()
				must(t, next.Release(t.Context()))
			})
		}
	})
}

// A reply is lost: the call is repeated, or its effect undone.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := faultnet.New(t, w.Addr)
		m := w.mutex(w.clientAt(proxy.Addr()), lock.Options{})
		must(t, try(t, m, t.Name()).Release(t.Context())) // the scripts are loaded

		proxy.SwallowNextReply()
		lease := try(t, m, t.Name())
		proxy.SwallowNextReply()
		must(t, lease.Extend(t.Context(), time.Minute))
		proxy.SwallowNextReply()
		must(t, lease.Release(t.Context()))

		other := w.mutex(w.client(), lock.Options{})
		must(t, try(t, other, t.Name()).Release(t.Context()))
	})
}

// The caller leaves while its acquire is on the server: the lock is given back
// behind it.
func TestCancelInMidAcquire(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := faultnet.New(t, w.Addr)
		m := w.mutex(w.clientAt(proxy.Addr()), lock.Options{TTL: time.Hour})
		must(t, try(t, m, t.Name()).Release(t.Context()))

		proxy.Blackhole(faultnet.ToClient)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := m.Acquire(ctx, t.Name())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("Acquire returned %v, want the ctx's error with an unknown outcome", err)
		}
		proxy.Heal()
		other := w.mutex(w.client(), lock.Options{})
		lease, err := other.Acquire(t.Context(), t.Name())
		must(t, err)
		must(t, lease.Release(t.Context()))
	})
}
