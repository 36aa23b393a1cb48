package ttlhash_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// Hashes in all slots of a cluster whose nodes have clocks of their own.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	h, err := ttlhash.New(client, ttlhash.Options{Events: true})
	must(t, err)
	ctx := t.Context()
	var names []string
	for i := range 20 {
		name := fmt.Sprint("h", i)
		names = append(names, name)
		must(t, h.Set(ctx, name, "stays", name, time.Hour))
		must(t, h.Set(ctx, name, "goes", name, 50*time.Millisecond))
	}
	var listed []string
	for name, err := range h.List(ctx, "") {
		must(t, err)
		listed = append(listed, name)
	}
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(names, listed) {
		t.Errorf("listed: %v", listed)
	}
	for _, name := range names {
		for e, err := range h.Expired(ctx, name, "0") {
			must(t, err)
			if e.Field != "goes" || e.Value != name {
				t.Errorf("%s: %+v", name, e)
			}
			break
		}
		await.Until(t, time.Minute, "the reader knows", func() bool {
			_, ok, err := h.Get(ctx, name, "goes")
			must(t, err)
			return !ok
		})
		if v, ok, err := h.Get(ctx, name, "stays"); v != name || !ok || err != nil {
			t.Errorf("%s: %q %v %v", name, v, ok, err)
		}
	}
}
