package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// kinds are the kinds of lock, each as two ways to acquire that keep each other
// out.
var kinds = map[string]func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker){
	"mutex": func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		mutex := e.mutex(c, opts)
		return mutex, mutex
	},
	"semaphore": func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		s := limited{e.semaphore(c, opts), 1}
		return s, s
	},
	"writer": func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		rw := e.rw(c, opts)
		return rw, readers{rw}
	},
	"reader": func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		rw := e.rw(c, opts)
		return readers{rw}, rw
	},
	"multi": func(e *env, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		s := suffixed{newMulti(e.T, c, opts)}
		return s, s
	},
}

type makeKind func(c *redoubt.Client, opts lock.Options) (m, rival taker)

func eachKind(t *testing.T, run func(t *testing.T, e *env, kind makeKind)) {
	eachKindOn(t, each, run)
}

// eachKindOn is eachKind on the back ends of each, or of everywhere.
func eachKindOn(t *testing.T, backends func(*testing.T, func(*testing.T, *env)), run func(t *testing.T, e *env, kind makeKind)) {
	backends(t, func(t *testing.T, e *env) {
		for name, kind := range kinds {
			t.Run(name, func(t *testing.T) {
				e := e.in(t)
				run(t, e, func(c *redoubt.Client, opts lock.Options) (m, rival taker) { return kind(e, c, opts) })
			})
		}
	})
}

// queued is how many entries of waiters any of the keys of name has.
func (e *env) queued(name string) (n int) {
	keys, err := e.Redis.Keys(e.T.Context(), e.Prefix+":{"+name+"*").Result()
	must(e.T, err)
	for _, key := range keys {
		fields, err := e.Redis.HKeys(e.T.Context(), key).Result()
		if err != nil {
			continue // a sorted set
		}
		for _, f := range fields {
			if strings.HasPrefix(f, "PUBLISH ") || strings.HasPrefix(f, "SPUBLISH ") {
				n++
			}
		}
	}
	return n
}

// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestEveryKindWakesUp(t *testing.T) {
	eachKindOn(t, everywhere, func(t *testing.T, e *env, kind makeKind) {
		holder, _ := kind(e.newClient(), lock.Options{})
		_, rival := kind(e.newClient(), lock.Options{})
		first := try(t, holder, t.Name())
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := rival.Acquire(t.Context(), t.Name())
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		eventually(t, "it waits", func() bool { return e.queued(t.Name()) == 1 })
		released := time.Now()
		must(t, first.Release(t.Context()))
		lease := <-got
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("woken after %v", took)
		}
		must(t, lease.Release(t.Context()))
		if n := e.queued(t.Name()); n != 0 {
			t.Errorf("%d are queued still", n)
		}
	})
}

// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestEveryKindSurvivesLostRepliesAndScripts(t *testing.T) {
	eachKind(t, func(t *testing.T, e *env, kind makeKind) {
		proxy := faultnet.New(t, e.Addr)
		m, _ := kind(e.ClientAt(proxy.Addr()), lock.Options{})
		_, rival := kind(e.newClient(), lock.Options{})
		first := try(t, m, t.Name())
		must(t, first.Extend(t.Context(), time.Minute))
		must(t, first.Release(t.Context())) // the scripts are loaded
		for _, forget := range []func(){
			func() {}, // what is lost is the script's reply
			func() { must(t, e.Redis.ScriptFlush(t.Context()).Err()) }, // that it isn't known
		} {
			forget()
			proxy.SwallowNextReply()
			lease := try(t, m, t.Name())
			forget()
			proxy.SwallowNextReply()
			must(t, lease.Extend(t.Context(), time.Minute))
			busyFor(t, rival, t.Name())
			forget()
			proxy.SwallowNextReply()
			must(t, lease.Release(t.Context()))
			must(t, try(t, rival, t.Name()).Release(t.Context()))
		}
	})
}

// recording keeps the commands that acquire.
type recording struct {
	*losing

	mu   sync.Mutex
	cmds []redoubt.Cmd
}

func (c *recording) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.mu.Lock()
	c.cmds = append(c.cmds, cmd)
	c.mu.Unlock()
	return c.losing.Do(ctx, cmd)
}

func (c *recording) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	c.mu.Lock()
	c.cmds = append(c.cmds, cmds...)
	c.mu.Unlock()
	replies := c.losing.Pipeline(ctx, cmds)
	if c.next.CompareAndSwap(true, false) {
		for i := range replies {
			replies[i] = redoubt.Reply{Err: redoubt.UnknownOutcome(context.DeadlineExceeded)}
		}
	}
	return replies
}

// Copies of everything that acquired, that arrive late, take nothing: after a
// release, and after an attempt whose outcome nobody learnt.
//
// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestLateCopiesOfEveryKindAreVoid(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, e *env, kind makeKind) {
		conn := &recording{losing: &losing{counting: newCounting(t, clienttest.Dial(t, e.Addr))}}
		m, _ := kind(e.ClientOn(conn), lock.Options{TTL: time.Hour})
		_, rival := kind(e.newClient(), lock.Options{})
		late := func(what string) {
			t.Helper()
			conn.mu.Lock()
			cmds := conn.cmds
			conn.cmds = nil
			conn.mu.Unlock()
			copies := 0
			for _, cmd := range cmds {
				if name := cmd.Script.Name(); strings.Contains(name, "acquire") || strings.Contains(name, "read") {
					must(t, conn.Conn.Do(t.Context(), cmd).Err)
					copies++
				}
			}
			if copies == 0 {
				t.Fatal("nothing was recorded")
			}
			lease, busy, err := rival.TryAcquire(t.Context(), t.Name())
			must(t, err)
			if busy != nil {
				t.Fatalf("%s: a late copy has taken the lock for %v", what, busy.Remaining)
			}
			must(t, lease.Release(t.Context()))
		}
		must(t, try(t, m, t.Name()).Release(t.Context()))
		late("after a release")

		conn.next.Store(true)
		if _, _, err := m.TryAcquire(t.Context(), t.Name()); !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("TryAcquire returned %v", err)
		}
		lease, err := rival.Acquire(t.Context(), t.Name()) // it was given back
		must(t, err)
		must(t, lease.Release(t.Context()))
		if strings.HasSuffix(t.Name(), "semaphore") || strings.HasSuffix(t.Name(), "reader") {
			// Scripts of a Mutex remember the last that was released, here the rival.
			late("after an unknown outcome")
		}
	})
}
