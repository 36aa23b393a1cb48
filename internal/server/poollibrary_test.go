package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	lockwire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
)

// A waiting is a program that waits for a lock, by the library through a pool.
type waiting struct {
	holder *lock.Lease
	got    chan error
}

// library returns the Client of another program.
func (p *poolOf) library(t *testing.T) *redoubt.Client { return clienttest.Open(t, "redis://"+p.addr) }

// waitFor has one program hold a lock for an hour, and another wait for it.
func (p *poolOf) waitFor(t *testing.T, name string, opts lock.Options) *waiting {
	t.Helper()
	opts.TTL = time.Hour
	holds, err := lock.New(p.library(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	waits, err := lock.New(p.library(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{got: make(chan error, 1)}
	if w.holder, err = holds.Acquire(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	go func() {
		lease, err := waits.Acquire(t.Context(), name)
		if err == nil {
			err = lease.Release(t.Context())
		}
		w.got <- err
	}()
	eventually(t, "it waits", func() bool {
		info, err := holds.Info(t.Context(), name)
		return err == nil && info.Waiters == 1
	})
	return w
}

// ends fails the test unless the one that waits gets the lock long before the lease ends.
func (w *waiting) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience / 2): // a minute, when the machine is busy
		t.Fatal("it waits still")
	}
}

func (w *waiting) release(t *testing.T) {
	t.Helper()
	if err := w.holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ends(t)
}

// namesOn returns a name on each server.
func (p *poolOf) namesOn() (names []string) {
	for at := range p.nodes {
		for i := 0; len(names) <= at; i++ {
			if n := fmt.Sprint("n", i); p.pool.Pick([]byte(n)) == p.pool.Nodes()[at] {
				names = append(names, n)
			}
		}
	}
	return names
}

func tagged(o *proxy.PoolOptions) { o.Tag = "{}" }

// TestPoolLibraryWithoutAServer: while a server is down the library's waiters are woken and its
// local levels hear, for names on others; and whoever waits for a lock there looks again once it
// is back.
func TestPoolLibraryWithoutAServer(t *testing.T) {
	p := startPool(t, 3, tagged)
	names := p.namesOn()
	users := func() *cache.Cache[string, string] {
		c, err := cache.New(p.library(t), cache.Options[string, string]{Name: "users", TTL: time.Hour, Local: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	before, writes, version := users(), users(), 0
	hears := func(reads *cache.Cache[string, string]) {
		t.Helper()
		for i := range 20 {
			key := fmt.Sprint("u", i)
			if p.pool.Pick([]byte("users:"+key)) == p.pool.Nodes()[2] {
				continue
			}
			value := ""
			for range 2 {
				version++
				value = fmt.Sprint(version)
				if err := writes.Invalidate(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the invalidation is heard", func() bool {
					v, _, err := reads.Get(t.Context(), key, func(context.Context, string) (string, bool, error) { return value, true, nil })
					return err == nil && v == value
				})
			}
		}
	}
	hears(before)
	waits := p.waitFor(t, names[2], lock.Options{})
	p.nodes[2].Kill()
	for _, n := range names[:2] {
		p.waitFor(t, n, lock.Options{}).release(t)
		p.waitFor(t, n, lock.Options{Fair: true}).release(t)
	}
	hears(before)
	hears(users())
	p.nodes[2].Restart() // without its keys
	waits.ends(t)
	for _, n := range names {
		p.waitFor(t, n, lock.Options{}).release(t)
	}
}

// TestPoolLibraryWhenMoved: whoever waits for a lock looks again when its name gets another
// server.
func TestPoolLibraryWhenMoved(t *testing.T) {
	p := startPool(t, 3, tagged)
	w := p.waitFor(t, p.namesOn()[0], lock.Options{})
	p.change(t, withoutFirst)
	w.ends(t)
}

// clusterLibrary: whoever waits for a lock is woken behind every node, in the order of asking if
// wanted, and when the slot has moved meanwhile.
func clusterLibrary(t *testing.T, p *clusterPool) {
	for i, n := range p.namesOn() {
		p.waitFor(t, n, lock.Options{}).release(t)
		p.waitFor(t, n, lock.Options{Fair: true}).release(t)
		if i > 0 {
			continue
		}
		w := p.waitFor(t, n, lock.Options{})
		p.cluster.Move(p.cluster.Slot(n), p.at(t, n), p.other(t, n), nil)
		w.release(t)
	}
}

// TestRWMutexNeedsATag: in a pool without hash_tag a writer is refused before it has anything,
// because its release would be, and the lock would stay for the whole lease.
func TestRWMutexNeedsATag(t *testing.T) {
	p := startPool(t, 2)
	locks, err := lock.NewRWMutex(p.library(t), lock.RWMutexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		name := fmt.Sprint("n", i)
		for _, try := range []func(context.Context, string) (*lock.Lease, *lock.Busy, error){locks.TryAcquire, locks.TryAcquireShared} {
			if lease, _, err := try(t.Context(), name); lease != nil || !errors.Is(err, redoubt.ErrRefused) {
				t.Errorf("%s: %v, %v", name, lease, err)
			}
		}
	}
	for _, n := range p.nodes {
		if got := n.CLI("KEYS", "*"); got != "" {
			t.Errorf("a server has %q", got)
		}
	}
}

// TestCacheTagsNeedATag: in a pool without hash_tag a cache with tags is refused before it loads or
// stores anything. It used to go on as if there were no server. One without tags works.
func TestCacheTagsNeedATag(t *testing.T) {
	p := startPool(t, 2)
	client := p.library(t)
	opts := cache.Options[string, string]{Name: "c", TTL: time.Minute}
	untagged, err := cache.New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = untagged.Close() })
	opts.Tags = func(string, string) []string { return []string{"group"} }
	tagged, err := cache.New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tagged.Close() })
	loads := 0
	one := func(ctx context.Context, _ string) (string, bool, error) { loads++; return "v", true, ctx.Err() }
	for i := range 4 {
		key := fmt.Sprint("k", i)
		calls := map[string]func() error{
			"Get":           func() error { _, _, err := tagged.Get(t.Context(), key, one); return err },
			"GetMany":       func() error { _, err := tagged.GetMany(t.Context(), []string{key, key + "2"}, nil); return err },
			"Set":           func() error { return tagged.Set(t.Context(), key, "v") },
			"InvalidateTag": func() error { return tagged.InvalidateTag(t.Context(), key) },
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, redoubt.ErrRefused) {
				t.Errorf("%s of %s: %v", name, key, err)
			}
		}
	}
	if loads != 0 {
		t.Errorf("the source was asked %d times", loads)
	}
	for _, n := range p.nodes {
		if got := n.CLI("KEYS", "*"); got != "" {
			t.Errorf("a server has %q", got)
		}
	}
	for range 2 {
		if v, _, err := untagged.Get(t.Context(), "k", one); v != "v" || err != nil || loads != 1 {
			t.Errorf("without tags: %q, %v, after %d loads", v, err, loads)
		}
	}
}

