package bloom_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// A mirror has the items from before and the items that others add, without a round trip.
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirror(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 7_000_000, ErrorRate: 0.01}
		f := e.open("f", spec)
		before := numbered("before", 300)
		add(t, f, before...)
		counted := &clienttest.Counter{Conn: e.Conn}
		_, filters := e.on(counted)
		g, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		m, err := g.Mirror(t.Context(), bloom.MirrorOptions{Every: 2 * time.Millisecond, MaxAge: 10 * time.Minute})
		must(t, err)
		defer func() { _ = m.Close() }()
		for _, i := range before {
			if !m.MayContain(i) {
				t.Fatalf("%s is denied", i)
			}
		}
		if m.MayContain("later0") {
			t.Error("what was not added may be in")
		}
		later := numbered("later", 300)
		add(t, f, later...)
		for _, i := range later {
			await.Until(t, 30*time.Second, i+" arrives", func() bool { return m.MayContain(i) })
		}
		isNew, err := m.Add(t.Context(), "own")
		must(t, err)
		if !isNew || !m.MayContain("own") || maybe(t, f, "own") != 1 {
			t.Error("its own item is not in at once")
		}
		must(t, m.Close())
		must(t, m.Close())
		counted.Trips.Store(0)
		for _, i := range later {
			m.MayContain(i)
		}
		if n := counted.Trips.Load(); n != 0 {
			t.Errorf("%d round trips", n)
		}
	})
}

// A mirror follows a rebuild and finds every item on the way.
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirrorFollowsARebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 10_000, ErrorRate: 0.0001}
		f := e.open("f", spec)
		kept := numbered("kept", 1000)
		add(t, f, kept...)
		add(t, f, "dropped")
		m, err := f.Mirror(t.Context(), bloom.MirrorOptions{Every: time.Millisecond, MaxAge: 10 * time.Minute})
		must(t, err)
		defer func() { _ = m.Close() }()
		var stop atomic.Bool
		var asking sync.WaitGroup
		asking.Go(func() {
			for !stop.Load() {
				for _, i := range kept {
					if !m.MayContain(i) {
						t.Errorf("%s is denied", i)
						return
					}
				}
			}
		})
		must(t, e.open("f", spec).Rebuild(t.Context(), listed(kept), bloom.RebuildOptions{}))
		await.Until(t, 30*time.Second, "the mirror drops what was dropped", func() bool { return !m.MayContain("dropped") })
		stop.Store(true)
		asking.Wait()
		add(t, f, "late")
		await.Until(t, 30*time.Second, "the mirror has what was added since", func() bool { return m.MayContain("late") })
	})
}

// A mirror reads the shard again when its log was lost or has become too long.
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirrorLogs(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := e.open("f", bloom.Spec{Capacity: 100_000, ErrorRate: 0.01})
		m, err := f.Mirror(t.Context(), bloom.MirrorOptions{Every: time.Millisecond, MaxAge: 10 * time.Minute})
		must(t, err)
		defer func() { _ = m.Close() }()
		log := strings.TrimSuffix(f.ShardKeys()[0], "bits") + "log"
		arrives := func(item string) {
			t.Helper()
			add(t, f, item)
			await.Until(t, 30*time.Second, item+" arrives", func() bool { return m.MayContain(item) })
		}
		arrives("one")
		if n := e.Redis.StrLen(t.Context(), log).Val(); n != 16+4*6 {
			t.Errorf("the log has %d bytes after one item", n)
		}
		must(t, e.Redis.Del(t.Context(), log).Err())
		arrives("two")
		must(t, e.Redis.SetRange(t.Context(), log, 1<<20+100, "x").Err())
		arrives("three")
		await.Until(t, 30*time.Second, "the log is small again", func() bool { return e.Redis.StrLen(t.Context(), log).Val() < 1000 })
		arrives("four")
		if ttl := e.Redis.PTTL(t.Context(), log).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the log lasts %v", ttl)
		}
		must(t, e.Redis.PExpire(t.Context(), log, 20*time.Second).Err())
		await.Until(t, 15*time.Second, "the log is kept while it is read", func() bool { return e.Redis.PTTL(t.Context(), log).Val() > 40*time.Second })
		// A shard that is lost is one that vouches for nothing, until it is back.
		shard := f.ShardKeys()[0]
		must(t, e.Redis.Rename(t.Context(), shard, shard+"away").Err())
		await.Until(t, 30*time.Second, "the loss is noticed", func() bool { return m.MayContain("never") })
		must(t, e.Redis.Rename(t.Context(), shard+"away", shard).Err())
		await.Until(t, 30*time.Second, "it is back", func() bool { return !m.MayContain("never") && m.MayContain("four") })
	})
}

