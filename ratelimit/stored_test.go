package ratelimit_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func (e *env) storedLimiter(t *testing.T) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(e.Client, ratelimit.Options{Stored: true})
	must(t, err)
	return l
}

// Limits that are kept on the server decide as the limits of the options do, in every
// operation.
//
// Promise: The first of many callers defines a stored limit, and a change
// holds for all calls after it.
func TestStoredLimitsDecideAlike(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		stored := e.storedLimiter(t)
		for i := range thorough(120, 50) {
			limits := []ratelimit.Limit{randomLimit(r), randomLimit(r), randomLimit(r)}[:1+r.IntN(3)]
			if r.IntN(4) == 0 { // at the edge of what numbers hold
				limits[0] = ratelimit.Limit{Rate: 1 + r.IntN(1_000_000), Period: time.Second, Burst: 1 + r.IntN(1<<51)}
			}
			own, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limits[0], And: limits[1:]})
			if err != nil {
				continue // more than 292 years
			}
			a, b := fmt.Sprint("own", i), fmt.Sprint("stored", i)
			must(t, stored.Set(t.Context(), b, limits[0], limits[1:]...))
			for step := range 25 {
				e.Clock.Advance(time.Duration(r.Int64N(int64(limits[0].Period)/1000+1)) * time.Microsecond)
				n := r.IntN(4)
				if r.IntN(3) == 0 {
					n = 1 + r.IntN(limits[0].Burst+limits[0].Burst/8+1)
				}
				op := r.IntN(4)
				do := func(l *ratelimit.Limiter, name string) (d ratelimit.Decision, delay time.Duration, err error) {
					switch op {
					case 0:
						d, err = l.TakeUpTo(t.Context(), name, n+1)
					case 1:
						d, err = l.Refund(t.Context(), name, n+1, fmt.Sprint("id", step/4))
					case 2:
						var res *ratelimit.Reservation
						if res, err = l.Reserve(t.Context(), name, n+1); err == nil {
							d, delay = res.Decision, res.Delay()
							if step%3 == 0 {
								err = res.Cancel(t.Context())
							}
						}
					default:
						d, err = l.AllowN(t.Context(), name, n)
					}
					return d, delay, err
				}
				d1, delay1, err1 := do(own, a)
				d2, delay2, err2 := do(stored, b)
				// Delays are counted from when each reply came.
				if diff := (delay1 - delay2).Abs(); d1 != d2 || err1 != nil || err2 != nil || diff > time.Minute {
					t.Fatalf("%+v: operation %d of %d:\n   own %+v %v %v\nstored %+v %v %v", limits, op, n, d1, delay1, err1, d2, delay2, err2)
				}
			}
		}
	})
}

// Many callers try to define a limit: the first one does. Set changes it for all. Tokens
// that were taken stay taken.
//
// Promise: The first of many callers defines a stored limit, and a change
// holds for all calls after it.
func TestStoredLimitsAreShared(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		l := e.storedLimiter(t)
		if _, err := l.Info(ctx, "api"); !errors.Is(err, ratelimit.ErrNotConfigured) {
			t.Errorf("Info of none: %v", err)
		}
		var first atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				ok, err := l.SetIfAbsent(ctx, "api", ratelimit.Limit{Rate: 100 + i, Period: time.Hour}, ratelimit.PerHour(1000))
				if err != nil {
					t.Error(err)
				}
				if ok {
					first.Add(int64(1000 + i))
				}
			})
		}
		wg.Wait()
		info, err := l.Info(ctx, "api")
		must(t, err)
		limits := info.Limits
		if i := int(first.Load()) - 1000; i < 0 || i > 15 || len(limits) != 2 || limits[0] != (ratelimit.Limit{Rate: 100 + i, Period: time.Hour, Burst: 100 + i}) || limits[1] != ratelimit.PerHour(1000) {
			t.Errorf("%d was first; %+v", first.Load(), limits)
		}
		other, err := ratelimit.New(e.ClientOn(clienttest.Wrap(t, e.Redis)), ratelimit.Options{Stored: true})
		must(t, err)
		allow(t, other, "api", 60)
		must(t, l.Set(ctx, "api", ratelimit.PerHour(70)))
		if d := allow(t, other, "api", 1); d.Limit.Burst != 70 || d.Remaining > 34 || d.Remaining < 26 {
			// 60 of some 100 an hour are the same time as some 42 of 70.
			t.Errorf("after Set: %s of %+v", show(d), d.Limit)
		}
		_, err = l.Refund(ctx, "api", 1, "order-1")
		must(t, err)
		for _, want := range []bool{true, false} {
			if deleted, err := l.Delete(ctx, "api"); deleted != want || err != nil {
				t.Errorf("Delete reports %v, %v; want %v", deleted, err, want)
			}
		}
		if _, err := other.Allow(ctx, "api"); !errors.Is(err, ratelimit.ErrNotConfigured) {
			t.Errorf("after Delete: %v", err)
		}
		if keys := e.Redis.Keys(ctx, e.Prefix+":{api}:*").Val(); len(keys) != 0 {
			t.Errorf("Delete left %q", keys)
		}
	})
}

