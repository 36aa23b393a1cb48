package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/lock"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

func (e *env) latch(c *redoubt.Client, opts lock.LatchOptions) *lock.Latch {
	e.T.Helper()
	l, err := lock.NewLatch(c, opts)
	must(e.T, err)
	return l
}

func latchKey(e *env, name string) string { return e.Prefix + ":{" + name + "}:latch" }

// Info writes nothing, even where a waiter could be woken.
func TestLatchInfoChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, name := e.newClient(), t.Name()
		l, key := e.latch(c, lock.LatchOptions{TTL: time.Hour}), latchKey(e, name)
		_, err := l.Set(t.Context(), name, 2)
		must(t, err)
		must(t, c.Do(t.Context(), wire.LatchWaitCmd(key, "PUBLISH nobody")).Err)
		must(t, e.Redis.HSet(t.Context(), key, "left", "0").Err())
		before := e.Redis.HGetAll(t.Context(), key).Val()
		info, err := l.Info(t.Context(), name)
		if err != nil || info.Count != 0 || info.TTL <= 0 || info.TTL > time.Hour {
			t.Errorf("%+v, %v", info, err)
		}
		if after := e.Redis.HGetAll(t.Context(), key).Val(); len(before) < 3 || !maps.Equal(before, after) {
			t.Errorf("it was %q and is %q", before, after)
		}
	})
}

// Each member counts once, over whatever network; what is set stays set.
//
// Promise: A member counts a latch down once, however often it repeats the
// call; all waiters are woken at zero; nothing is left of the latch after its
// TTL.
func TestLatchCounts(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		l, name := e.latch(e.ClientAt(proxy.Addr()), lock.LatchOptions{TTL: time.Hour}), t.Name()
		for what, call := range map[string]func() error{
			"Info":      func() error { _, err := l.Info(t.Context(), name); return err },
			"CountDown": func() error { _, err := l.CountDown(t.Context(), name, "m"); return err },
			"Wait":      func() error { return l.Wait(t.Context(), name) },
		} {
			if err := call(); !errors.Is(err, lock.ErrNotSet) {
				t.Errorf("%s of a latch that is not set returned %v", what, err)
			}
		}
		_, err := l.Set(t.Context(), "load", 1)
		must(t, err)
		_, err = l.CountDown(t.Context(), "load", "m") // the scripts are loaded
		must(t, err)
		proxy.SwallowNextReply()
		if set, err := l.Set(t.Context(), name, 3); err != nil || !set {
			t.Errorf("Set with a lost reply: %v, %v", set, err)
		}
		if set, err := l.Set(t.Context(), name, 5); err != nil || set {
			t.Errorf("a second Set: %v, %v", set, err)
		}
		for i, member := range []string{"a", "a", "b", "b", "a", "c", "d", "c"} {
			if i%2 == 0 {
				proxy.SwallowNextReply()
			}
			left, err := l.CountDown(t.Context(), name, member)
			if want := []int64{2, 2, 1, 1, 1, 0, 0, 0}[i]; err != nil || left != want {
				t.Errorf("call %d, of %s: %d left, %v; want %d", i, member, left, err, want)
			}
		}
		if info, err := l.Info(t.Context(), name); err != nil || info.Count != 0 || info.TTL <= 0 || info.TTL > time.Hour {
			t.Errorf("Info after zero: %+v, %v", info, err)
		}
		must(t, l.Wait(t.Context(), name))
		if set, err := l.Set(t.Context(), name, 1); err != nil || set {
			t.Errorf("a Set after zero: %v, %v", set, err)
		}
		if left := e.Redis.PTTL(t.Context(), latchKey(e, name)).Val(); left <= 0 || left > time.Hour {
			t.Errorf("the key lives for %v, want an hour", left)
		}
		for _, bad := range []func() error{
			func() error { _, err := l.Set(t.Context(), name, 0); return err },
			func() error { _, err := l.CountDown(t.Context(), name, ""); return err },
			func() error { _, err := lock.NewLatch(e.newClient(), lock.LatchOptions{TTL: -1}); return err },
		} {
			if bad() == nil {
				t.Error("bad input is accepted")
			}
		}
	})
}

