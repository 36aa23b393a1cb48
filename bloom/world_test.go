package bloom_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// world is one back end with filters on it.
type world struct {
	redistest.Backend
	t       testing.TB
	rdb     *redis.Client // for looking at keys
	conn    redoubt.Conn
	client  *redoubt.Client
	filters *bloom.Filters
	sliding *bloom.SlidingFilters
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

func newWorld(t testing.TB, b redistest.Backend) *world {
	w := &world{Backend: b, t: t, rdb: clienttest.Dial(t, b.Addr)}
	w.conn = clienttest.Wrap(t, w.rdb)
	w.client, w.filters = w.on(w.conn)
	w.sliding = slidingOn(t, w.client)
	return w
}

// on returns the filters of another process.
func (w *world) on(conn redoubt.Conn) (*redoubt.Client, *bloom.Filters) {
	client := clienttest.New(w.t, conn, w.Prefix)
	filters, err := bloom.New(client, bloom.Options{})
	must(w.t, err)
	return client, filters
}

// slidingOn returns the sliding filters of another process.
func slidingOn(t testing.TB, client *redoubt.Client) *bloom.SlidingFilters {
	t.Helper()
	filters, err := bloom.NewSliding(client, bloom.SlidingOptions{})
	must(t, err)
	return filters
}

// open opens a filter as another process would: nothing is known of it.
func (w *world) open(name string, spec bloom.Spec) *bloom.Filter {
	w.t.Helper()
	f, err := w.filters.Open(w.t.Context(), name, spec)
	must(w.t, err)
	return f
}

var must, is = expect.Must, expect.Is

// numbered returns n items.
func numbered(what string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint(what, i)
	}
	return items
}

// add adds items, and returns how many were new.
func add(t testing.TB, f *bloom.Filter, items ...string) (fresh int) {
	t.Helper()
	areNew, err := f.AddMany(t.Context(), items)
	must(t, err)
	for _, n := range areNew {
		if n {
			fresh++
		}
	}
	return fresh
}

// maybe counts for how many items the answer is not a certain no.
func maybe(t testing.TB, f *bloom.Filter, items ...string) (n int) {
	t.Helper()
	may, err := f.MayContainMany(t.Context(), items)
	must(t, err)
	for _, m := range may {
		if m {
			n++
		}
	}
	return n
}

// all fails the test unless every item may be in f.
func all(t testing.TB, f *bloom.Filter, items ...string) {
	t.Helper()
	if n := maybe(t, f, items...); n != len(items) {
		t.Fatalf("%d of %d items are denied", len(items)-n, len(items))
	}
}

// keysOf counts the keys of the test.
func (w *world) keysOf(t testing.TB) int {
	t.Helper()
	return len(clienttest.Keys(t, w.rdb, w.Prefix))
}
