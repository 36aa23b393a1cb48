package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// Errors and panics are not cached.
//
// Promise: the error or panic of a loader reaches the callers that wait for it in its process, and
// the next Get loads again.
func TestLoaderFails(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.users(), newSource("ann")
		odd := errors.New("odd")
		for what, load := range map[string]cache.Loader[string, string]{
			"error": func(context.Context, string) (string, bool, error) { return "x", true, odd },
			"panic": func(context.Context, string) (string, bool, error) { panic(odd) },
			"exit":  func(context.Context, string) (string, bool, error) { runtime.Goexit(); return "x", true, nil },
		} {
			_, found, err := c.Get(t.Context(), what, load)
			if found || err == nil || errors.Is(err, cache.ErrPanicked) != (what != "error") || errors.Is(err, odd) != (what != "exit") {
				t.Errorf("%s: %v, %v", what, found, err)
			}
			if n := e.Redis.Exists(t.Context(), e.key(what)).Val(); n != 0 {
				t.Errorf("%s: something is left", what)
			}
			gets(t, c, what, "ann", s.load)
		}
		s.asked(t, 3)
		if n := c.Stats().LoadErrors; n != 3 {
			t.Errorf("%d errors", n)
		}
	})
}

type ctxKey struct{}

// Promise: a caller whose ctx ends returns alone, and the load continues.
func TestFirstCallerLeaves(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.users()
		busy, end := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "kept"))
		first := make(chan error, 1)
		go func() {
			_, _, err := c.Get(ctx, "1", func(ctx context.Context, _ string) (string, bool, error) {
				close(busy)
				<-end
				return ctx.Value(ctxKey{}).(string), true, ctx.Err()
			})
			first <- err
		}()
		<-busy
		second := make(chan string, 1)
		go func() {
			v, _, err := c.Get(t.Context(), "1", never(t))
			must(t, err)
			second <- v
		}()
		cancel()
		is(t, <-first, context.Canceled)
		close(end)
		if v := <-second; v != "kept" {
			t.Errorf("got %q", v)
		}
		gets(t, c, "1", "kept", never(t))
	})
}

// A Get does not wait for a loader that ignores the end of its context.
func TestLoadTimeout(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.users(func(o *options) { o.LoadTimeout = 20 * time.Millisecond })
		end := make(chan struct{})
		defer close(end)
		_, _, err := c.Get(t.Context(), "1", func(context.Context, string) (string, bool, error) {
			<-end
			return "late", true, nil
		})
		is(t, err, context.DeadlineExceeded)
		if n := e.Redis.Exists(t.Context(), e.key("1")).Val(); n != 0 {
			t.Error("the lease is left")
		}
	})
}

// Promise: at most MaxLoads loads run in a process, and a source that fails gets no calls for a
// while.
func TestMaxLoads(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.users(func(o *options) { o.MaxLoads = 3 })
		var now, most atomic.Int64
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				_, _, err := c.Get(t.Context(), fmt.Sprint(i), func(context.Context, string) (string, bool, error) {
					n := now.Add(1)
					defer now.Add(-1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					for range 1000 {
						runtime.Gosched()
					}
					return "v", true, nil
				})
				must(t, err)
			})
		}
		all.Wait()
		if n := most.Load(); n > 3 {
			t.Errorf("%d at a time", n)
		}
		end := make(chan struct{})
		defer close(end)
		narrow := e.users(func(o *options) { o.MaxLoads, o.LoadTimeout = 1, 20*time.Millisecond })
		for i, want := range []error{context.DeadlineExceeded, cache.ErrOverloaded} {
			_, _, err := narrow.Get(t.Context(), fmt.Sprint("slow", i), func(context.Context, string) (string, bool, error) {
				<-end
				return "", false, nil
			})
			is(t, err, want)
		}
	})
}

// Promise: at most MaxLoads loads run in a process, and a source that fails gets no calls for a
// while.
func TestBreaker(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.users(func(o *options) { o.Failures, o.Rest = 3, time.Hour }), newSource("ann")
		down := errors.New("down")
		s.fail(down)
		for range 3 {
			_, _, err := c.Get(t.Context(), "1", s.load)
			is(t, err, down)
		}
		_, _, err := c.Get(t.Context(), "1", s.load)
		is(t, err, cache.ErrSourceDown)
		s.asked(t, 3)

		quick := e.users(func(o *options) { o.Failures, o.Rest = 1, time.Millisecond })
		_, _, err = quick.Get(t.Context(), "1", s.load)
		is(t, err, down)
		s.fail(nil)
		eventually(t, "the source is tried again", func() bool {
			v, _, err := quick.Get(t.Context(), "1", s.load)
			return v == "ann" && err == nil
		})
		gets(t, quick, "2", "ann", s.load) // and the next at once
	})
}

