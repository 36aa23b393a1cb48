package bloom_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// MayContain finds items that were added, and nearly never others. Add says which items are new.
//
// Promise: an item whose Add returned is found by every process, during and after a rebuild.
func TestAddAndMayContain(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := e.open("f", bloom.Spec{Capacity: 3000, ErrorRate: 0.01})
		in, out := numbered("in", 3000), numbered("out", 3000)
		if n := maybe(t, f, slices.Concat(in, out)...); n != 0 {
			t.Errorf("an empty filter may contain %d items", n)
		}
		if n := add(t, f, in...); n < 2950 {
			t.Errorf("%d of 3000 items are new", n)
		}
		if n := add(t, f, in...); n != 0 {
			t.Errorf("%d items are new again", n)
		}
		all(t, f, in...)
		if n := maybe(t, f, out...); n > 60 {
			t.Errorf("%d of 3000 are false positives, of 30 asked for", n)
		}
		// The same for another process, one by one, with odd items.
		other := e.open("f", bloom.Spec{Capacity: 3000, ErrorRate: 0.01})
		for _, item := range []string{"", "\x00", "ü", strings.Repeat("x", 5000)} {
			isNew, err := f.Add(t.Context(), item)
			must(t, err)
			again, err := other.Add(t.Context(), item)
			must(t, err)
			may, err := other.MayContain(t.Context(), item)
			must(t, err)
			if again || !may {
				t.Errorf("%.10q: new %v, then %v, and then may be in: %v", item, isNew, again, may)
			}
		}
		if n := add(t, f, "twice", "twice", "twice"); n != 1 {
			t.Errorf("an item that comes three times is new %d times", n)
		}
		if n := len(f.ShardKeys()); n != 1 {
			t.Errorf("%d shards for 3,000 items", n)
		}
	})
}

// At an error rate of 0.01 an item takes at most 9.95 bits.
//
// Promise: Up to its capacity, a filter's error rate is at most Spec.ErrorRate.
func TestErrorRate(t *testing.T) {
	for _, c := range []struct {
		n       int64
		rate    float64
		most    float64 // bits an item
		callers int
	}{
		{100_000, 0.01, 9.95, 300_000},
		{50_000, 0.03, 7.5, 200_000},
		{20_000, 0.25, 3, 50_000},
		{20_000, 0.001, 15.6, 100_000},
	} {
		l, err := bloom.NewLocal(bloom.Spec{Capacity: c.n, ErrorRate: c.rate})
		must(t, err)
		for i := range c.n {
			l.Add("in" + strconv.FormatInt(i, 10))
		}
		wrong := 0
		for i := range c.callers {
			if l.MayContain("out" + strconv.Itoa(i)) {
				wrong++
			}
		}
		got := float64(wrong) / float64(c.callers)
		// Three standard deviations of so many calls.
		if slack := 3 * math.Sqrt(c.rate/float64(c.callers)); got > c.rate+slack || got < 0.9*c.rate-slack {
			t.Errorf("%v: the error rate is %.5f", c.rate, got)
		}
		info := l.Stats()
		if bits := float64(info.Bytes*8) / float64(c.n); bits > c.most {
			t.Errorf("%v: %.3f bits an item, want at most %v", c.rate, bits, c.most)
		}
		if math.Abs(info.ErrorRate-got) > 0.05*got+3*math.Sqrt(c.rate/float64(c.callers)) {
			t.Errorf("%v: Info estimates an error rate of %.5f, it is %.5f", c.rate, info.ErrorRate, got)
		}
		if d := math.Abs(float64(info.Items - c.n)); d > 0.01*float64(c.n) {
			t.Errorf("%v: Info estimates %d items, want %d", c.rate, info.Items, c.n)
		}
	}
}

