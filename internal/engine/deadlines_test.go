package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
)

type placedInt struct{ at int32 }

func (p *placedInt) place() *int32 { return &p.at }

// TestDeadlines sets, changes and removes times at random, over several pieces
// of the heap, and wants the earliest first and everybody in its place.
func TestDeadlines(t *testing.T) {
	const n = 5000
	r := rand.New(rand.NewPCG(1, 2))
	var d deadlines[*placedInt]
	all := make([]*placedInt, n)
	times := map[*placedInt]int64{}
	for i := range all {
		all[i] = &placedInt{-1}
	}
	check := func() {
		t.Helper()
		if d.len() != len(times) {
			t.Fatalf("%d are in the heap, want %d", d.len(), len(times))
		}
		for i := range d.len() {
			x := d.at(i)
			if int(x.v.at) != i || times[x.v] != x.at || i > 0 && d.at((i-1)/2).at > x.at {
				t.Fatalf("member %d of %d: %+v, place %d, parent at %d", i, d.len(), x, x.v.at, d.at(max(0, (i-1)/2)).at)
			}
		}
	}
	for _, grows := range []int{9, 3, 9, 1, 8} { // of ten
		for range 2 * n {
			p := all[r.IntN(n)]
			at := int64(0)
			if r.IntN(10) < grows {
				at = 1 + r.Int64N(1000)
				times[p] = at
			} else {
				delete(times, p)
			}
			d.set(p, at)
		}
		check()
	}
	for last := int64(0); d.len() > 0; {
		x := *d.at(0)
		if x.at < last {
			t.Fatalf("%d comes behind %d", x.at, last)
		}
		last = x.at
		d.set(x.v, 0)
		delete(times, x.v)
		if d.len()%1000 == 0 {
			check()
		}
	}
	if len(d.pieces) > 1 {
		t.Errorf("%d pieces are left", len(d.pieces))
	}
}

// TestNothingIsLeftOfDeadlines gives keys and fields times and takes them away
// in every way, and wants nobody to remember.
func TestNothingIsLeftOfDeadlines(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	s := e.Session()
	left := func() (n int) {
		for i := range e.shards {
			for _, ks := range e.shards[i].dbs {
				if ks != nil {
					n += ks.expiring.len() + ks.fields.len()
				}
			}
		}
		return n
	}
	wide := "HSET {h} wide " + string(make([]byte, 100)) // a large one
	for _, first := range []string{"PING", wide} {
		for _, end := range []string{
			"DEL {h}", "UNLINK {h}", "SET {h} v", "HDEL {h} a b wide", "HPERSIST {h} FIELDS 2 a b", "HSET {h} a 1 b 2", "FLUSHALL", "HGETDEL {h} FIELDS 2 a b",
			"HPEXPIREAT {h} 1 FIELDS 2 a b", "HSETEX {h} FIELDS 2 a 1 b 2", "SUNIONSTORE {h} {none}", "GETSET {h} v", "HGETEX {h} PERSIST FIELDS 2 a b",
		} {
			for range 3 {
				run(s, "DEL {h}")
				run(s, first)
				run(s, "HSETEX {h} EX 1000 FIELDS 1 a 1")
				run(s, "HSETEX {h} EX 2000 FIELDS 1 b 1")
				run(s, "HEXPIRE {h} 3000 FIELDS 1 a")
				run(s, "RENAME {h} {h}2")
				run(s, "COPY {h}2 {h} REPLACE")
				run(s, "DEL {h}2")
				if n := left(); n != 1 {
					t.Fatalf("%.9q: %d are remembered, want 1", first, n)
				}
				run(s, end)
				if n := left(); n > 1 {
					t.Fatalf("after %.9q and %s %d are remembered", first, end, n)
				}
			}
			if !strings.HasPrefix(run(s, "TYPE {h}"), "+string") && run(s, "EXISTS {h}") == ":1\r\n" {
				continue // the sweeper finds out, when the time comes
			}
			if n := left(); n != 0 {
				t.Errorf("after %.9q and %s %d are remembered", first, end, n)
			}
			run(s, "FLUSHALL")
		}
	}
}
