package bloom_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// After a rebuild the filter has the items of the iterator and no others, also for processes that
// had it open. The keys of the old generation are gone.
//
// Promise: an item whose Add returned is found by every process, during and after a rebuild.
func TestRebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for n := range 2 {
			rebuild(t, e, fmt.Sprint("f", n), n == 1)
		}
	})
}

func rebuild(t *testing.T, e *env, name string, lost bool) {
	spec := bloom.Spec{Capacity: 10_000, ErrorRate: 0.01}
	f, other := e.open(name, spec), e.open(name, spec)
	kept, dropped := numbered("kept", 5000), numbered("dropped", 1000)
	add(t, f, kept...)
	add(t, f, dropped...)
	before := len(e.Keys())
	if lost { // a key that is lost comes back
		must(t, e.Redis.Del(t.Context(), f.ShardKeys()[0]).Err())
		all(t, f, numbered("out", 10)...)
	}
	var reports []bloom.Progress
	must(t, f.Rebuild(t.Context(), func(yield func(string, error) bool) {
		add(t, other, "meanwhile") // other does not know of the rebuild; it adds to both generations, even if a key is lost
		listed(kept)(yield)
	}, bloom.RebuildOptions{Progress: func(p bloom.Progress) { reports = append(reports, p) }}))
	all(t, f, "meanwhile")
	for _, key := range f.ShardKeys() {
		if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("a key of the new generation lasts %v", ttl)
		}
	}
	for _, f := range []*bloom.Filter{f, e.open(name, spec)} {
		all(t, f, kept...)
		if n := maybe(t, f, dropped...); n > 20 {
			t.Errorf("%d of 1000 dropped items may be in", n)
		}
	}
	// A process that does not know of the rebuild adds to the right generation, and looks there.
	add(t, other, "late")
	all(t, f, "late")
	all(t, other, kept...)
	if n := maybe(t, other, dropped...); n > 20 {
		t.Errorf("another process finds %d of 1000 dropped items", n)
	}
	if n := len(e.Keys()); n != before {
		t.Errorf("%d keys, before the rebuild %d", n, before)
	}
	last := reports[len(reports)-1]
	if len(reports) != 3 || reports[0].Items != 2048 || reports[0].Done || !last.Done || last.Items != 5000 || last.Elapsed <= 0 {
		t.Errorf("reported %+v", reports)
	}
}

func TestGrow(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		small, large := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}, bloom.Spec{Capacity: 50_000, ErrorRate: 0.001}
		f, other := e.open("f", small), e.open("f", small)
		items := numbered("in", 1000)
		add(t, f, items...)
		if err := f.Grow(t.Context(), bloom.Spec{Capacity: -1}, listed(nil), bloom.RebuildOptions{}); err == nil {
			t.Error("grown to less than nothing")
		}
		must(t, f.Grow(t.Context(), large, listed(items), bloom.RebuildOptions{}))
		if f.Spec() != large {
			t.Errorf("the spec is %v", f.Spec())
		}
		_, err := e.filters.Open(t.Context(), "f", small)
		is(t, err, bloom.ErrMismatch)
		e.open("f", large)
		add(t, other, "late")
		all(t, f, "late")
		all(t, other, items...)
		if other.Spec() != large {
			t.Errorf("the spec is %v to another process", other.Spec())
		}
	})
}