// TestHundredMillion fills a filter on a server with 10^8 items at 3%, in 93 MB, and looks up 10^7
// others. It takes a quarter of an hour.
//
// Promise: Up to its capacity, a filter's error rate is at most Spec.ErrorRate.
func TestHundredMillion(t *testing.T) {
	if os.Getenv("BLOOM") != "full" {
		return // TestErrorRate and the Examples are its short form
	}
	e := newEnv(testenv.New(t, redistest.Backend{Addr: redistest.Start(t).Addr(), Prefix: "t"}))
	const n, step = 100_000_000, 100_000
	f := e.open("f", bloom.Spec{Capacity: n, ErrorRate: 0.03})
	wrong := 0
	for from := 0; from < n; from += step {
		add(t, f, numbered(fmt.Sprint("in", from/step, "-"), step)...)
	}
	for from := 0; from < n/10; from += step {
		all(t, f, numbered(fmt.Sprint("in", from/step, "-"), step)...)
		wrong += maybe(t, f, numbered(fmt.Sprint("out", from/step, "-"), step)...)
	}
	info, err := f.Info(t.Context())
	must(t, err)
	got := float64(wrong) / (n / 10)
	t.Logf("false positives: %.4f%%, bits an item: %.3f, keys: %d, estimated: %+v", 100*got, float64(8*info.Bytes)/n, info.Shards, info)
	if got > 0.03 {
		t.Errorf("the error rate is %v", got)
	}
}

func TestSpecs(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for _, c := range []struct {
			spec bloom.Spec
			want string
		}{
			{bloom.Spec{Capacity: 0, ErrorRate: 0.01}, "capacity is 0; want 1 to 10000000000"},
			{bloom.Spec{Capacity: -1, ErrorRate: 0.01}, "capacity is -1"},
			{bloom.Spec{Capacity: bloom.MaxCapacity + 1, ErrorRate: 0.01}, "capacity is 10000000001"},
			{bloom.Spec{Capacity: 1}, "error rate is 0; want 1e-06 to 0.5"},
			{bloom.Spec{Capacity: 1, ErrorRate: 0.51}, "error rate is 0.51"},
			{bloom.Spec{Capacity: 1, ErrorRate: math.NaN()}, "error rate is NaN"},
			{bloom.Spec{Capacity: 1, ErrorRate: math.Inf(1)}, "error rate is +Inf"},
			{bloom.Spec{Capacity: 0, ErrorRate: 1}, "capacity is 0; want 1 to 10000000000\nbloom: error rate is 1"},
		} {
			if _, err := e.filters.Open(t.Context(), "bad", c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: the error is %v, want %q", c.spec, err, c.want)
			}
			if _, err := bloom.NewLocal(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("local %+v: the error is %v, want %q", c.spec, err, c.want)
			}
		}
		for _, name := range []string{"", "}", strings.Repeat("x", bloom.MaxName+1)} {
			_, err := e.filters.Open(t.Context(), name, bloom.Spec{Capacity: 1, ErrorRate: 0.1})
			is(t, err, redoubt.ErrInvalidName)
		}
		_, err := e.filters.Open(t.Context(), "none", bloom.Spec{})
		is(t, err, bloom.ErrNotFound)
		if n := len(e.Keys()); n != 0 {
			t.Errorf("%d keys were written", n)
		}
		e.open(strings.Repeat("x", bloom.MaxName), bloom.Spec{Capacity: 1, ErrorRate: 0.5})

		f := e.open("f", bloom.Spec{Capacity: 100, ErrorRate: 0.1})
		add(t, f, "a")
		before := len(e.Keys())
		for _, spec := range []bloom.Spec{{Capacity: 101, ErrorRate: 0.1}, {Capacity: 100, ErrorRate: 0.01}} {
			_, err := e.filters.Open(t.Context(), "f", spec)
			is(t, err, bloom.ErrMismatch)
			if !strings.Contains(err.Error(), "it is for 100 items at 0.1, not for "+spec.String()) {
				t.Error(err)
			}
		}
		f = e.open("f", bloom.Spec{})
		if f.Spec() != (bloom.Spec{Capacity: 100, ErrorRate: 0.1}) || maybe(t, f, "a") != 1 || len(e.Keys()) != before {
			t.Error("the filter has changed")
		}
		must(t, e.Redis.Del(t.Context(), f.FilterKey()).Err())
		must(t, e.Redis.Set(t.Context(), f.FilterKey(), "text", 0).Err())
		if _, err := e.filters.Open(t.Context(), "f", bloom.Spec{Capacity: 1, ErrorRate: 0.1}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a filter's key of another type gives %v", err)
		}
	})
}

