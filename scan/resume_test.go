package scan_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/scan"
)

// Promise: A scan that resumes with a token yields everything that is left, also when slots have moved
// since, a node was replaced or its server restarted.
//
// Promise: A scan that resumes on unchanged nodes repeats at most one page per node, and nothing while the
// servers' tables don't change.
func TestResume(t *testing.T) { each(t, resume) }

// A scan that resumes by a token, with another Scanner as in another process, is given
// what is left, and again at most a page of each server: the tables of servers that other
// tests use grow and shrink meanwhile.
func resume(t *testing.T, e *env) {
	const n, count = 2000, 50
	e.fill("k", n)
	given, token, again, loops := map[string]int{}, "", 0, 0
	for more := true; more; loops++ {
		it := e.keys(scan.Options{Count: count}, "k", token)
		more = false
		seen := 0
		for key, err := range it.All(t.Context()) {
			must(t, err)
			if given[key]++; given[key] > 1 {
				again++
			}
			if seen++; seen >= 333 {
				more = true
				break
			}
		}
		token = it.Token()
	}
	if len(given) != n {
		t.Errorf("%d keys were given; want %d", len(given), n)
	}
	if servers := 1 + 2*min(1, len(e.addrs())-1); again > loops*servers*(2*count) || loops < 3 {
		t.Errorf("%d keys were given again in %d loops", again, loops)
	}
	if got := counted(t, e.keys(scan.Options{}, "k", token)); len(got) != 0 {
		t.Errorf("after the end, %d keys", len(got))
	}
}

// While nothing changes, a scan that resumes repeats nothing, wherever in a page the earlier scan ended,
// though the scans use pages of different sizes.
//
// Promise: A scan that resumes on unchanged nodes repeats at most one page per node, and nothing while the
// servers' tables don't change.
func TestResumeExactly(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		addr := b.Addr
		if b.Server != nil { // that one changes, with the keys of other tests
			addr = redistest.Start(t).Addr()
		}
		e := newEnv(testenv.New(t, redistest.Backend{Prefix: b.Prefix, Addr: addr}))
		const n = 1000
		e.fill("k", n)
		key := func(name string) string { return e.Prefix + "elements-" + name }
		e.pipelined(n, func(p redis.Pipeliner, i int) {
			p.SAdd(t.Context(), key("set"), i)
			p.HSet(t.Context(), key("hash"), i, "x")
			p.ZAdd(t.Context(), key("zset"), redis.Z{Score: float64(i), Member: i})
			if i < 100 {
				p.HSet(t.Context(), key("small"), i, "x")
			}
		})
		for range 2 { // reads move a table that has grown
			e.pipelined(n, func(p redis.Pipeliner, i int) {
				p.Exists(t.Context(), e.key("k", i))
				p.SIsMember(t.Context(), key("set"), i)
				p.HExists(t.Context(), key("hash"), fmt.Sprint(i))
				p.ZScore(t.Context(), key("zset"), fmt.Sprint(i))
			})
		}
		once(t, n, func(count int, from string) (*scan.Iterator[string], error) {
			return e.scanner(scan.Options{Count: count}).Keys(scan.Query{Match: e.Prefix + "k*", From: from})
		})
		once(t, n, func(count int, from string) (*scan.Iterator[string], error) {
			return e.scanner(scan.Options{Count: count}).Set(key("set"), scan.ElementQuery{From: from})
		})
		once(t, n, func(count int, from string) (*scan.Iterator[scan.Member], error) {
			return e.scanner(scan.Options{Count: count}).SortedSet(key("zset"), scan.ElementQuery{From: from})
		})
		once(t, n, func(count int, from string) (*scan.Iterator[scan.Field], error) {
			return e.scanner(scan.Options{Count: count}).Hash(key("hash"), scan.ElementQuery{From: from})
		})
		// All of it is one page.
		once(t, 100, func(count int, from string) (*scan.Iterator[scan.Field], error) {
			return e.scanner(scan.Options{Count: count}).Hash(key("small"), scan.ElementQuery{From: from})
		})
	})
}

