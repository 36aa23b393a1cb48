package bitmap_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Maps are combined into another map and into one of the sources.
//
// Promise: a combination of maps answers as a combination of sets, on a cluster too.
func TestCombineAgreesWithModel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		combineAgrees(t, e.maps(), e.Keys)
		// The same as on a cluster.
		client := e.ClientOn(elsewhere{e.counter})
		ms, err := bitmap.New(client, bitmap.Options{})
		must(t, err)
		combineAgrees(t, ms, e.Keys)
	})
}

// elsewhere is a Conn that says that keys are on nodes.
type elsewhere struct{ redoubt.Conn }

func (elsewhere) Node(string) string { return "a node" }

func (e elsewhere) Primaries(context.Context) ([]redoubt.Conn, error) {
	return []redoubt.Conn{e.Conn}, nil
}

func combineAgrees(t *testing.T, ms *bitmap.Maps, keys func() []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	names := []string{"a", "b", "c"}
	for step := range 40 {
		op := []bitmap.Operation{bitmap.And, bitmap.Or, bitmap.Xor, bitmap.AndNot}[step%4]
		models := map[string]set{"old": {5: true, 7 * shard: true}}
		for _, name := range append(names, "old") {
			if name != "old" {
				models[name] = set{}
				for range rng.IntN(12) {
					models[name][near(rng)] = true
				}
			}
			_, err := ms.Set(t.Context(), name, models[name].sorted()...)
			must(t, err)
		}
		sources := names[:1+rng.IntN(3)]
		want := set{}
		for o := range allOf(models) {
			n, first := 0, models[sources[0]][o]
			for _, s := range sources {
				if models[s][o] {
					n++
				}
			}
			in := map[bitmap.Operation]bool{
				bitmap.And: n == len(sources), bitmap.Or: n > 0, bitmap.Xor: n%2 == 1, bitmap.AndNot: first && n == 1,
			}
			if in[op] {
				want[o] = true
			}
		}
		counted, err := ms.CountOf(t.Context(), op, sources...)
		must(t, err)
		// The result is a new map, a map that had other bits, or one of the sources.
		to := []string{"new", "old", sources[rng.IntN(len(sources))]}[rng.IntN(3)]
		if op == bitmap.Xor && slices.Contains(sources, to) {
			to = "new"
		}
		n, err := ms.Combine(t.Context(), to, op, sources...)
		must(t, err)
		if counted != n || n != int64(len(want)) {
			t.Fatalf("step %d: %v of %v into %s: %d, counted %d, want %d", step, op, sources, to, n, counted, len(want))
		}
		agrees(t, ms, to, want, rng)
		for _, s := range sources {
			if s != to {
				agrees(t, ms, s, models[s], rng)
			}
		}
		for _, name := range append(names, "old", "new") {
			_, err := ms.Delete(t.Context(), name)
			must(t, err)
		}
		if n := len(keys()); n != 0 {
			t.Fatalf("step %d: %d keys are left", step, n)
		}
	}
}

func allOf(models map[string]set) set {
	all := set{}
	for _, m := range models {
		maps.Copy(all, m)
	}
	return all
}

// On a cluster the shards are on all nodes, and maps are still combined.
//
// Promise: a combination of maps answers as a combination of sets, on a cluster too.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	conn, err := goredis.Open(t.Context(), cluster.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	client := clienttest.New(t, conn, "")
	ms, err := bitmap.New(client, bitmap.Options{})
	must(t, err)
	rng, models := rand.New(rand.NewPCG(8, 9)), map[string]set{"a": {}, "b": {}}
	for name, m := range models {
		for range 300 {
			m[uint64(rng.IntN(40))*shard+uint64(rng.IntN(20))] = true
		}
		_, err := ms.Set(t.Context(), name, m.sorted()...)
		must(t, err)
		agrees(t, ms, name, m, rng)
	}
	both := set{}
	for o := range models["a"] {
		if models["b"][o] {
			both[o] = true
		}
	}
	// A client that does not know yet that this is a cluster learns it from the first reply.
	unaware := clienttest.New(t, struct{ redoubt.Conn }{conn}, "")
	for name, client := range map[string]*redoubt.Client{"both": client, "both, too": unaware} {
		ms, err := bitmap.New(client, bitmap.Options{})
		must(t, err)
		n, err := ms.CountOf(t.Context(), bitmap.And, "a", "b")
		must(t, err)
		if n != int64(len(both)) {
			t.Errorf("%d bits are in both, want %d", n, len(both))
		}
		_, err = ms.Combine(t.Context(), name, bitmap.And, "a", "b")
		must(t, err)
		agrees(t, ms, name, both, rng)
	}
	cs, err := bitmap.NewCalendars(client, bitmap.CalendarOptions{})
	must(t, err)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("u", i))
		_, _, err := cs.Mark(t.Context(), names[i], bitmap.Day(i))
		must(t, err)
	}
	all, err := cs.LoadMany(t.Context(), names)
	must(t, err)
	for i, c := range all {
		if !c.Marked(bitmap.Day(i)) || c.Total() != 1 {
			t.Errorf("calendar %d has %d marks", i, c.Total())
		}
	}
	nodes := map[string]bool{}
	await.Until(t, 30*time.Second, "the nodes are known", func() bool { return client.Node("a") != "" })
	for n := range 40 {
		key, err := client.Key(fmt.Sprint("a:", n), "bits")
		must(t, err)
		nodes[client.Node(key)] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the shards are on %d nodes", len(nodes))
	}
}
