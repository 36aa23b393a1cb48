package scan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/scan"
)

// Promise: A scan yields every key or element that exists from its beginning to its end: while others are
// added and removed, while hash tables grow and shrink, while slots move from node to node, and when a
// server is restarted.
func TestElements(t *testing.T) { each(t, elements) }

// Elements of hashes, sets and sorted sets that are there the whole time are given,
// once, with what belongs to them, while others come and go.
func elements(t *testing.T, e *env) {
	const n = 600
	ctx, s := t.Context(), e.scanner(scan.Options{Count: 10})
	hash, set, zset := e.Prefix+"{e}hash", e.Prefix+"{e}set", e.Prefix+"{e}zset"
	e.pipelined(n, func(p redis.Pipeliner, i int) {
		p.HSet(ctx, hash, fmt.Sprint("f", i), fmt.Sprint("v", i))
		p.SAdd(ctx, set, fmt.Sprint("m", i))
		p.ZAdd(ctx, zset, redis.Z{Score: float64(i) / 8, Member: fmt.Sprint("m", i)})
	})
	others := 0
	resizeTables := func(given int) { // grows them, then shrinks them
		if given%30 != 0 {
			return
		}
		if others++; others%10 != 0 {
			e.pipelined(300, func(p redis.Pipeliner, i int) {
				p.HSet(ctx, hash, fmt.Sprint("other", others, i), "x")
				p.SAdd(ctx, set, fmt.Sprint("other", others, i))
				p.ZAdd(ctx, zset, redis.Z{Score: 1, Member: fmt.Sprint("other", others, i)})
			})
			return
		}
		for o := others - 9; o < others; o++ {
			e.pipelined(300, func(p redis.Pipeliner, i int) {
				p.HDel(ctx, hash, fmt.Sprint("other", o, i))
				p.SRem(ctx, set, fmt.Sprint("other", o, i))
				p.ZRem(ctx, zset, fmt.Sprint("other", o, i))
			})
		}
	}
	q := scan.ElementQuery{Match: "[fm]*"}

	fields, err := s.Hash(hash, q)
	must(t, err)
	got := map[scan.Field]int{}
	for f, err := range fields.All(ctx) {
		must(t, err)
		got[f]++
		resizeTables(len(got))
	}
	set1, err := s.Set(set, q)
	must(t, err)
	members := map[string]int{}
	for m, err := range set1.All(ctx) {
		must(t, err)
		members[m]++
		resizeTables(len(members))
	}
	sorted, err := s.SortedSet(zset, q)
	must(t, err)
	scored := map[scan.Member]int{}
	for m, err := range sorted.All(ctx) {
		must(t, err)
		scored[m]++
		resizeTables(len(scored))
	}
	for i := range n {
		f, m := fmt.Sprint("f", i), fmt.Sprint("m", i)
		if a, b, c := got[scan.Field{f, fmt.Sprint("v", i)}], members[m], scored[scan.Member{m, float64(i) / 8}]; a != 1 || b != 1 || c != 1 {
			t.Fatalf("element %d was given %d, %d and %d times", i, a, b, c)
		}
	}
	if len(got)+len(members)+len(scored) != 3*n {
		t.Errorf("%d, %d and %d elements; want %d each", len(got), len(members), len(scored), n)
	}
}

func TestElementsAtTheEdges(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, s := t.Context(), e.scanner(scan.Options{})
		absent, err := s.Hash(e.Prefix+"none", scan.ElementQuery{})
		must(t, err)
		if got := counted(t, absent); len(got) != 0 {
			t.Errorf("a hash that is not there has %v", got)
		}
		must(t, e.Redis.Set(ctx, e.Prefix+"text", "x", 0).Err())
		text, err := s.Set(e.Prefix+"text", scan.ElementQuery{})
		must(t, err)
		for _, err := range text.All(ctx) {
			if !errors.Is(err, redoubt.ErrWrongType) {
				t.Errorf("the members of a string: %v", err)
			}
		}
		must(t, e.Redis.ZAdd(ctx, e.Prefix+"z", redis.Z{Score: math.Inf(-1), Member: "\x00\xff"}, redis.Z{Score: 1e300, Member: ""}).Err())
		z, err := s.SortedSet(e.Prefix+"z", scan.ElementQuery{})
		must(t, err)
		if got := counted(t, z); len(got) != 2 || got[scan.Member{"\x00\xff", math.Inf(-1)}] != 1 || got[scan.Member{"", 1e300}] != 1 {
			t.Errorf("members are %v", got)
		}
		if p := z.Progress(); p != (scan.Progress{Scanned: 2, Total: 2}) {
			t.Errorf("progress is %+v", p)
		}
	})
}

// A call that is redirected late can reach a node that does not have the key yet.
func TestKeyIsNotThereYet(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 600
		e.pipelined(n, func(p redis.Pipeliner, i int) { p.SAdd(t.Context(), e.Prefix+"set", fmt.Sprint("m", i)) })
		s, err := scan.New(e.on(&strayed{Conn: e.Conn}), scan.Options{Count: 10})
		must(t, err)
		it, err := s.Set(e.Prefix+"set", scan.ElementQuery{})
		must(t, err)
		if given := counted(t, it); len(given) != n {
			t.Errorf("%d members are given, want %d", len(given), n)
		}
	})
}

// A strayed Conn has its fifth script run as if there were no key.
type strayed struct {
	redoubt.Conn
	scripts int
}

func (s *strayed) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if s.scripts++; s.scripts == 5 {
		cmd.Keys = []string{cmd.Keys[0] + "?"}
	}
	return s.Conn.Do(ctx, cmd)
}
