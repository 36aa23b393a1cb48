package hll_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// On a cluster the pages are on all nodes, and are still counted together.
//
// Promise: a visitor counts once in a union, on any pages and days and in any slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	v, err := hll.NewWithClock(client, hll.Options{Keep: long}, (&clock{now: noon}).Now)
	must(t, err)
	nodes, pages, keys := map[string]bool{}, []string{}, []string{}
	for p := range 30 {
		pages = append(pages, fmt.Sprint("p", p))
		key, err := client.Key(pages[p], "visitors:2026-11-21")
		must(t, err)
		keys = append(keys, key)
		for d := range 3 {
			for i := range 300 {
				must(t, v.AddAt(pages[p], fmt.Sprint(p*100+d*100+i), noon.AddDate(0, 0, -d)))
			}
		}
	}
	must(t, v.Close())
	got, err := v.Last(t.Context(), 3, pages...)
	must(t, err)
	if want := 3400.0; math.Abs(float64(got.Visitors)/want-1) > 0.03 || got.Views != 27_000 {
		t.Errorf("%+v, want %.0f visitors and 27,000 views", got, want)
	}
	await.Until(t, 30*time.Second, "the nodes are known", func() bool { return client.Node(keys[0]) != "" })
	for _, key := range keys {
		nodes[client.Node(key)] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the pages are on %d nodes", len(nodes))
	}
	n, err := v.CountKeys(t.Context(), keys...)
	must(t, err)
	if want := 3200.0; math.Abs(float64(n)/want-1) > 0.03 {
		t.Errorf("the keys have %d, want %.0f", n, want)
	}
}
