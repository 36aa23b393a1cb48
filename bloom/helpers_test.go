package bloom_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end with filters on it.
type env struct {
	*testenv.Env
	filters *bloom.Filters
	sliding *bloom.SlidingFilters
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, newEnv(e)) })
}

func newEnv(on *testenv.Env) *env {
	e := &env{Env: on}
	e.Client, e.filters = e.on(e.Conn)
	e.sliding = slidingOn(e.T, e.Client)
	return e
}

// on returns the filters of another process.
func (e *env) on(conn redoubt.Conn) (*redoubt.Client, *bloom.Filters) {
	client := e.ClientOn(conn)
	filters, err := bloom.New(client, bloom.Options{})
	must(e.T, err)
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
func (e *env) open(name string, spec bloom.Spec) *bloom.Filter {
	e.T.Helper()
	f, err := e.filters.Open(e.T.Context(), name, spec)
	must(e.T, err)
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