// TestLibraryWhereCommandsAreRefused: where a pool refuses Redoubt's commands, it refuses the scripts
// by which the library does the same, before they do anything. The others work.
func TestLibraryWhereCommandsAreRefused(t *testing.T) {
	ejects := func(o *proxy.PoolOptions) { o.Eject = true }
	scatters := func(o *proxy.PoolOptions) { o.Distribution = ring.Random }
	for _, c := range []struct {
		name, why string
		pool      func(o *proxy.PoolOptions)
		limited   bool // limits work
	}{
		{"auto_eject_hosts", "is refused where auto_eject_hosts is true: ", ejects, true},
		{"random", "is refused where distribution is random: ", scatters, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPool(t, 2, tagged, c.pool)
			for what, err := range useLibrary(t, p.library(t)) {
				switch refused := what != "limit" || !c.limited; {
				case refused && (!errors.Is(err, redoubt.ErrRefused) || !strings.Contains(err.Error(), c.why)):
					t.Errorf("%s: %v", what, err)
				case !refused && err != nil:
					t.Errorf("%s: %v", what, err)
				}
			}
			w := dial(t, p.addr)
			script := lockwire.Scripts()[0]
			for _, args := range [][]string{
				{"EVAL", script.Source(), "1", "k"}, {"EVAL_RO", script.Source(), "1", "k"}, {"SCRIPT", "LOAD", script.Source()},
				{"EVALSHA", script.Digest(), "1", "k"}, {"evalsha_ro", strings.ToUpper(script.Digest()), "1", "k"},
			} {
				if got, want := w.do(args...), "-ERR redoubt: "+strings.ToUpper(args[0])+" of lock.acquire "+c.why; !strings.HasPrefix(got, want) {
					t.Errorf("%s: %q", args[0], got)
				}
			}
			if c.limited { // elsewhere there are no transactions
				w.want("+OK\r\n", "MULTI")
				if got := w.do("EVALSHA", script.Digest(), "1", "k"); !strings.Contains(got, c.why) {
					t.Errorf("in a transaction: %q", got)
				}
				if got := w.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
					t.Errorf("EXEC: %q", got)
				}
			}
			for _, n := range p.nodes {
				for name := range strings.FieldsSeq(n.CLI("KEYS", "*")) {
					if !strings.Contains(name, "limit") {
						t.Errorf("a server has %q", name)
					}
				}
			}
			w.want("$1\r\nv\r\n", "EVAL return(ARGV[1]) 1 k v") // somebody else's
		})
	}
}

// useLibrary uses what the RESP commands have too, and returns the errors.
func useLibrary(t *testing.T, client *redoubt.Client) map[string]error {
	t.Helper()
	failed := map[string]error{}
	need := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	locks, err := lock.New(client, lock.Options{})
	need(err)
	_, _, failed["lock"] = locks.TryAcquire(t.Context(), "n")
	_, failed["lock, waiting"] = locks.Acquire(t.Context(), "n2")
	fair, err := lock.New(client, lock.Options{Fair: true})
	need(err)
	_, failed["fair lock"] = fair.Acquire(t.Context(), "n3")
	rw, err := lock.NewRWMutex(client, lock.RWMutexOptions{})
	need(err)
	_, _, failed["shared lock"] = rw.TryAcquireShared(t.Context(), "n4")
	semaphores, err := lock.NewSemaphore(client, lock.SemaphoreOptions{})
	need(err)
	_, _, failed["semaphore"] = semaphores.TryAcquire(t.Context(), "n", 2)
	queues, err := queue.New[string](client, queue.Options{})
	need(err)
	_, failed["queue"] = queues.Put(t.Context(), "n", "v")
	items, err := stock.New(client, stock.Options{})
	need(err)
	_, failed["stock"] = items.Add(t.Context(), "n", 1)
	guard, err := fence.New(client, fence.Options{})
	need(err)
	failed["fence"] = guard.Do(t.Context(), "n", 1, redoubt.Cmd{Name: "SET", Keys: []string{"n"}, Args: []string{"v"}}).Err
	failed["fenced script"] = guard.Do(t.Context(), "n", 1, redoubt.Cmd{
		Script: redoubt.NewScript("own", "return redis.call('SET', KEYS[1], 'v')"), Keys: []string{"n"},
	}).Err
	limiter, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(1)})
	need(err)
	_, failed["limit"] = limiter.Allow(t.Context(), "limit")
	return failed
}