// Waiters go on at zero, in however many processes, some of them dead;
// until then each process has sent three commands.
//
// Promise: A member counts a latch down once, however often it repeats the
// call; all waiters are woken at zero; nothing is left of the latch after its
// TTL.
func TestLatchWakesAll(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const processes, callers = 7, 4
		c := e.newClient()
		l, name := e.latch(c, lock.LatchOptions{}), t.Name()
		_, err := l.Set(t.Context(), name, 2)
		must(t, err)
		for i := range 20 {
			must(t, c.Do(t.Context(), wire.LatchWaitCmd(latchKey(e, name), fmt.Sprint("PUBLISH dead", i))).Err)
		}
		var wg sync.WaitGroup
		var conns []*counting
		for range processes {
			conn := newCounting(t, clienttest.Dial(t, e.Addr))
			conns = append(conns, conn)
			waiting := e.latch(e.ClientOn(conn), lock.LatchOptions{})
			for range callers {
				wg.Go(func() {
					if err := waiting.Wait(t.Context(), name); err != nil {
						t.Error(err)
					}
				})
			}
		}
		eventually(t, "all processes are queued", func() bool {
			return e.Redis.HGet(t.Context(), latchKey(e, name), "tail").Val() == fmt.Sprint(20+processes)
		})
		left, err := l.CountDown(t.Context(), name, "a")
		must(t, err)
		for i, conn := range conns {
			if n := conn.Commands.Load(); n > callers+1 {
				t.Errorf("process %d sent %d commands for %d callers: it polls", i, n, callers)
			}
		}
		if left != 1 {
			t.Errorf("%d left, want 1", left)
		}
		opened := time.Now()
		_, err = l.CountDown(t.Context(), name, "b")
		must(t, err)
		wg.Wait()
		if took := time.Since(opened); took > 5*time.Second {
			t.Errorf("all went on after %v: somebody was not woken", took)
		}
		for field := range e.Redis.HGetAll(t.Context(), latchKey(e, name)).Val() {
			if strings.HasPrefix(field, "PUBLISH") {
				t.Errorf("%q still waits", field)
			}
		}
	})
}

// Promise: A member counts a latch down once, however often it repeats the
// call; all waiters are woken at zero; nothing is left of the latch after its
// TTL.
func TestLatchRunsOut(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.latch(e.newClient(), lock.LatchOptions{TTL: 200 * time.Millisecond})
		_, err := l.Set(t.Context(), t.Name(), 1)
		must(t, err)
		if err := l.Wait(t.Context(), t.Name()); !errors.Is(err, lock.ErrNotSet) {
			t.Errorf("Wait for a latch that runs out returned %v", err)
		}
		if n := e.Redis.Exists(t.Context(), latchKey(e, t.Name())).Val(); n != 0 {
			t.Error("it has left a key")
		}
		set, err := l.Set(t.Context(), t.Name(), 1)
		if err != nil || !set {
			t.Errorf("Set after the end: %v, %v", set, err)
		}
	})
}

func TestCancelledLatchWaitsLeaveNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		l, name := e.latch(c, lock.LatchOptions{}), t.Name()
		_, err := l.Set(t.Context(), name, 1)
		must(t, err)
		warm, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = l.Wait(warm, name)
		cancel()
		before := goleak.IgnoreCurrent()
		cancelled(t, thorough(10_000, 1000), func(ctx context.Context, _ int) error { return l.Wait(ctx, name) })
		eventually(t, "nobody is queued", func() bool {
			for field := range e.Redis.HGetAll(t.Context(), latchKey(e, name)).Val() {
				if strings.HasPrefix(field, "PUBLISH") {
					return false
				}
			}
			return true
		})
		if e.Server == nil {
			return // the server's own goroutines are in this process
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}