// Rebuilds follow each other, and some of them fail. Items that are added meanwhile are found all
// the time, and each is new once.
//
// Promise: an item whose Add returned is found by every process, during and after a rebuild.
func TestAddsDuringRebuilds(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 100_000, ErrorRate: 0.0001}
		builder := e.open("f", spec)
		// The source of truth: an item is in it before it is added to the filter.
		var mu sync.Mutex
		var kept []string
		stop := make(chan struct{})
		var adders sync.WaitGroup
		var fresh, missed, count atomic.Int64
		for a := range 4 {
			f := e.open("f", spec)
			reader := e.open("f", spec)
			adders.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					item := fmt.Sprint(a, ":", i)
					mu.Lock()
					kept = append(kept, item)
					mu.Unlock()
					isNew, err := f.Add(t.Context(), item)
					if err != nil {
						t.Error(err)
						return
					}
					if isNew {
						fresh.Add(1)
					}
					count.Add(1)
					if may, err := reader.MayContain(t.Context(), item); err != nil || !may {
						missed.Add(1)
					}
				}
			})
		}
		rebuilds := 0
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) || rebuilds < 6; rebuilds++ {
			err := builder.Rebuild(t.Context(), func(yield func(string, error) bool) {
				mu.Lock()
				now := slices.Clip(kept)
				mu.Unlock()
				for i, item := range now {
					if rebuilds%3 == 1 && i > len(now)/2 {
						yield("", errors.New("broken off"))
						return
					}
					if !yield(item, nil) {
						return
					}
				}
			}, bloom.RebuildOptions{})
			if rebuilds%3 == 1 != (err != nil && strings.Contains(err.Error(), "broken off")) {
				t.Errorf("rebuild %d: %v", rebuilds, err)
			}
		}
		close(stop)
		adders.Wait()
		all(t, builder, kept...)
		if n := missed.Load(); n != 0 {
			t.Errorf("%d of %d were denied after they were added", n, count.Load())
		}
		// At the end of a rebuild the old keys are gone for a moment, and one that the
		// iterator has given already is not new then.
		if n := count.Load() - fresh.Load(); n > int64(rebuilds)*8+10 {
			t.Errorf("%d of %d were not new, in %d rebuilds", n, count.Load(), rebuilds)
		}
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A rebuild whose process is gone blocks the next one for a minute. Then the next one takes over.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestDeadBuilder(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		_, filters := e.on(clock)
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		f, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		add(t, f, "early")
		held, dead := make(chan struct{}), make(chan error)
		ctx, die := context.WithCancel(t.Context())
		silent := &cut{Conn: clock}
		_, silenced := e.on(silent)
		f2, err := silenced.Open(t.Context(), "f", spec)
		must(t, err)
		go func() {
			dead <- f2.Rebuild(ctx, func(yield func(string, error) bool) {
				close(held)
				<-ctx.Done()
				yield("early", nil)
			}, bloom.RebuildOptions{})
		}()
		<-held
		is(t, f.Rebuild(t.Context(), listed(nil), bloom.RebuildOptions{}), bloom.ErrRebuilding)
		info, err := f.Info(t.Context())
		must(t, err)
		if !info.Rebuilding {
			t.Error("Info doesn't tell of the rebuild")
		}
		add(t, f, "meanwhile") // to both
		// It dies: nothing of it reaches the server any more.
		silent.cut.Store(true)
		die()
		if err := <-dead; err == nil {
			t.Error("a rebuild has survived")
		}
		is(t, f.Rebuild(t.Context(), listed(nil), bloom.RebuildOptions{}), bloom.ErrRebuilding)
		add(t, f, "later")
		clock.Advance(61 * time.Second)
		must(t, f.Rebuild(t.Context(), listed([]string{"early", "meanwhile", "later"}), bloom.RebuildOptions{}))
		all(t, f, "early", "meanwhile", "later")
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A process dies before anybody knows of its rebuild. The keys that it made expire.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestDeadBeforeItsRebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		f := e.open("f", spec)
		add(t, f, "in")
		before := e.Keys()
		silent := &cut{Conn: e.Conn, after: "bloom.make"}
		_, silenced := e.on(silent)
		dies, err := silenced.Open(t.Context(), "f", spec)
		must(t, err)
		silent.armed.Store(true)
		if err := dies.Rebuild(t.Context(), listed(nil), bloom.RebuildOptions{}); err == nil {
			t.Error("it has not died")
		}
		after := e.Keys()
		if len(after) != len(before)+1 {
			t.Errorf("it has made %d keys, want 1", len(after)-len(before))
		}
		for _, key := range after {
			ttl := e.Redis.PTTL(t.Context(), key).Val()
			if leftover := !slices.Contains(before, key); leftover != (ttl > 0) || ttl > 10*time.Minute {
				t.Errorf("%s lasts %v; a leftover: %v", key, ttl, leftover)
			}
		}
		must(t, f.Rebuild(t.Context(), listed([]string{"in"}), bloom.RebuildOptions{}))
		all(t, f, "in")
	})
}

