package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestPoolFragments: commands with many keys, spread over three servers, answer as
// one server does.
//
// Promise: A command with keys of several servers of a pool is split, and the replies are joined.
func TestPoolFragments(t *testing.T) { poolFragments(t, startPool(t, 3)) }

func poolFragments(t *testing.T, p *poolOf) {
	one := dial(t, redistest.Start(t).Addr())
	pool := dial(t, p.addr)
	seed := uint64(1)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		name := []string{"MGET", "MSET", "DEL", "UNLINK", "TOUCH", "EXISTS"}[rnd.IntN(6)]
		args := []string{name}
		for range 1 + rnd.IntN(12) {
			args = append(args, fmt.Sprintf("k%d", rnd.IntN(30)))
			if name == "MSET" {
				args = append(args, fmt.Sprintf("v%d\r\n", rnd.IntN(1000)))
			}
		}
		if got, want := pool.do(args...), one.do(args...); got != want {
			t.Fatalf("%q: %q, want %q", args, got, want)
		}
	}
	for _, command := range []string{"MGET", "MSET a 1 b", "DEL", "MSET", "EXISTS"} {
		args := strings.Fields(command)
		if got, want := pool.do(args...), one.do(args...); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	// In RESP3 a missing value is another null.
	_ = pool.do("HELLO", "3")
	_ = one.do("HELLO", "3")
	if got, want := pool.do("MGET", "no", "k1", "nor", "k2"), one.do("MGET", "no", "k1", "nor", "k2"); got != want {
		t.Errorf("RESP3: %q, want %q", got, want)
	}
}

// TestPoolFragmentsInOrder: joined replies stand between the others in the order
// of the commands.
func TestPoolFragmentsInOrder(t *testing.T) { poolFragmentsInOrder(t, startPool(t, 3)) }

func poolFragmentsInOrder(t *testing.T, p *poolOf) {
	w := dial(t, p.addr)
	const n = 200
	for i := range n {
		a, b, c := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i)
		w.send("MSET", a, a, b, b, c, c)
		w.send("GET", a)
		w.send("MGET", c, b, a)
		w.send("DEL", a, b, "none", c)
	}
	for i := range n {
		a, b, c := bulk(fmt.Sprintf("a%d", i)), bulk(fmt.Sprintf("b%d", i)), bulk(fmt.Sprintf("c%d", i))
		w.expect("+OK\r\n")
		w.expect(a)
		w.expect(array(c, b, a))
		w.expect(":3\r\n")
	}
}

// TestPoolFragmentFails: the error of one server is the reply.
func TestPoolFragmentFails(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	w.want("+OK\r\n", "MSET a 1 b 2")
	if got := w.do("MSETNX", "a", "1", "b", "2"); !strings.HasPrefix(got, "-CROSSSLOT redoubt: the keys of MSETNX belong to several servers") {
		t.Errorf("MSETNX: %q", got)
	}
	w.want(":1\r\n", "MSETNX x 1")
	p.nodes[1].CLI("CONFIG", "SET", "maxmemory", "1")
	if got := w.do("MSET", "a", "3", "b", "3"); !strings.HasPrefix(got, "-OOM") {
		t.Errorf("MSET: %q", got)
	}
	w.want("$1\r\n3\r\n", "GET a")
	p.nodes[1].Kill()
	eventually(t, "the loss shows", func() bool {
		return strings.HasPrefix(w.do("MGET", "a", "b"), "-ERR redoubt: back end redis-2 is unreachable")
	})
	w.want(array(bulk("3"), "$-1\r\n"), "MGET a nothing-at-c")
}

// TestPoolEverywhere: what concerns all keys goes to all servers, and SCAN finds each
// key once.
func TestPoolEverywhere(t *testing.T) {
	p := startPool(t, 3)
	poolEverywhere(t, p)
	rdb := p.client(t)
	p.nodes[1].Kill()
	eventually(t, "the loss shows", func() bool {
		err := rdb.DBSize(t.Context()).Err()
		return err != nil && strings.Contains(err.Error(), "redis-2")
	})
}

func poolEverywhere(t *testing.T, p *poolOf) {
	rdb := p.client(t)
	const n = 500
	for i := range n {
		if err := rdb.Set(t.Context(), fmt.Sprintf("k%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := rdb.DBSize(t.Context()).Val(); got != n {
		t.Errorf("DBSIZE: %d", got)
	}
	if got := rdb.Keys(t.Context(), "k*").Val(); len(got) != n {
		t.Errorf("KEYS: %d", len(got))
	}
	seen := map[string]int{}
	for it := rdb.Scan(t.Context(), 0, "k*", 20).Iterator(); it.Next(t.Context()); {
		seen[it.Val()]++
	}
	if len(seen) != n {
		t.Errorf("SCAN found %d keys", len(seen))
	}
	if got := dial(t, p.addr).do("SCAN", "x"); got != "-ERR invalid cursor\r\n" {
		t.Errorf("SCAN x: %q", got)
	}
	sha, err := rdb.ScriptLoad(t.Context(), "return KEYS[1]").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		k := fmt.Sprintf("k%d", i)
		if got, err := rdb.EvalSha(t.Context(), sha, []string{k}).Text(); got != k || err != nil {
			t.Errorf("EVALSHA: %q, %v", got, err)
		}
	}
	if got := p.nodes[2].CLI("SCRIPT", "FLUSH"); got != "OK" {
		t.Fatal(got)
	}
	if got := rdb.ScriptExists(t.Context(), sha).Val(); len(got) != 1 || got[0] {
		t.Errorf("SCRIPT EXISTS, with one server that doesn't know it: %v", got)
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil || rdb.DBSize(t.Context()).Val() != 0 {
		t.Errorf("after FLUSHALL, %v, there are %d keys", err, rdb.DBSize(t.Context()).Val())
	}
}
