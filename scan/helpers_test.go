package scan_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/scan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end.
type env struct {
	*testenv.Env
	cluster *redistest.Cluster // nil elsewhere
}

// each runs a test on every back end of one server.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachServer(t, func(t *testing.T, e *testenv.Env) { run(t, newEnv(e)) })
}

func onCluster(t *testing.T, c *redistest.Cluster, prefix string) *env {
	t.Helper()
	e := newEnv(testenv.On(t, redistest.Backend{Prefix: prefix}, clienttest.DialCluster(t, c.Addrs())))
	e.cluster = c
	return e
}

// newEnv gives an Env a Client with the default prefix: Prefix begins keys that the Client doesn't own.
func newEnv(on *testenv.Env) *env {
	e := &env{Env: on}
	e.Client = e.on(e.Conn)
	return e
}

func (e *env) on(conn redoubt.Conn) *redoubt.Client {
	e.T.Helper()
	return clienttest.New(e.T, conn, "")
}

func (e *env) scanner(opts scan.Options) *scan.Scanner {
	e.T.Helper()
	s, err := scan.New(e.Client, opts)
	must(e.T, err)
	return s
}

// keys returns an iterator over the keys that begin with name.
func (e *env) keys(opts scan.Options, name, from string) *scan.Iterator[string] {
	e.T.Helper()
	it, err := e.scanner(opts).Keys(scan.Query{Match: e.Prefix + name + "*", From: from})
	must(e.T, err)
	return it
}

// pipelined does f n times, in pipelines.
func (e *env) pipelined(n int, f func(p redis.Pipeliner, i int)) {
	e.T.Helper()
	for i := 0; i < n; i += 1000 {
		_, err := e.Redis.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for j := i; j < min(n, i+1000); j++ {
				f(p, j)
			}
			return nil
		})
		must(e.T, err)
	}
}

// fill makes n keys that begin with name.
func (e *env) fill(name string, n int) {
	e.T.Helper()
	e.pipelined(n, func(p redis.Pipeliner, i int) { p.Set(e.T.Context(), e.key(name, i), i, 0) })
}

func (e *env) key(name string, i int) string { return fmt.Sprint(e.Prefix, name, ":", i) }

// counted counts how often each was given.
func counted[T comparable](t testing.TB, it *scan.Iterator[T]) map[T]int {
	t.Helper()
	n := map[T]int{}
	for item, err := range it.All(t.Context()) {
		must(t, err)
		n[item]++
	}
	return n
}

// mustHave wants n numbered keys to be given, each once.
func (e *env) mustHave(given map[string]int, name string, n int) {
	e.T.Helper()
	missing, twice := 0, 0
	for i := range n {
		switch given[e.key(name, i)] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	if missing+twice > 0 {
		e.T.Errorf("of %d keys %d were not given, %d more than once", n, missing, twice)
	}
}

var must, is = expect.Must, expect.Is
