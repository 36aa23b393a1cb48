package scan_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/scan"
)

func TestKeys(t *testing.T) { each(t, keys) }

func keys(t *testing.T, e *env) {
	ctx := t.Context()
	e.fill("s", 300)
	e.pipelined(50, func(p redis.Pipeliner, i int) { p.HSet(ctx, e.key("h", i), "f", i) })
	all := scan.Query{Match: e.Prefix + "*"}
	for _, c := range []struct {
		q    scan.Query
		want int
	}{
		{all, 350},
		{scan.Query{Match: e.Prefix + "h:*"}, 50},
		{scan.Query{Match: e.Prefix + "?:1"}, 2},
		{scan.Query{Match: all.Match, Type: "hash"}, 50},
		{scan.Query{Match: all.Match, Type: "string"}, 300},
		{scan.Query{Match: all.Match, Type: "zset"}, 0},
		{scan.Query{Match: e.Prefix + "none"}, 0},
	} {
		it, err := e.scanner(scan.Options{Count: 20}).Keys(c.q)
		must(t, err)
		if got := counted(t, it); len(got) != c.want {
			t.Errorf("%+v: %d keys; want %d", c.q, len(got), c.want)
		}
		if p := it.Progress(); p.Scanned != p.Total || p.Total < 350 {
			t.Errorf("%+v: at its end %+v", c.q, p)
		}
		if got := counted(t, it); len(got) != 0 {
			t.Errorf("%+v: after its end %d keys more", c.q, len(got))
		}
	}
}

// A scan yields every key that exists all the time, once, while tables grow to ten times their size and
// shrink again.
//
// Promise: A scan yields every key or element that exists from its beginning to its end: while others are
// added and removed, while hash tables grow and shrink, while slots move from node to node, and when a
// server is restarted.
func TestEveryKeyIsGiven(t *testing.T) { each(t, everyKey) }

func everyKey(t *testing.T, e *env) {
	const n = 1500
	e.fill("stay", n)
	e.fill("go", 12*n)
	it, changes := e.keys(scan.Options{Count: 10}, "stay", ""), changing(t, e, 12*n)
	given := map[string]int{}
	for key, err := range it.All(t.Context()) {
		must(t, err)
		if given[key]++; len(given)%150 == 0 {
			<-changes // others make progress between
		}
	}
	e.mustHave(given, "stay", n)
}

// changing removes n keys, and adds and removes as many again and again. It sends on
// the channel after each part of that.
func changing(t *testing.T, e *env, n int) <-chan struct{} {
	t.Helper()
	changes, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const part = 1500
		for add := false; ; add = !add {
			for i := 0; i < n; i += part {
				_, _ = e.Redis.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					for j := i; j < i+part; j++ {
						if add {
							p.Set(t.Context(), e.key("go", j), j, 0)
						} else {
							p.Unlink(t.Context(), e.key("go", j))
						}
					}
					return nil
				})
				select {
				case changes <- struct{}{}:
				case <-end:
					return
				}
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return changes
}

// A table that shrinks makes SCAN repeat keys. The iterator drops them as long as it remembers them.
//
// Promise: An Iterator yields nothing twice as long as fewer than Options.Remember other items lie between.
func TestNothingIsGivenTwice(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		twice := func(remember int) (n int) {
			const keys = 64
			e.fill("k", keys)
			var replies repeating
			replies.Conn = e.Conn
			s, err := scan.New(e.on(&replies), scan.Options{Count: 10, Remember: remember})
			must(t, err)
			it, err := s.Keys(scan.Query{Match: e.Prefix + "k:*"})
			must(t, err)
			for _, times := range counted(t, it) {
				n += times - 1
			}
			return n
		}
		if n := twice(0); n != 0 {
			t.Errorf("%d keys were given again", n)
		}
		if n := twice(64); n != 0 {
			t.Errorf("with room for all, %d keys were given again", n)
		}
		if n := twice(-1); n < 64 {
			t.Errorf("with nothing remembered, only %d keys were given again", n)
		}
		// The bound: what lies further back comes again.
		if n := twice(5); n < 1 {
			t.Errorf("with little remembered, %d keys were given again; the test can't fail", n)
		}
	})
}

func TestPages(t *testing.T) { each(t, pages) }

func pages(t *testing.T, e *env) {
	e.fill("k", 500)
	it, given := e.keys(scan.Options{Count: 50}, "k", ""), map[string]int{}
	for page, err := range it.Pages(t.Context()) {
		must(t, err)
		if len(page) == 0 {
			t.Error("a page is empty")
		}
		if len(given) == 0 && it.Progress().Scanned == it.Progress().Total {
			t.Errorf("at the first page it is at its end: %+v", it.Progress())
		}
		for _, key := range page {
			given[key]++
		}
	}
	e.mustHave(given, "k", 500)
}