// Items are added between any two steps of a mirror's first fetch.
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirrorBegins(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := e.open("f", bloom.Spec{Capacity: 1000, ErrorRate: 0.0001})
		var items []string
		_, filters := e.on(&hooked{Conn: e.Conn, before: func(redoubt.Cmd) {
			items = append(items, fmt.Sprint(len(items)))
			add(t, f, items[len(items)-1])
		}})
		g, err := filters.Open(t.Context(), "f", bloom.Spec{})
		must(t, err)
		m, err := g.Mirror(t.Context(), bloom.MirrorOptions{Every: time.Hour})
		must(t, err)
		defer func() { _ = m.Close() }()
		for _, i := range items {
			if !m.MayContain(i) {
				t.Errorf("of %d items that were added before the fetch ended, %s is denied", len(items), i)
			}
		}
		if len(items) < 3 || m.MayContain("out") {
			t.Errorf("the first fetch took %d calls", len(items))
		}
	})
}

// The age of a mirror counts from the beginning of the last fetch: an item that is added while the
// server answers may not be in the answer.
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirrorsAge(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const slow = 50 * time.Millisecond
		fetches, ages := 0, make(chan func(time.Duration), 1)
		_, filters := e.on(&hooked{Conn: e.Conn, before: func(cmd redoubt.Cmd) {
			if cmd.Script == nil || cmd.Script.Name() != "bloom.log" {
				return
			}
			switch fetches++; fetches {
			case 2:
				<-time.After(slow)
			case 3:
				(<-ages)(slow)
			}
		}})
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		m, err := f.Mirror(t.Context(), bloom.MirrorOptions{Every: time.Millisecond, MaxAge: 10 * time.Minute})
		must(t, err)
		defer func() { _ = m.Close() }()
		checked := make(chan struct{})
		ages <- func(least time.Duration) {
			defer close(checked)
			if age := m.Age(); age < least {
				t.Errorf("after a fetch of %v the age is %v", least, age)
			}
		}
		<-checked
	})
}

// A mirror without news answers "maybe".
//
// Promise: a mirror finds every item that was added more than MaxAge before, and without news for
// MaxAge it answers "maybe".
func TestMirrorWithoutNews(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		silent := &cut{Conn: e.Conn}
		_, filters := e.on(silent)
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		m, err := f.Mirror(t.Context(), bloom.MirrorOptions{Every: time.Millisecond, MaxAge: 200 * time.Millisecond})
		must(t, err)
		defer func() { _ = m.Close() }()
		await.Until(t, 30*time.Second, "it vouches", func() bool { return !m.MayContain("x") && m.Err() == nil })
		silent.cut.Store(true)
		await.Until(t, 30*time.Second, "it vouches no more", func() bool { return m.MayContain("x") && m.Err() != nil && m.Age() > 200*time.Millisecond })
		silent.cut.Store(false)
		await.Until(t, 30*time.Second, "it vouches again", func() bool { return !m.MayContain("x") && m.Err() == nil })

		for _, o := range []bloom.MirrorOptions{{Every: -1}, {Every: 2 * time.Hour}, {Every: time.Second, MaxAge: time.Millisecond}} {
			if _, err := f.Mirror(t.Context(), o); err == nil || !strings.Contains(err.Error(), "want") {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}
