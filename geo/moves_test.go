package geo_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/geo"

	"github.com/anishathalye/porcupine"

	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
)

// smallCells makes cells full with some 15 members.
const smallCells = 1500

// full reports whether the long tests are to run: GEO_FAULTS=full.
func full() bool { return os.Getenv("GEO_FAULTS") == "full" }

// fill adds members, few at a time, so that cells are split.
func fill(t *testing.T, x *geo.Index, members []geo.Member) {
	t.Helper()
	for some := range slices.Chunk(members, 5) {
		_, err := x.AddMany(t.Context(), some)
		must(t, err)
	}
}

// While members move from cell to cell, cells are split and movers die, a query of the whole area finds
// every member. In the end each member is in one cell. GEO_FAULTS=full go test -run TestMovesAreSeenOnce
// -timeout 60m ./geo makes 100,000 moves on each back end, instead of 300.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestMovesAreSeenOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const n = 100
		goal := int64(300)
		if full() {
			goal = 100_000
		}
		rng := rand.New(rand.NewPCG(1, 1))
		spot := func(rng *rand.Rand) geo.Point { return about(rng, palermo, 0.5) }
		setup := e.index("taxis", smallCells)
		fill(t, setup, numbered(n, func(int) geo.Point { return spot(rng) }))

		var moves, deaths, queries atomic.Int64
		var movers, readers sync.WaitGroup
		for m := range 16 {
			rng := rand.New(rand.NewPCG(7, uint64(m)))
			movers.Go(func() {
				var conn *mortal
				var x *geo.Index
				for (moves.Load() < goal || queries.Load() < 10) && !t.Failed() {
					if conn == nil || conn.died() { // the next process
						conn = &mortal{Conn: e.Conn, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), lives: 1 + rng.IntN(150)}
						var err error
						if x, err = e.on(conn, smallCells).Open(t.Context(), "taxis"); err != nil {
							t.Error(err)
							return
						}
					}
					moved, err := x.Move(t.Context(), fmt.Sprint("m", rng.IntN(n)), spot(rng))
					switch {
					case conn.died():
						deaths.Add(1)
					case err != nil || !moved:
						t.Errorf("moved: %v, %v", moved, err)
						return
					}
					moves.Add(1)
				}
			})
		}
		stop := make(chan struct{})
		for range 2 {
			x := e.index("taxis", smallCells)
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					found, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: 200 * geo.Kilometre})
					if err != nil || len(found) != n {
						t.Errorf("%d members found of %d, %v", len(found), n, err)
						return
					}
					queries.Add(1)
				}
			})
		}
		movers.Wait()
		close(stop)
		readers.Wait()
		t.Logf("%d moves, %d deaths, %d queries, %d cells", moves.Load(), deaths.Load(), queries.Load(), setup.Cells())
		if deaths.Load() < goal/200 {
			t.Error("too few have died to show anything")
		}
		// Steps that were begun are ended, and then each member is in one cell.
		for i := range n {
			_, err := setup.Add(t.Context(), fmt.Sprint("m", i), spot(rng))
			must(t, err)
		}
		if info, err := setup.Info(t.Context()); err != nil || info.Members != n {
			t.Errorf("%d members in cells, %v", info.Members, err)
		}
	})
}

// An operation changes a member or queries it.
type operation struct {
	kind string // add, move, remove, query
	to   geo.Point
	in   func(geo.Point) bool // the area of a query
}

// An outcome is the result of an operation.
type outcome struct {
	at      *geo.Point // where a query found the member
	ok      bool       // add: it was new; otherwise: it was in the index
	unknown bool       // its process has died
}

// register is one member: where it is, or nil.
var register = porcupine.Model{
	Init: func() any { return (*geo.Point)(nil) },
	Equal: func(a, b any) bool {
		p, q := a.(*geo.Point), b.(*geo.Point)
		return p == q || p != nil && q != nil && *p == *q
	},
	Step: func(state, input, output any) (bool, any) {
		at, a, s := state.(*geo.Point), input.(operation), output.(outcome)
		switch a.kind {
		case "add":
			return s.unknown || s.ok == (at == nil), &a.to
		case "move":
			if at == nil {
				return s.unknown || !s.ok, at
			}
			return s.unknown || s.ok, &a.to
		case "remove":
			return s.unknown || s.ok == (at != nil), (*geo.Point)(nil)
		}
		if s.at != nil {
			return at != nil && *at == *s.at, at
		}
		return at == nil || !a.in(*at), at
	},
}