// Items of a lost shard are found by processes that have the filter open and by processes that open
// it. Items that are added later are found too.
//
// Promise: a lost key or an error makes the answer "maybe" and never "no".
func TestLostKey(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		// Some shards of 2 MiB or more.
		spec := bloom.Spec{Capacity: 7_000_000, ErrorRate: 0.01}
		f := e.open("f", spec)
		items := numbered("in", 300)
		add(t, f, items...)
		keys := f.ShardKeys()
		if len(keys) != 3 {
			t.Fatalf("%d shards", len(keys))
		}
		must(t, e.Redis.Del(t.Context(), keys[1]).Err())
		later := numbered("later", 300)
		add(t, f, later...)
		for _, f := range []*bloom.Filter{f, e.open("f", spec)} {
			all(t, f, items...)
			all(t, f, later...)
			if n := maybe(t, f, numbered("out", 900)...); n < 200 || n > 400 {
				t.Errorf("%d of 900 may be in, want the items of one shard in three", n)
			}
		}
		info, err := f.Info(t.Context())
		must(t, err)
		if info.Lost != 1 || info.Shards != 3 || math.Abs(info.ErrorRate-1.0/3) > 0.01 || math.Abs(float64(info.Items)-600) > 150 {
			t.Errorf("%+v", info)
		}
		if n := e.Redis.Exists(t.Context(), keys[1]).Val(); n != 0 {
			t.Error("the key is back, without what was in it")
		}
		// The description goes too.
		must(t, e.Redis.Del(t.Context(), f.FilterKey()).Err())
		all(t, f, items...)
		for _, k := range keys {
			must(t, e.Redis.Del(t.Context(), k).Err())
		}
		all(t, f, numbered("out", 100)...)
		_, err = f.Add(t.Context(), "x")
		is(t, err, bloom.ErrNotFound)
	})
}

func TestInfo(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := e.open("f", bloom.Spec{Capacity: 10_000, ErrorRate: 0.01})
		info, err := f.Info(t.Context())
		must(t, err)
		if info.FillRatio != 0 || info.Items != 0 || info.ErrorRate != 0 || info.Spec != f.Spec() || info.Shards != 1 || info.Lost != 0 {
			t.Errorf("empty: %+v", info)
		}
		add(t, f, numbered("in", 10_000)...)
		info, err = f.Info(t.Context())
		must(t, err)
		if info.FillRatio < 0.4 || info.FillRatio > 0.5 || math.Abs(float64(info.Items)-10_000) > 300 ||
			info.ErrorRate < 0.008 || info.ErrorRate > 0.012 || info.Bytes*8 > 100_100 {
			t.Errorf("full: %+v", info)
		}
	})
}

