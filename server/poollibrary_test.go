package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/clienttest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/proxy"
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
	locks, err := lock.NewRW(p.library(t), lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		name := fmt.Sprint("n", i)
		for _, try := range []func(context.Context, string) (*lock.Lease, *lock.Busy, error){locks.TryAcquire, locks.TryAcquireShared} {
			if lease, _, err := try(t.Context(), name); lease != nil || !errors.Is(err, redoubt.ErrNeedsHashTag) {
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
	one := func(context.Context, string) (string, bool, error) { loads++; return "v", true, nil }
	many := func(context.Context, []string) (map[string]string, error) { loads++; return nil, nil }
	for i := range 4 {
		key := fmt.Sprint("k", i)
		calls := map[string]func() error{
			"Get":           func() error { _, _, err := tagged.Get(t.Context(), key, one); return err },
			"GetMany":       func() error { _, err := tagged.GetMany(t.Context(), []string{key, key + "2"}, many); return err },
			"Set":           func() error { return tagged.Set(t.Context(), key, "v") },
			"InvalidateTag": func() error { return tagged.InvalidateTag(t.Context(), key) },
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, redoubt.ErrNeedsHashTag) {
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