// Processes that may die add, move and remove members, while other processes query both halves of the area
// and look members up. One order explains all results.
//
// Promise: All changes of one member, and the queries that find it, have one order that explains every
// result.
func TestHistory(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		rounds := 3
		if full() {
			rounds = 1000
		}
		for round := range rounds {
			if history(t, e, fmt.Sprint("h", round), uint64(round)); t.Failed() {
				return
			}
		}
	})
}

func history(t *testing.T, e *env, name string, seed uint64) {
	const members = 4
	began := time.Now()
	var mu sync.Mutex
	ops := make([][]porcupine.Operation, members)
	note := func(client, member int, a operation, s outcome, from time.Duration) {
		to := time.Since(began)
		if s.unknown {
			to = time.Hour // it may take effect at any time
		}
		mu.Lock()
		defer mu.Unlock()
		ops[member] = append(ops[member], porcupine.Operation{ClientId: client, Input: a, Output: s, Call: int64(from), Return: int64(to)})
	}
	// Others are there, so that there are many cells.
	rng := rand.New(rand.NewPCG(seed, 99))
	spot := func(rng *rand.Rand) geo.Point { return geo.Kept(about(rng, palermo, 0.5)) }
	setup := e.index(name, smallCells)
	var others []geo.Member
	for i := range 60 {
		others = append(others, geo.Member{Name: fmt.Sprint("other", i), Point: spot(rng)})
	}
	fill(t, setup, others)

	var movers, readers sync.WaitGroup
	deaths := atomic.Int64{}
	for c := range 3 {
		rng := rand.New(rand.NewPCG(seed, uint64(c)))
		movers.Go(func() {
			var conn *mortal
			var x *geo.Index
			for range 40 {
				if conn == nil || conn.died() {
					lives := 20 + rng.IntN(150)
					if deaths.Load() > 6 { // or there is too much that may have happened at any time
						lives = -1
					}
					conn = &mortal{Conn: e.Conn, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), lives: lives}
					x, _ = e.on(conn, smallCells).Open(t.Context(), name)
				}
				m := rng.IntN(members)
				a := operation{kind: []string{"add", "move", "move", "move", "remove"}[rng.IntN(5)], to: spot(rng)}
				from := time.Since(began)
				var s outcome
				var err error
				switch a.kind {
				case "add":
					s.ok, err = x.Add(t.Context(), fmt.Sprint("m", m), a.to)
				case "move":
					s.ok, err = x.Move(t.Context(), fmt.Sprint("m", m), a.to)
				case "remove":
					var n int
					n, err = x.Remove(t.Context(), fmt.Sprint("m", m))
					s.ok = n == 1
				}
				if s.unknown = conn.died(); s.unknown {
					deaths.Add(1)
				} else if err != nil {
					t.Error(err)
					return
				}
				note(c, m, a, s, from)
			}
		})
	}
	stop := make(chan struct{})
	globe := func(geo.Point) bool { return true }
	for c := range 2 {
		rng := rand.New(rand.NewPCG(seed, uint64(10+c)))
		x := e.index(name, smallCells)
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					if n > 20 {
						return
					}
				default:
				}
				from := time.Since(began)
				if rng.IntN(3) == 0 {
					m := rng.IntN(members)
					p, ok, err := x.Pos(t.Context(), fmt.Sprint("m", m))
					if err != nil {
						t.Error(err)
						return
					}
					s := outcome{}
					if ok {
						s.at = &p
					}
					note(10+c, m, operation{kind: "query", in: globe}, s, from)
					continue
				}
				// A box that is the west of the area, the east, or all of it.
				q := geo.Query{From: palermo, Width: 300 * geo.Kilometre, Height: 300 * geo.Kilometre}
				q.From.Longitude += float64(rng.IntN(3)-1) * 1.7
				found, err := x.Near(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				in := func(p geo.Point) bool {
					up := geo.Point{Longitude: q.From.Longitude, Latitude: p.Latitude}
					return q.From.To(up) <= q.Height/2 && up.To(p) <= q.Width/2
				}
				for m := range members {
					var s outcome
					for _, f := range found {
						if f.Member == fmt.Sprint("m", m) {
							s.at = &f.Point
						}
					}
					note(10+c, m, operation{kind: "query", in: in}, s, from)
				}
				for _, o := range others {
					for _, f := range found {
						if f.Member == o.Name && f.Point != o.Point {
							t.Errorf("%s is at %v, want %v", o.Name, f.Point, o.Point)
						}
					}
				}
			}
		})
	}
	movers.Wait()
	close(stop)
	readers.Wait()
	for m := range ops {
		if r := porcupine.CheckOperationsTimeout(register, ops[m], time.Minute); r != porcupine.Ok {
			t.Errorf("%s: the history of m%d, %d operations, is %v", name, m, len(ops[m]), r)
		}
	}
}

