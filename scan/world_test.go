package scan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/scan"
)

// world is one back end.
type world struct {
	t      testing.TB
	prefix string
	rdb    redis.UniversalClient // for making keys
	conn   redoubt.Conn
	client *redoubt.Client

	cluster *redistest.Cluster // nil elsewhere
}

// each runs a test on every back end of one server.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		run(t, newWorld(t, b.Prefix, clienttest.Dial(t, b.Addr)))
	})
}

// TestCluster runs the tests of one server on a cluster, and tests for clusters only.
//
// Promise: A scan yields every key or element that exists from its beginning to its end: while others are
// added and removed, while hash tables grow and shrink, while slots move from node to node, and when a
// server is restarted.
//
// Promise: A scan that resumes with a token yields everything that is left, also when slots have moved
// since, a node was replaced or its server restarted.
//
// Promise: Delete and Expire reach every key that their iterator yields, also when they are called again
// after an error, and a dry run changes nothing.
func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, 0)
	for name, run := range map[string]func(t *testing.T, w *world){
		"bulk": bulk, "parallel": parallel, "report": report, "keys": keys, "every key": everyKey, "pages": pages, "context ends": contextEnds, "loop left": loopLeft, "resume": resume,
		"elements": elements, "moving slots": movingSlots, "moving key": movingKey, "resume after a move": resumeAfterMove,
	} {
		t.Run(name, func(t *testing.T) { run(t, onCluster(t, c, strings.ReplaceAll(name, " ", ""))) })
	}
}

// TestPool runs the tests of one server behind a pool of three servers.
//
// Promise: Keys can be scanned through a pool of servers; through a pool in front of a cluster the scan is
// refused.
func TestPool(t *testing.T) {
	addr := doors.Pool(t)
	for name, run := range map[string]func(t *testing.T, w *world){
		"bulk": bulk, "report": report, "keys": keys, "every key": everyKey, "pages": pages,
		"context ends": contextEnds, "loop left": loopLeft, "resume": resume, "elements": elements,
	} {
		t.Run(name, func(t *testing.T) { run(t, newWorld(t, redistest.NewPrefix(), clienttest.Dial(t, addr))) })
	}
}

// A pool in front of a cluster doesn't know which slots are moving, so a scan of keys fails at once and
// names the alternative. The elements of one key can be scanned.
//
// Promise: Keys can be scanned through a pool of servers; through a pool in front of a cluster the scan is
// refused.
func TestClusterPool(t *testing.T) {
	w := newWorld(t, redistest.NewPrefix(), clienttest.Dial(t, doors.ClusterPool(t)))
	for _, err := range w.keys(scan.Options{}, "k", "").All(t.Context()) {
		const want = "scan: the server's INFO has no run_id, so it may be a proxy in front of a cluster, where keys that move would be missed: " +
			"scan what is behind it, like redis-cluster://host:port, or each server"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	elements(t, w)
}

func onCluster(t *testing.T, c *redistest.Cluster, prefix string) *world {
	t.Helper()
	w := newWorld(t, prefix, clienttest.DialCluster(t, c.Addrs()))
	w.cluster = c
	return w
}

func newWorld(t testing.TB, prefix string, rdb redis.UniversalClient) *world {
	t.Helper()
	w := &world{t: t, prefix: prefix, rdb: rdb, conn: clienttest.Wrap(t, rdb)}
	w.client = w.on(w.conn)
	return w
}

func (w *world) on(conn redoubt.Conn) *redoubt.Client {
	w.t.Helper()
	return clienttest.New(w.t, conn, "")
}

func (w *world) scanner(opts scan.Options) *scan.Scanner {
	w.t.Helper()
	s, err := scan.New(w.client, opts)
	must(w.t, err)
	return s
}

// keys returns an iterator over the keys that begin with name.
func (w *world) keys(opts scan.Options, name, from string) *scan.Iterator[string] {
	w.t.Helper()
	it, err := w.scanner(opts).Keys(scan.Query{Match: w.prefix + name + "*", From: from})
	must(w.t, err)
	return it
}

// pipelined does f n times, in pipelines.
func (w *world) pipelined(n int, f func(p redis.Pipeliner, i int)) {
	w.t.Helper()
	for i := 0; i < n; i += 1000 {
		_, err := w.rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for j := i; j < min(n, i+1000); j++ {
				f(p, j)
			}
			return nil
		})
		must(w.t, err)
	}
}

// fill makes n keys that begin with name.
func (w *world) fill(name string, n int) {
	w.t.Helper()
	w.pipelined(n, func(p redis.Pipeliner, i int) { p.Set(w.t.Context(), w.key(name, i), i, 0) })
}

func (w *world) key(name string, i int) string { return fmt.Sprint(w.prefix, name, ":", i) }

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
func (w *world) mustHave(given map[string]int, name string, n int) {
	w.t.Helper()
	missing, twice := 0, 0
	for i := range n {
		switch given[w.key(name, i)] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	if missing+twice > 0 {
		w.t.Errorf("of %d keys %d were not given, %d more than once", n, missing, twice)
	}
}

var must, is = expect.Must, expect.Is