func TestDeleteAndList(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 100, ErrorRate: 0.01}
		f := e.open("a", spec)
		e.open("ab", spec)
		e.open("b", spec)
		add(t, f, "x")
		var names []string
		for name, err := range e.filters.List(t.Context(), "a*") {
			must(t, err)
			names = append(names, name)
		}
		slices.Sort(names)
		if fmt.Sprint(names) != "[a ab]" {
			t.Errorf("listed %q", names)
		}
		for name, err := range e.sliding.List(t.Context(), "") {
			t.Errorf("%q, %v is listed as a sliding filter", name, err)
		}
		for _, want := range []bool{true, false} {
			deleted, err := e.filters.Delete(t.Context(), "a")
			must(t, err)
			if deleted != want {
				t.Errorf("deleted: %v, want %v", deleted, want)
			}
		}
		_, err := e.sliding.Open(t.Context(), "s", bloom.SlidingSpec{Window: time.Hour, Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		s, err := e.sliding.Open(t.Context(), "s", bloom.SlidingSpec{})
		must(t, err)
		_, err = s.Add(t.Context(), "x")
		must(t, err)
		names = nil
		for name, err := range e.sliding.List(t.Context(), "") {
			must(t, err)
			names = append(names, name)
		}
		if fmt.Sprint(names) != "[s]" {
			t.Errorf("listed %q", names)
		}
		if deleted, err := e.sliding.Delete(t.Context(), "s"); err != nil || !deleted {
			t.Errorf("the sliding filter is deleted: %v, %v", deleted, err)
		}
		all(t, f, "y") // f does not know of the deletion: maybe
		if n := maybe(t, e.open("a", spec), "x", "y"); n != 0 {
			t.Errorf("the new filter may contain %d items", n)
		}
		for _, name := range []string{"a", "ab", "b"} {
			_, err := e.filters.Delete(t.Context(), name)
			must(t, err)
		}
		if n := len(e.Keys()); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// Promise: when several callers add an item at once, it is new to one of them.
func TestConcurrentAdders(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 100_000, ErrorRate: 0.0001}
		var fresh atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				f, err := e.filters.Open(t.Context(), "f", spec) // which one of them makes
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 100 {
					isNew, err := f.Add(t.Context(), fmt.Sprint(i))
					if err != nil {
						t.Error(err)
					}
					if isNew {
						fresh.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := fresh.Load(); n != 100 {
			t.Errorf("%d were new, want 100", n)
		}
	})
}

// Many items take one round trip, however many shards they are in.
//
// Promise: many items are one round trip to each server.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		counted := &clienttest.Counter{Conn: e.Conn}
		_, filters := e.on(counted)
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 7_000_000, ErrorRate: 0.01})
		must(t, err)
		items := numbered("in", 1000)
		for what, do := range map[string]func() error{
			"AddMany":        func() error { _, err := f.AddMany(t.Context(), items); return err },
			"MayContainMany": func() error { _, err := f.MayContainMany(t.Context(), items); return err },
			"Add":            func() error { _, err := f.Add(t.Context(), "x"); return err },
			"MayContain":     func() error { _, err := f.MayContain(t.Context(), "x"); return err },
		} {
			counted.Trips.Store(0)
			must(t, do())
			if n := counted.Trips.Load(); n != 1 {
				t.Errorf("%s took %d round trips", what, n)
			}
		}
	})
}

// Add is sent once: a repeated Add would say that the item is not new. MayContain is repeated.
func TestAddIsSentOnce(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		adds, looks := 0, 0
		client, filters := e.on(&hooked{Conn: e.Conn, before: func(cmd redoubt.Cmd) {
			switch {
			case cmd.Script != nil && cmd.Script.Name() == "bloom.add":
				if adds++; cmd.Flags&(redoubt.Idempotent|redoubt.ReadOnly) != 0 {
					t.Error("an item may be added twice")
				}
			case cmd.Name == "GETRANGE":
				if looks++; cmd.Flags&redoubt.ReadOnly == 0 {
					t.Error("a look is not a read")
				}
			}
		}})
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		s, err := slidingOn(t, client).Open(t.Context(), "s", bloom.SlidingSpec{Window: time.Hour, Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		add(t, f, "a", "b")
		maybe(t, f, "a", "b")
		_, err = s.Add(t.Context(), "a")
		must(t, err)
		_, err = s.MayContain(t.Context(), "a")
		must(t, err)
		if adds != 2 || looks != 3 {
			t.Errorf("%d adds and %d looks were seen", adds, looks)
		}
	})
}

// With an error MayContain returns true and Add returns false.
//
// Promise: a lost key or an error makes the answer "maybe" and never "no".
func TestMaybeWithAnError(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		broken := &cut{Conn: e.Conn}
		client, filters := e.on(broken)
		f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		s, err := slidingOn(t, client).Open(t.Context(), "s", bloom.SlidingSpec{Window: time.Hour, Capacity: 100, ErrorRate: 0.01})
		must(t, err)
		_, err = s.Add(t.Context(), "a") // makes a period
		must(t, err)
		broken.cut.Store(true)
		for what, ask := range map[string]func(context.Context, string) (bool, error){"the filter": f.MayContain, "the sliding filter": s.MayContain} {
			may, err := ask(t.Context(), "x")
			is(t, err, errCut)
			if !may {
				t.Errorf("%s denies an item it could not ask for", what)
			}
		}
		for what, add := range map[string]func(context.Context, string) (bool, error){"the filter": f.Add, "the sliding filter": s.Add} {
			isNew, err := add(t.Context(), "x")
			is(t, err, redoubt.ErrUnknownOutcome)
			if isNew {
				t.Errorf("%s calls new what it could not add", what)
			}
		}
	})
}