// When the process that rebuilds dies after all items are in, other processes complete the rebuild.
// Info changes nothing.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestOthersEndARebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		silent := &cut{Conn: e.Conn, after: "bloom.advance"}
		_, silenced := e.on(silent)
		f, err := silenced.Open(t.Context(), "f", spec)
		must(t, err)
		other := e.open("f", spec)
		add(t, other, "in")
		silent.armed.Store(true)
		if err := f.Rebuild(t.Context(), listed([]string{"in"}), bloom.RebuildOptions{}); err == nil {
			t.Error("it has not died")
		}
		before := e.Redis.HGetAll(t.Context(), f.FilterKey()).Val()
		info, err := other.Info(t.Context())
		must(t, err)
		if info.Lost != 0 || info.Items != 1 || info.Rebuilding {
			t.Errorf("the generation that is filled: %+v", info)
		}
		if after := e.Redis.HGetAll(t.Context(), f.FilterKey()).Val(); before["filled"] != "1" || !maps.Equal(before, after) {
			t.Errorf("Info has made %v of %v", after, before)
		}
		opened := e.open("f", spec)
		all(t, opened, "in")
		add(t, other, "late")
		all(t, opened, "late")
		if n := maybe(t, opened, "out"); n != 0 {
			t.Error("the new generation is not in use")
		}
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// When the keys of the old generation go, the new one is not in use yet. Otherwise a process that
// does not know of the rebuild would look at the old keys and miss new items.
//
// Promise: an item whose Add returned is found by every process, during and after a rebuild.
func TestNobodyMissesTheEndOfARebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		old := e.open("f", spec)
		dropped := false
		_, filters := e.on(&hooked{Conn: e.Conn, before: func(cmd redoubt.Cmd) {
			if cmd.Name == "UNLINK" && !dropped {
				dropped = true
				add(t, e.open("f", spec), "late")
				all(t, old, "late")
			}
		}})
		f, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		must(t, f.Rebuild(t.Context(), listed([]string{"in"}), bloom.RebuildOptions{}))
		all(t, old, "in", "late")
		if !dropped {
			t.Error("the old keys were not deleted")
		}
	})
}

// A process that does not know whether all items are in does not give up the rebuild: others may
// have completed it.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestRebuildOfUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		_, filters := e.on(&hooked{Conn: e.Conn, before: func(redoubt.Cmd) {}, loses: func(cmd redoubt.Cmd) bool {
			return cmd.Script != nil && cmd.Script.Name() == "bloom.advance" && cmd.Args[0] == "filled"
		}})
		f, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		is(t, f.Rebuild(t.Context(), listed([]string{"in"}), bloom.RebuildOptions{}), redoubt.ErrUnknownOutcome)
		opened := e.open("f", spec)
		all(t, opened, "in")
		must(t, opened.Rebuild(t.Context(), listed([]string{"again"}), bloom.RebuildOptions{}))
		all(t, opened, "again")
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A process that was taken for dead and continues gets an error, and does not put in use the
// generation that another fills.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestTakenOverRebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		_, filters := e.on(clock)
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		f, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		slow, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		held, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- slow.Rebuild(t.Context(), func(func(string, error) bool) {
				close(held)
				<-goOn
			}, bloom.RebuildOptions{})
		}()
		<-held
		clock.Advance(61 * time.Second)
		must(t, f.Rebuild(t.Context(), func(yield func(string, error) bool) {
			close(goOn)
			is(t, <-ended, bloom.ErrRebuilding)
			yield("in", nil)
		}, bloom.RebuildOptions{}))
		all(t, e.open("f", spec), "in")
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A rebuild that takes long is not taken for dead.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestLongRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		defer func() { _ = e.Close() }()
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		defer func() { _ = client.Close() }()
		filters, err := bloom.New(client, bloom.Options{})
		must(t, err)
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		must(t, f.Rebuild(t.Context(), func(yield func(string, error) bool) {
			for range 10 {
				await.Advance(time.Minute)
				is(t, f.Rebuild(t.Context(), listed(nil), bloom.RebuildOptions{}), bloom.ErrRebuilding)
			}
			yield("in", nil)
		}, bloom.RebuildOptions{}))
		all(t, f, "in")
	})
}

// A rebuild that begins with a generation that another has just replaced fails.
func TestRebuildBehindAnother(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 1000, ErrorRate: 0.01}
		began := false
		_, filters := e.on(&hooked{Conn: e.Conn, before: func(cmd redoubt.Cmd) {
			if cmd.Script != nil && cmd.Script.Name() == "bloom.begin" && !began {
				began = true
				must(t, e.open("f", spec).Rebuild(t.Context(), listed([]string{"in"}), bloom.RebuildOptions{}))
			}
		}})
		f, err := filters.Open(t.Context(), "f", spec)
		must(t, err)
		is(t, f.Rebuild(t.Context(), listed(nil), bloom.RebuildOptions{}), bloom.ErrRebuilding)
		all(t, e.open("f", spec), "in")
		if n := len(e.Keys()); n != 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A filter that is deleted while it is rebuilt leaves no keys.
func TestDeleteDuringARebuild(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := e.open("f", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
		err := f.Rebuild(t.Context(), func(yield func(string, error) bool) {
			deleted, err := e.filters.Delete(t.Context(), "f")
			must(t, err)
			if !deleted {
				t.Error("it was not there")
			}
			yield("in", nil)
		}, bloom.RebuildOptions{})
		if err == nil || !strings.Contains(err.Error(), "is lost") {
			t.Errorf("the rebuild gives %v", err)
		}
		if n := len(e.Keys()); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