// A dead process sends nothing any more.
type dead struct {
	redoubt.Conn
	after string // the script that is its last
	now   atomic.Bool
}

func (d *dead) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if d.now.Load() {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(context.DeadlineExceeded)}
	}
	r := d.Conn.Do(ctx, cmd)
	if cmd.Script != nil && cmd.Script.Name() == d.after {
		d.now.Store(true)
	}
	return r
}

// When the lease of a dead process ends, and not before, another process loads.
//
// Promise: a process that dies while it loads keeps others waiting for at most Options.Lease, and a
// slow process keeps its lease.
func TestDeadLoader(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := clienttest.Wrap(t, e.connect())
		lease := func(o *options) { o.Lease = 500 * time.Millisecond }
		a, b, s := e.usersOn(e.ClientOn(&dead{Conn: conn, after: "cache.lease"}), lease), e.users(), newSource("ann")
		busy, end := make(chan struct{}), make(chan struct{})
		first := make(chan struct{})
		go func() {
			defer close(first)
			_, _, _ = a.Get(t.Context(), "1", func(context.Context, string) (string, bool, error) {
				close(busy)
				<-end
				return "late", true, nil
			})
		}()
		<-busy
		began := time.Now()
		gets(t, b, "1", "ann", s.load)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		close(end)
		<-first
		gets(t, b, "1", "ann", never(t))
	})
}

// A Get after a Set or an Invalidate does not wait for an earlier load, also when the server can no
// longer say that the load is void.
func TestLoadsFromBefore(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for what, change := range map[string]func(c *cache.Cache[string, string]) error{
			"set":        func(c *cache.Cache[string, string]) error { return c.Set(t.Context(), "set", "new") },
			"invalidate": func(c *cache.Cache[string, string]) error { return c.Invalidate(t.Context(), "invalidate") },
		} {
			conn := &dead{Conn: clienttest.Wrap(t, e.connect())}
			c := e.usersOn(e.ClientOn(conn))
			busy, end, first := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(first)
				_, _, _ = c.Get(t.Context(), what, func(context.Context, string) (string, bool, error) {
					close(busy)
					<-end
					return "old", true, nil
				})
			}()
			<-busy
			must(t, change(c))
			conn.now.Store(true)
			second := make(chan string, 1)
			go func() {
				v, _, _ := c.Get(t.Context(), what, newSource("new").load)
				second <- v
			}()
			select {
			case v := <-second:
				if v != "new" {
					t.Errorf("%s: got %q", what, v)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("%s: it waits for the load from before", what)
			}
			close(end)
			<-first
		}
	})
}

// A slow load keeps its lease.
//
// Promise: a process that dies while it loads keeps others waiting for at most Options.Lease, and a
// slow process keeps its lease.
func TestSlowLoader(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.users()
		c.RenewEvery(time.Millisecond)
		gets(t, c, "1", "ann", func(context.Context, string) (string, bool, error) {
			until := func() string { return e.Redis.GetRange(t.Context(), e.key("1"), 19, 26).Val() }
			for range 3 {
				old := until()
				eventually(t, "the lease is renewed", func() bool { return until() > old })
			}
			return "ann", true, nil
		})
		gets(t, c, "1", "ann", never(t))
	})
}

// A lease whose reply was lost may come into force after an invalidation. The value that was loaded
// under it is not stored, and the lease is released.
func TestLateLease(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := clienttest.Wrap(t, e.connect())
		late := &late{Conn: conn}
		a := e.usersOn(e.ClientOn(late))
		b := e.users()
		gets(t, a, "1", "old", func(ctx context.Context, _ string) (string, bool, error) {
			must(t, b.Invalidate(ctx, "1"))
			must(t, conn.Do(ctx, *late.kept.Load()).Err)
			if v := e.Redis.Get(t.Context(), e.key("1")).Val(); len(v) != 47 || v[1] != '-' {
				t.Errorf("there is %q, and no lease", v)
			}
			return "old", true, nil
		})
		eventually(t, "the lease is given back", func() bool {
			v := e.Redis.Get(t.Context(), e.key("1")).Val()
			if len(v) > 47 {
				t.Fatalf("there is %q", v)
			}
			return v == ""
		})
	})
}

// late keeps the first lease to itself.
type late struct {
	redoubt.Conn
	kept atomic.Pointer[redoubt.Cmd]
}

func (l *late) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script != nil && cmd.Script.Name() == "cache.lease" && l.kept.CompareAndSwap(nil, &cmd) {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(context.DeadlineExceeded)}
	}
	return l.Conn.Do(ctx, cmd)
}