// A process that began long ago to make the filter does not replace a lost key by zeros.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestMakingAFilterTakesItsTime(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 100, ErrorRate: 0.01}
		f := e.open("f", spec)
		must(t, e.Redis.HSet(t.Context(), f.FilterKey(), "ready", "0").Err())
		must(t, e.Redis.Del(t.Context(), f.ShardKeys()[0]).Err())
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		_, filters := e.on(&hooked{Conn: clock, before: func(cmd redoubt.Cmd) {
			if cmd.Script != nil && cmd.Script.Name() == "bloom.make" {
				clock.Advance(11 * time.Minute)
			}
		}})
		if _, err := filters.Open(t.Context(), "f", spec); err == nil || !strings.Contains(err.Error(), "took longer than 10m0s") {
			t.Errorf("the error is %v", err)
		}
		if n := e.Redis.Exists(t.Context(), f.ShardKeys()[0]).Val(); n != 0 {
			t.Error("the key is made anew")
		}
	})
}

// The next Open completes a filter that was made halfway.
//
// Promise: if a process dies while it makes or rebuilds a filter, the filter still works, and no
// leftover keys remain.
func TestOpenGoesOn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		spec := bloom.Spec{Capacity: 7_000_000, ErrorRate: 0.01}
		f := e.open("f", spec)
		must(t, e.Redis.HSet(t.Context(), f.FilterKey(), "ready", "0").Err())
		must(t, e.Redis.Del(t.Context(), f.ShardKeys()[2]).Err())
		f = e.open("f", spec)
		if n := maybe(t, f, numbered("x", 100)...); n != 0 {
			t.Errorf("%d items may be in what was never made", n)
		}
		if got := e.Redis.HGet(t.Context(), f.FilterKey(), "ready").Val(); got != "1" {
			t.Errorf("ready is %q", got)
		}
	})
}

// The shards of one filter are in different slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	filters, err := bloom.New(client, bloom.Options{})
	must(t, err)
	f, err := filters.Open(t.Context(), "f", bloom.Spec{Capacity: 20_000_000, ErrorRate: 0.01})
	must(t, err)
	nodes := map[string]bool{}
	for _, k := range f.ShardKeys() {
		nodes[client.Node(k)] = true
	}
	if len(nodes) < 2 {
		t.Errorf("%d shards are on %d nodes", len(f.ShardKeys()), len(nodes))
	}
	items := numbered("in", 1000)
	add(t, f, items...)
	all(t, f, items...)
	if n := maybe(t, f, numbered("out", 1000)...); n > 5 {
		t.Errorf("%d false positives", n)
	}
	must(t, f.Grow(t.Context(), bloom.Spec{Capacity: 30_000_000, ErrorRate: 0.01}, listed(items), bloom.RebuildOptions{}))
	all(t, f, items...)
	m, err := f.Mirror(t.Context(), bloom.MirrorOptions{MaxAge: time.Minute})
	must(t, err)
	defer func() { _ = m.Close() }()
	for _, i := range items {
		if !m.MayContain(i) {
			t.Fatalf("the mirror denies %s", i)
		}
	}
	s, err := slidingOn(t, client).Open(t.Context(), "s", bloom.SlidingSpec{Window: time.Hour, Capacity: 10_000, ErrorRate: 0.01})
	must(t, err)
	_, err = s.Add(t.Context(), "x")
	must(t, err)
	may, err := s.MayContain(t.Context(), "x")
	must(t, err)
	if !may {
		t.Error("the sliding filter denies x")
	}
}
