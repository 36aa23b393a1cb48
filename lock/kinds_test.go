package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// kinds are the kinds of lock, each as two ways to acquire that keep each other
// out.
var kinds = map[string]func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker){
	"mutex": func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		mutex := w.mutex(c, opts)
		return mutex, mutex
	},
	"semaphore": func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		s := limited{w.semaphore(c, opts), 1}
		return s, s
	},
	"writer": func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		rw := w.rw(c, opts)
		return rw, readers{rw}
	},
	"reader": func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		rw := w.rw(c, opts)
		return readers{rw}, rw
	},
	"multi": func(w *world, c *redoubt.Client, opts lock.Options) (m, rival taker) {
		s := suffixed{newMulti(w.t, c, opts)}
		return s, s
	},
}

type makeKind func(c *redoubt.Client, opts lock.Options) (m, rival taker)

func eachKind(t *testing.T, run func(t *testing.T, w *world, kind makeKind)) {
	eachKindOn(t, each, run)
}

// eachKindOn is eachKind on the back ends of each, or of everywhere.
func eachKindOn(t *testing.T, backends func(*testing.T, func(*testing.T, *world)), run func(t *testing.T, w *world, kind makeKind)) {
	backends(t, func(t *testing.T, w *world) {
		for name, kind := range kinds {
			t.Run(name, func(t *testing.T) {
				w := &world{Backend: w.Backend, t: t, rdb: w.rdb}
				run(t, w, func(c *redoubt.Client, opts lock.Options) (m, rival taker) { return kind(w, c, opts) })
			})
		}
	})
}

// queued is how many entries of waiters any of the keys of name has.
func (w *world) queued(name string) (n int) {
	keys, err := w.rdb.Keys(w.t.Context(), w.Prefix+":{"+name+"*").Result()
	must(w.t, err)
	for _, key := range keys {
		fields, err := w.rdb.HKeys(w.t.Context(), key).Result()
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
	eachKindOn(t, everywhere, func(t *testing.T, w *world, kind makeKind) {
		holder, _ := kind(w.client(), lock.Options{})
		_, rival := kind(w.client(), lock.Options{})
		first := try(t, holder, t.Name())
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := rival.Acquire(t.Context(), t.Name())
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		eventually(t, "it waits", func() bool { return w.queued(t.Name()) == 1 })
		released := time.Now()
		must(t, first.Release(t.Context()))
		lease := <-got
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("woken after %v", took)
		}
		must(t, lease.Release(t.Context()))
		if n := w.queued(t.Name()); n != 0 {
			t.Errorf("%d are queued still", n)
		}
	})
}

// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestEveryKindSurvivesLostRepliesAndScripts(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world, kind makeKind) {
		proxy := faultnet.New(t, w.Addr)
		m, _ := kind(w.clientAt(proxy.Addr()), lock.Options{})
		_, rival := kind(w.client(), lock.Options{})
		first := try(t, m, t.Name())
		must(t, first.Extend(t.Context(), time.Minute))
		must(t, first.Release(t.Context())) // the scripts are loaded
		for _, forget := range []func(){
			func() {}, // what is lost is the script's reply
			func() { must(t, w.rdb.ScriptFlush(t.Context()).Err()) }, // that it isn't known
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
	eachKind(t, func(t *testing.T, w *world, kind makeKind) {
		conn := &recording{losing: &losing{counting: newCounting(t, w.dial(w.Addr))}}
		m, _ := kind(w.clientOn(conn), lock.Options{TTL: time.Hour})
		_, rival := kind(w.client(), lock.Options{})
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