// once goes over n items in loops that are left soon, the token taken inside of the loop
// and behind it.
func once[T comparable](t *testing.T, n int, open func(count int, from string) (*scan.Iterator[T], error)) {
	t.Helper()
	given, token, loops := map[T]int{}, "", 0
	for more := true; more && loops <= n; loops++ { // more loops never end
		it, err := open([]int{10, 50, 7}[loops%3], token)
		must(t, err)
		more = false
		seen := 0
		for item, err := range it.All(t.Context()) {
			must(t, err)
			if seen++; seen == 34 {
				more, token = true, it.Token()
				break
			}
			given[item]++
		}
		if more && it.Token() != token {
			t.Errorf("%T: within the loop the token is %s, behind it %s", it, token, it.Token())
		}
	}
	again := 0
	for _, times := range given {
		again += times - 1
	}
	if len(given) != n || again > 0 || loops < n/34 {
		t.Errorf("%T: in %d loops %d items were given, %d of them again; want %d", *new(T), loops, len(given), again, n)
	}
}

// A page that has changed is yielded whole: a new item may stand in the place of one that was yielded.
//
// Promise: A scan that resumes with a token yields everything that is left, also when slots have moved
// since, a node was replaced or its server restarted.
func TestChangedPageIsGivenWhole(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 100
		e.fill("k", n)
		query := scan.Query{Match: e.Prefix + "k*"}
		it, err := e.scanner(scan.Options{Count: n}).Keys(query)
		must(t, err)
		given := map[string]bool{}
		for key, err := range it.All(t.Context()) {
			must(t, err)
			if len(given) == n/4 {
				break
			}
			given[key] = true
		}
		query.From = it.Token()
		s, err := scan.New(e.on(&turning{Conn: e.Conn}), scan.Options{Count: n})
		must(t, err)
		it, err = s.Keys(query)
		must(t, err)
		for key := range counted(t, it) {
			given[key] = true
		}
		if len(given) != n {
			t.Errorf("%d keys were given; want %d", len(given), n)
		}
	})
}

// A turning Conn answers SCAN in another order.
type turning struct{ redoubt.Conn }

func (c *turning) Primaries(context.Context) ([]redoubt.Conn, error) { return []redoubt.Conn{c}, nil }
func (c *turning) Node(string) string                                { return "" }

func (c *turning) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := c.Conn.Pipeline(ctx, cmds)
	if cmds[0].Name == "SCAN" && replies[0].Err == nil {
		slices.Reverse(replies[0].Val.([]any)[1].([]any))
	}
	return replies
}

func (e *env) addrs() []string {
	if e.cluster == nil {
		return []string{""}
	}
	return e.cluster.Addrs()
}

// Promise: A scan that resumes with a token yields everything that is left, also when slots have moved
// since, a node was replaced or its server restarted.
func TestResumeElements(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 1000
		key := e.Prefix + "set\xff"
		e.pipelined(n, func(p redis.Pipeliner, i int) { p.SAdd(t.Context(), key, fmt.Sprint(i)) })
		given, token := map[string]bool{}, ""
		for more := true; more; {
			it, err := e.scanner(scan.Options{Count: 20}).Set(key, scan.ElementQuery{From: token})
			must(t, err)
			more = false
			seen := 0
			for m, err := range it.All(t.Context()) {
				must(t, err)
				given[m] = true
				if seen++; seen > 150 {
					more = true
					break
				}
			}
			token = it.Token()
		}
		if len(given) != n {
			t.Errorf("%d members were given; want %d", len(given), n)
		}
	})
}