func TestBadInput(t *testing.T) {
	client := connect()
	for _, c := range []struct {
		client *redoubt.Client
		opts   scan.Options
		want   string
	}{
		{nil, scan.Options{}, "client is nil"},
		{client, scan.Options{Count: -1}, "Count is -1; want 1 to 100000"},
		{client, scan.Options{Count: 100_001}, "Count is 100001"},
		{client, scan.Options{Remember: -2}, "Remember is -2; want 1 to 100000000, or -1"},
		{client, scan.Options{Count: -1, Remember: 100_000_001}, "Remember is 100000001"},
	} {
		_, err := scan.New(c.client, c.opts)
		is(t, err, scan.ErrInvalidOption)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.opts, err, c.want)
		}
	}
	s, err := scan.New(client, scan.Options{})
	must(t, err)
	for _, q := range []scan.Query{{Match: "[a"}, {Match: `a\`}, {Type: "hsah"}, {Type: "strings"}, {Match: "[", Type: "x"}} {
		_, err := s.Keys(q)
		is(t, err, scan.ErrInvalidOption)
		if q.Match != "" {
			is(t, err, redoubt.ErrInvalidPattern)
		}
	}
	_, err = s.Hash("k", scan.ElementQuery{Match: "["})
	is(t, err, scan.ErrInvalidOption)
	_, err = s.Keys(scan.Query{Type: "ReJSON-RL"})
	must(t, err)
}

// A loop whose ctx ends yields its error and leaves no goroutine behind.
//
// Promise: A loop ends when its ctx ends, leaves no goroutine behind, and can be continued.
func TestContextEnds(t *testing.T) { each(t, contextEnds) }

func contextEnds(t *testing.T, e *env) {
	e.fill("k", 200)
	it := e.keys(scan.Options{Count: 10}, "k", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := map[string]int{}
	for key, err := range it.All(ctx) {
		if err != nil {
			is(t, err, ctx.Err())
			break
		}
		if given[key]++; len(given) == 30 {
			cancel()
		}
	}
	if ctx.Err() == nil || len(given) >= 200 {
		t.Fatalf("all %d keys came in spite of the end", len(given))
	}
	for key, n := range counted(t, it) { // and it goes on
		given[key] += n
	}
	e.mustHave(given, "k", 200)
}

// After a break the iterator waits for its goroutines, though its ctx goes on.
//
// Promise: A loop ends when its ctx ends, leaves no goroutine behind, and can be continued.
func TestLoopLeft(t *testing.T) { each(t, loopLeft) }

func loopLeft(t *testing.T, e *env) {
	e.fill("k", 200)
	e.pipelined(200, func(p redis.Pipeliner, i int) { p.SAdd(t.Context(), e.key("set", 0), e.key("m", i)) })
	keys := e.keys(scan.Options{Count: 10}, "k", "")
	members, err := e.scanner(scan.Options{Count: 10}).Set(e.key("set", 0), scan.ElementQuery{})
	must(t, err)
	for _, it := range []*scan.Iterator[string]{keys, members} {
		for _, err := range it.All(context.WithoutCancel(t.Context())) {
			must(t, err)
			break
		}
		await.Until(t, 20*time.Second, "the scan's goroutines have ended", func() bool {
			stacks := make([]byte, 4<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			return !bytes.Contains(stacks, []byte("redoubt/scan.(*"))
		})
	}
}

// A repeating Conn answers each SCAN with the keys of the answers before, too.
type repeating struct {
	redoubt.Conn
	given []any
}

func (r *repeating) Primaries(ctx context.Context) ([]redoubt.Conn, error) {
	return []redoubt.Conn{r}, nil
}
func (r *repeating) Node(string) string { return "" }

func (r *repeating) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := r.Conn.Pipeline(ctx, cmds)
	if cmds[0].Name == "SCAN" && replies[0].Err == nil {
		reply := replies[0].Val.([]any)
		r.given = append(r.given, reply[1].([]any)...)
		reply[1] = append([]any{}, r.given...)
	}
	return replies
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
	for name, run := range map[string]func(t *testing.T, e *env){
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
	for name, run := range map[string]func(t *testing.T, e *env){
		"bulk": bulk, "report": report, "keys": keys, "every key": everyKey, "pages": pages,
		"context ends": contextEnds, "loop left": loopLeft, "resume": resume, "elements": elements,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, newEnv(testenv.New(t, redistest.Backend{Prefix: redistest.NewPrefix(), Addr: addr})))
		})
	}
}

// A Ring is refused: each server has keys of its own, and a part of the scan is a server or a range of slots.
func TestRing(t *testing.T) {
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Start(t).Addr(), "b": redistest.Start(t).Addr()}})
	defer func() { _ = rdb.Close() }()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		t.Fatal(err)
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := scanner.Keys(scan.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range keys.All(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "like a Ring") {
			t.Errorf("a scan of a Ring gives the error %v", err)
		}
	}
}

// A pool in front of a cluster doesn't know which slots are moving, so a scan of keys fails at once and
// names the alternative. The elements of one key can be scanned.
//
// Promise: Keys can be scanned through a pool of servers; through a pool in front of a cluster the scan is
// refused.
func TestClusterPool(t *testing.T) {
	e := newEnv(testenv.New(t, redistest.Backend{Prefix: redistest.NewPrefix(), Addr: doors.ClusterPool(t)}))
	for _, err := range e.keys(scan.Options{}, "k", "").All(t.Context()) {
		const want = "scan: the server's INFO has no run_id, so it may be a proxy in front of a cluster, where keys that move would be missed: " +
			"scan what is behind it, like redis-cluster://host:port, or each server"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	elements(t, e)
}
