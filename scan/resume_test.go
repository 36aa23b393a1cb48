package scan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/redistest"
	"github.com/redoubt-go/redoubt/scan"
)

func TestResume(t *testing.T) { each(t, resume) }

// Who goes on with a token, with another Scanner as in another process, is given what is
// left, and again at most a page of each server.
func resume(t *testing.T, w *world) {
	const n, count = 2000, 50
	w.fill("k", n)
	given, token, again, loops := map[string]int{}, "", 0, 0
	for more := true; more; loops++ {
		it := w.keys(scan.Options{Count: count}, "k", token)
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
	if servers := 1 + 2*min(1, len(w.addrs())-1); again > loops*servers*(2*count) || loops < 3 {
		t.Errorf("%d keys were given again in %d loops", again, loops)
	}
	if got := counted(t, w.keys(scan.Options{}, "k", token)); len(got) != 0 {
		t.Errorf("after the end, %d keys", len(got))
	}
}

func (w *world) addrs() []string {
	if w.cluster == nil {
		return []string{""}
	}
	return w.cluster.Addrs()
}

func TestResumeElements(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const n = 1000
		key := w.prefix + "set\xff"
		w.pipelined(n, func(p redis.Pipeliner, i int) { p.SAdd(t.Context(), key, fmt.Sprint(i)) })
		given, token := map[string]bool{}, ""
		for more := true; more; {
			it, err := w.scanner(scan.Options{Count: 20}).Set(key, scan.ElementQuery{From: token})
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

// A server that is restarted has another hash: the cursor means nothing to it. What was
// at it is gone over again, in the loop and by a token.
func TestRestartedServer(t *testing.T) {
	const n = 3000
	server := redistest.Start(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	w := newWorld(t, "r", rdb)
	w.fill("k", n)
	must(t, rdb.SAdd(t.Context(), "set", slices.Collect(maps.Keys(numbered(n)))).Err())

	s := w.scanner(scan.Options{Count: 20})
	it := w.keys(scan.Options{Count: 20}, "k", "")
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
	w.mustHave(given, "k", n)

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

	w.mustHave(counted(t, w.keys(scan.Options{}, "k", tokens[0])), "k", n)
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

func TestBadTokens(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.fill("k", 200)
		s := w.scanner(scan.Options{Count: 10})
		it := w.keys(scan.Options{Count: 10}, "k", "")
		for _, err := range it.All(t.Context()) {
			must(t, err)
			break
		}
		good := it.Token()
		query := scan.Query{Match: w.prefix + "k*"}
		for _, token := range []string{
			"0", "scan1", "scan1.", "scan2" + good[5:], good[:len(good)-1], good[:20], good + "x",
			strings.Replace(good, ".", ".A", 1), "scan1.e30.x", "🙂",
		} {
			query.From = token
			_, err := s.Keys(query)
			is(t, err, scan.ErrToken)
			_, err = s.Set("k", scan.ElementQuery{From: token})
			is(t, err, scan.ErrToken)
		}
		for _, q := range []scan.Query{{}, {Match: "other"}, {Match: query.Match, Type: "hash"}} {
			q.From = good
			_, err := s.Keys(q)
			is(t, err, scan.ErrToken)
		}
		_, err := s.Hash("k", scan.ElementQuery{From: good})
		is(t, err, scan.ErrToken)
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
			is(t, err, scan.ErrToken)
		}
		if _, err := s.Set("k", scan.ElementQuery{From: token}); err != nil {
			is(t, err, scan.ErrToken)
		}
	})
}