// A mover that dies leaves its member at the old place or at the new one. Other processes complete its step.
//
// Promise: A process that dies leaves a member at its old place or at its new one, and other processes
// remove everything else that it leaves behind.
func TestDeadMovers(t *testing.T) {
	from, to := geo.Point{Longitude: 10, Latitude: 10}, geo.Point{Longitude: 10, Latitude: 80}
	for _, step := range []struct {
		after string // the script after which it dies
		moved bool
	}{
		{"geo.put", false}, {"geo.announce", false}, {"geo.leave", true}, {"geo.arrive", true}, {"geo.assign", true}, {"geo.close", true},
	} {
		t.Run(step.after, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
				x, err := e.on(clock, 0).Open(t.Context(), "x")
				must(t, err)
				_, err = x.Add(t.Context(), "m", from)
				must(t, err)
				dying, err := e.on(&mortal{Conn: clock, lives: -1, after: step.after}, 0).Open(t.Context(), "x")
				must(t, err)
				_, err = dying.Move(t.Context(), "m", to)
				is(t, err, errDied)
				check := func() {
					t.Helper()
					seen := map[geo.Point]int{}
					for _, p := range []geo.Point{from, to} {
						found, err := x.Near(t.Context(), geo.Query{From: p, Radius: geo.Kilometre})
						must(t, err)
						seen[p] = len(found)
					}
					if moved := seen[to] == 1; moved != step.moved || seen[from]+seen[to] != 1 {
						t.Errorf("at the old place %d, at the new one %d", seen[from], seen[to])
					}
				}
				check()
				clock.Advance(31 * time.Second)
				check()
				if n := e.left(t); n != 0 {
					t.Errorf("%d keys of the step are left", n)
				}
				check()
				p, ok, err := x.Pos(t.Context(), "m")
				must(t, err)
				if want := map[bool]geo.Point{false: from, true: to}[step.moved]; !ok || p.To(want) > geo.Metre {
					t.Errorf("it is at %v, %v", p, ok)
				}
				if moved, err := x.Move(t.Context(), "m", from); !moved || err != nil {
					t.Error("it can't be moved any more", err)
				}
			})
		})
	}
}

// A query has read the destination of a member. Then the member moves there, as far as its mover gets. The
// query finds it once.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestMoveDuringQuery(t *testing.T) {
	from, to := geo.Point{Longitude: 10, Latitude: 80}, geo.Point{Longitude: 10, Latitude: 10}
	for _, after := range []string{"geo.announce", "geo.leave", "geo.arrive", "geo.assign", "geo.close"} {
		t.Run(after, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				_, err := e.index("x", 0).Add(t.Context(), "m", from)
				must(t, err)
				// The cell that is asked first is where it goes to.
				reader, err := e.on(halt(t, e.Conn, 1, func() {
					dying, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: after}, 0).Open(t.Context(), "x")
					must(t, err)
					_, err = dying.Move(t.Context(), "m", to)
					is(t, err, errDied)
				}), 0).Open(t.Context(), "x")
				must(t, err)
				found, err := reader.Near(t.Context(), geo.Query{From: to, Radius: 8000 * geo.Kilometre})
				must(t, err)
				if len(found) != 1 {
					t.Errorf("found %v", found)
				}
			})
		})
	}
}