func TestStoredFaults(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		l := e.storedLimiter(t)
		calls := func(l *ratelimit.Limiter) (errs []error) {
			_, err1 := l.Allow(ctx, "a")
			_, err2 := l.TakeUpTo(ctx, "a", 3)
			_, err3 := l.Refund(ctx, "a", 1, "")
			_, err4 := l.Reserve(ctx, "a", 1)
			_, err5 := l.Info(ctx, "a")
			return []error{err1, err2, err3, err4, err5, l.Wait(ctx, "a"), l.AllowMany(ctx, []ratelimit.Request{{Name: "a", N: 1}})[0].Err}
		}
		for _, err := range calls(l) {
			if !errors.Is(err, ratelimit.ErrNotConfigured) {
				t.Errorf("without limits: %v", err)
			}
		}
		must(t, e.Redis.LPush(ctx, e.Prefix+":{a}:limit", "x").Err())
		for _, err := range calls(l) {
			if !redoubt.IsCode(err, "WRONGTYPE") || strings.Contains(err.Error(), "script") {
				t.Errorf("of a list: %v", err)
			}
		}
		_, err := l.Delete(ctx, "a")
		must(t, err)
		must(t, l.Set(ctx, "a", ratelimit.PerHour(2)))
		must(t, e.Redis.LPush(ctx, e.key("a"), "x").Err())
		for _, err := range calls(l) {
			if !redoubt.IsCode(err, "WRONGTYPE") || strings.Contains(err.Error(), "script") {
				t.Errorf("on a list: %v", err)
			}
		}
		if err := l.Set(ctx, "a", ratelimit.Limit{}); err == nil {
			t.Error("Set of no limit: no error")
		}
		own := e.limiter(t, ratelimit.PerHour(1))
		if err := own.Set(ctx, "a", ratelimit.PerHour(1)); err == nil || !strings.Contains(err.Error(), "Stored") {
			t.Errorf("Set with limits of its own: %v", err)
		}
		for _, o := range []ratelimit.Options{
			{Stored: true, Limit: ratelimit.PerHour(1)}, {Stored: true, And: []ratelimit.Limit{{}}}, {Stored: true, BareKeys: true}, {Stored: true, MaxWait: -1},
		} {
			if _, err := ratelimit.New(e.Client, o); err == nil {
				t.Errorf("%+v: no error", o)
			}
		}
	})
}

// The server loses its scripts between two calls of one pipeline.
func TestScriptFlushInPipeline(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerHour(100))
		flushing := &flusher{Conn: clienttest.Wrap(t, e.Redis)}
		e.Client = e.ClientOn(flushing)
		through := e.limiter(t, ratelimit.PerHour(100))
		allow(t, l, "a", 1)
		var requests []ratelimit.Request
		for range 50 {
			requests = append(requests, ratelimit.Request{Name: "a", N: 1})
		}
		left := map[int]bool{}
		for _, r := range through.AllowMany(t.Context(), requests) {
			must(t, r.Err)
			left[r.Remaining] = true
		}
		// A call that missed its script runs after the others, once.
		if len(left) != 50 || !left[49] || !left[98] {
			t.Errorf("left: %v", left)
		}
		if flushing.flushed == 0 {
			t.Error("nothing was flushed")
		}
	})
}
