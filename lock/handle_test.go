package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// over sends h to another process and back, as text.
func over(t *testing.T, h lock.Handle) (got lock.Handle) {
	t.Helper()
	text, err := json.Marshal(map[string]lock.Handle{"lease": h})
	must(t, err)
	var back map[string]lock.Handle
	must(t, json.Unmarshal(text, &back))
	return back["lease"]
}

// A lease goes on in another process: the first lets go of it without a word, the
// second renews it and releases it.
//
// Promise: A lease that is handed over ends here and goes on where it is
// resumed, with a deadline counted from the sending of a confirmed extension;
// a stale handle is refused.
func TestHandOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		const ttl = 9 * time.Second
		conn := newCounting(t, clienttest.Dial(t, e.Addr))
		first := e.mutex(e.ClientOn(conn), lock.Options{TTL: time.Minute})
		second, rival := e.mutex(e.newClient(), lock.Options{TTL: ttl}), e.mutex(e.newClient(), lock.Options{})
		name := t.Name() + "\x00 ."

		lease := try(t, first, name)
		must(t, lease.Extend(t.Context(), time.Minute))
		ctx := lease.Context(t.Context())
		sent := conn.Commands.Load()
		h, err := lease.HandOver()
		must(t, err)
		if h.TTL < 50*time.Second || h.TTL > time.Minute || h.Token != lease.Token() || strings.Contains(h.String(), h.ID) {
			t.Errorf("handle %v with %v", h, h.TTL)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), lock.ErrHandedOver) || errors.Is(lease.Err(), lock.ErrNotHeld) {
			t.Errorf("cause %v, Err %v", context.Cause(ctx), lease.Err())
		}
		must(t, lease.Release(t.Context()))
		for what, err := range map[string]error{"Extend": lease.Extend(t.Context(), ttl), "HandOver": faultOf(lease.HandOver())} {
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s of a lease that was handed over: %v", what, err)
			}
		}
		if n := conn.Commands.Load() - sent; n != 0 {
			t.Errorf("%d commands after the hand-over", n)
		}

		resumed, err := second.Resume(t.Context(), over(t, h))
		must(t, err)
		if resumed.Token() != h.Token || resumed.ID() != h.ID || resumed.Name() != name {
			t.Errorf("resumed %q as %s with %d", resumed.Name(), resumed.ID(), resumed.Token())
		}
		busyFor(t, rival, name)
		must(t, resumed.Release(t.Context()))
		must(t, try(t, rival, name).Release(t.Context()))

		// It is renewed where it is now.
		lease = try(t, second, name)
		h, err = lease.HandOver()
		must(t, err)
		if resumed, err = second.Resume(t.Context(), over(t, h)); err != nil {
			t.Fatal(err)
		}
		await.Always(t, ttl*5/4, "it is held", func() bool {
			busyFor(t, rival, name)
			return true
		})
		must(t, resumed.Release(t.Context()))
	})
}

func faultOf(_ lock.Handle, err error) error { return err }

// A lease that has ended can't be resumed, whoever has the lock now.
//
// Promise: A lease that is handed over ends here and goes on where it is
// resumed, with a deadline counted from the sending of a confirmed extension;
// a stale handle is refused.
func TestStaleHandleIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		m := e.mutex(e.newClient(), lock.Options{TTL: 3 * time.Second, NoRenew: true})
		other := e.mutex(e.newClient(), lock.Options{})
		refused := func(what string, h lock.Handle) {
			t.Helper()
			if _, err := m.Resume(t.Context(), h); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: Resume gave %v", what, err)
			}
		}
		h, err := try(t, m, t.Name()).HandOver()
		must(t, err)
		holder, err := other.Acquire(t.Context(), t.Name()) // when it has run out
		must(t, err)
		refused("ran out, and another holds the lock", h)
		must(t, holder.Release(t.Context()))
		refused("ran out, and the lock is free", h)

		h, err = try(t, other, t.Name()).HandOver()
		must(t, err)
		wrong := h
		wrong.Token--
		refused("another token", wrong)
		resumed, err := m.Resume(t.Context(), h)
		must(t, err)
		must(t, resumed.Release(t.Context()))
		refused("released", h)
	})
}

// The deadline is counted from the sending of the extension that took the lease up.
//
// Promise: A lease that is handed over ends here and goes on where it is
// resumed, with a deadline counted from the sending of a confirmed extension;
// a stale handle is refused.
func TestResumedDeadlineCountsFromTheSending(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		const ttl = time.Minute
		m := e.mutex(e.ClientAt(proxy.Addr()), lock.Options{TTL: ttl, NoRenew: true})
		h, err := try(t, m, t.Name()).HandOver()
		must(t, err)
		proxy.Delay(100 * time.Millisecond)
		lease, err := m.Resume(t.Context(), h)
		must(t, err)
		if left := time.Until(lease.Deadline()); left > ttl-ttl/100-100*time.Millisecond {
			t.Errorf("the deadline is %v after the reply, which took 100 ms", left)
		}
		proxy.Heal()
		proxy.Delay(0)
		must(t, lease.Release(t.Context()))
	})
}

func TestOnlyAMutexHandsOver(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		rw, multi := e.rw(c, lock.Options{}), newMulti(t, c, lock.Options{})
		both, _, err := multi.TryAcquire(t.Context(), []string{"a", "b"})
		must(t, err)
		for what, l := range map[string]*lock.Lease{
			"permit": try(t, limited{e.semaphore(c, lock.Options{}), 1}, "s"),
			"reader": try(t, readers{rw}, "r"),
			"multi":  both,
		} {
			if _, err := l.HandOver(); err == nil || l.Err() != nil {
				t.Errorf("%s: HandOver gave %v, and the lease is %v", what, err, l.Err())
			}
			must(t, l.Release(t.Context()))
		}
	})
}

func TestBadHandles(t *testing.T) {
	for _, text := range []string{
		"", "lease1", "lease2.YQ.YQ.1.1", "lease1.YQ.YQ.1", "lease1.YQ.YQ.1.1.1", "lease1..YQ.1.1", "lease1.YQ..1.1",
		"lease1.YQ.YQ.x.1", "lease1.YQ.YQ.-1.1", "lease1.YQ.YQ.1.-1", "lease1.YQ.YQ.1.99999999999999999", "lease1.YQ.YQ.1.-9223372036854775808", "lease1.YR.YQ.1.1",
		"lease1.Y Q.YQ.1.1", "lease1." + strings.Repeat("YWFh", 171) + ".YQ.1.1",
	} {
		h := lock.Handle{Name: "kept"}
		if err := h.UnmarshalText([]byte(text)); err == nil || h.Name != "kept" {
			t.Errorf("%.40q is taken for a handle: %v, %v", text, h, err)
		}
	}
	if _, err := (lock.Handle{}).MarshalText(); err == nil {
		t.Error("an empty handle has a text")
	}
	m, err := lock.New(connect(), lock.Options{})
	must(t, err)
	if _, err := m.Resume(t.Context(), lock.Handle{Name: "a"}); err == nil || errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("Resume of a handle without id: %v", err)
	}
}

func FuzzHandle(f *testing.F) {
	f.Add("lease1.YQ.YQ.1.1")
	f.Fuzz(func(t *testing.T, text string) {
		var h, again lock.Handle
		if h.UnmarshalText([]byte(text)) != nil {
			return
		}
		back, err := h.MarshalText()
		must(t, err)
		if err := again.UnmarshalText(back); err != nil || again != h {
			t.Errorf("%q is %+v, and then %+v (%v)", text, h, again, err)
		}
	})
}