// A restarted server has another hash function, so the cursor means nothing to it. The scan of that server
// starts again, in the loop and with a token.
//
// Promise: A scan yields every key or element that exists from its beginning to its end: while others are
// added and removed, while hash tables grow and shrink, while slots move from node to node, and when a
// server is restarted.
//
// Promise: A scan that resumes with a token yields everything that is left, also when slots have moved
// since, a node was replaced or its server restarted.
func TestRestartedServer(t *testing.T) {
	const n = 3000
	server := redistest.Start(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	e := newEnv(testenv.On(t, redistest.Backend{Prefix: "r"}, rdb))
	e.fill("k", n)
	must(t, rdb.SAdd(t.Context(), "set", slices.Collect(maps.Keys(numbered(n)))).Err())

	s := e.scanner(scan.Options{Count: 20})
	it := e.keys(scan.Options{Count: 20}, "k", "")
	members, err := s.Set("set", scan.ElementQuery{})
	must(t, err)
	restart := func() {
		server.Kill()
		server.Restart()
	}
	given, tokens := map[string]int{}, []string{}
	for key, err := range it.All(t.Context()) {
		must(t, err)
		if given[key]++; len(given) == n/2 {
			tokens = append(tokens, it.Token())
			restart()
		}
	}
	e.mustHave(given, "k", n)

	given = map[string]int{}
	for m, err := range members.All(t.Context()) {
		must(t, err)
		if given[m]++; len(given) == n/2 {
			tokens = append(tokens, members.Token())
			restart()
		}
	}
	if len(given) != n {
		t.Errorf("%d members; want %d", len(given), n)
	}

	e.mustHave(counted(t, e.keys(scan.Options{}, "k", tokens[0])), "k", n)
	later, err := s.Set("set", scan.ElementQuery{From: tokens[1]})
	must(t, err)
	if got := counted(t, later); len(got) != n {
		t.Errorf("by a token of the process before, %d members; want all %d", len(got), n)
	}
}

func numbered(n int) map[string]bool {
	m := map[string]bool{}
	for i := range n {
		m[fmt.Sprint(i)] = true
	}
	return m
}

// Promise: A token of another query or of another cluster is refused, and so is a token that was cut off.
func TestBadTokens(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.fill("k", 200)
		s := e.scanner(scan.Options{Count: 10})
		it := e.keys(scan.Options{Count: 10}, "k", "")
		for _, err := range it.All(t.Context()) {
			must(t, err)
			break
		}
		good := it.Token()
		query := scan.Query{Match: e.Prefix + "k*"}
		for _, token := range []string{
			"0", "scan1", "scan1.", "scan2" + good[5:], good[:len(good)-1], good[:20], good + "x",
			strings.Replace(good, ".", ".A", 1), "scan1.e30.x", "🙂",
		} {
			query.From = token
			_, err := s.Keys(query)
			is(t, err, scan.ErrInvalidToken)
			_, err = s.Set("k", scan.ElementQuery{From: token})
			is(t, err, scan.ErrInvalidToken)
		}
		for _, q := range []scan.Query{{}, {Match: "other"}, {Match: query.Match, Type: "hash"}} {
			q.From = good
			_, err := s.Keys(q)
			is(t, err, scan.ErrInvalidToken)
		}
		_, err := s.Hash("k", scan.ElementQuery{From: good})
		is(t, err, scan.ErrInvalidToken)
		query.From = "  " + good + "\n" // as it comes from a file
		_, err = s.Keys(query)
		must(t, err)
	})
}

func FuzzToken(f *testing.F) {
	client := connect()
	s, err := scan.New(client, scan.Options{})
	must(f, err)
	it, err := s.Keys(scan.Query{})
	must(f, err)
	f.Add(it.Token())
	f.Add("scan1.e30.1")
	f.Fuzz(func(t *testing.T, token string) {
		if it, err := s.Keys(scan.Query{From: token}); err == nil {
			_ = it.Token()
		} else {
			is(t, err, scan.ErrInvalidToken)
		}
		if _, err := s.Set("k", scan.ElementQuery{From: token}); err != nil {
			is(t, err, scan.ErrInvalidToken)
		}
	})
}
