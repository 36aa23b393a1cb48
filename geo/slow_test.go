package geo_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// A mover is suspended between finding its member and letting it leave. Meanwhile the member moves away and
// comes back, by a mover that dies before it has noted that. The first mover then does not mistake the
// member for the one that it had found.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestSlowMover(t *testing.T) {
	a, b, c := geo.Point{Longitude: 10, Latitude: 10}, geo.Point{Longitude: 10, Latitude: 80}, geo.Point{Longitude: 10, Latitude: -80}
	for name, to := range map[string]geo.Point{"elsewhere": c, "where it was meanwhile": b} {
		t.Run(name, func(t *testing.T) { slowMover(t, a, b, to) })
	}
}

func slowMover(t *testing.T, a, b, to geo.Point) {
	t.Helper()
	for _, after := range []string{"geo.leave", "geo.arrive", "geo.assign"} {
		t.Run(after, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				x := e.index("x", 0)
				_, err := x.Add(t.Context(), "m", a)
				must(t, err)
				slow, err := e.on(hold(t, e.Conn, "geo.leave", func() {
					if ok, err := x.Move(t.Context(), "m", b); !ok || err != nil {
						t.Error(ok, err)
					}
					dying, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: after}, 0).Open(t.Context(), "x")
					must(t, err)
					_, err = dying.Move(t.Context(), "m", a)
					is(t, err, errDied)
				}), 0).Open(t.Context(), "x")
				must(t, err)
				if ok, err := slow.Move(t.Context(), "m", to); !ok || err != nil {
					t.Errorf("moved: %v, %v", ok, err)
				}
				if ok, err := x.Move(t.Context(), "m", b); !ok || err != nil {
					t.Errorf("it is not found any more: %v, %v", ok, err)
				}
				if info, err := x.Info(t.Context()); err != nil || info.Members != 1 {
					t.Errorf("%d members in cells, %v", info.Members, err)
				}
			})
		})
	}
}

// A mover takes a member from one part of a split cell to the other and dies before that is noted.
func TestDeadMoversInASplitCell(t *testing.T) {
	for _, after := range []string{"geo.announce", "geo.leave", "geo.arrive", "geo.assign"} {
		t.Run(after, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				n, names, points := e.halved(t, e.Conn)
				for from, m := range names {
					dying, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: after}, smallCells).Open(t.Context(), "x")
					must(t, err)
					_, err = dying.Move(t.Context(), m, points[1-from])
					is(t, err, errDied)
					e.holds(t, e.Conn, n, m)
				}
			})
		})
	}
}

// halved returns an index of n members that has just been split, the point of one that
// is in each part, and their names. The index of members says of all only that they are
// in the cell that was split.
func (e *env) halved(t *testing.T, conn redoubt.Conn) (n int, names [2]string, points [2]geo.Point) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	splitter, err := e.on(&mortal{Conn: conn, lives: -1, after: "geo.split"}, smallCells).Open(t.Context(), "x")
	must(t, err)
	var members []geo.Member
	for err == nil {
		members = append(members, geo.Member{Name: fmt.Sprint("m", len(members)), Point: about(rng, palermo, 1)})
		_, err = splitter.Add(t.Context(), members[len(members)-1].Name, members[len(members)-1].Point)
	}
	is(t, err, errDied)
	members = members[:len(members)-1]
	x, err := e.on(conn, smallCells).Open(t.Context(), "x")
	must(t, err)
	if info, err := x.Info(t.Context()); err != nil || info.Members != int64(len(members)) || info.Cells != 4 {
		t.Fatalf("%+v, %v; want %d members in 4 cells", info, err, len(members))
	}
	first := x.CellOf(members[0].Name, members[0].Point)
	for _, m := range members {
		part := 0
		if x.CellOf(m.Name, m.Point) != first {
			part = 1
		}
		names[part], points[part] = m.Name, m.Point
	}
	return len(members), names, points
}

// A mover has read the index. Before it asks the parts of a split cell, or between them, its member moves
// from one part to the other. The mover does not mistake that for what the index had said.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestMoveBetweenParts(t *testing.T) {
	for name, c := range map[string]struct {
		dies   string // the mover dies after this script
		before bool   // before any of the parts is asked
	}{
		"before the lookup": {before: true}, "during the lookup": {}, "during the lookup, not noted": {dies: "geo.arrive"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				n, names, points := e.halved(t, e.Conn)
				for from := range names { // one of them is in the part that is asked first
					m, to := names[from], points[1-from]
					meanwhile := func() {
						x, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: c.dies}, smallCells).Open(t.Context(), "x")
						must(t, err)
						if ok, err := x.Move(t.Context(), m, to); (!ok || err != nil) && c.dies == "" {
							t.Error(ok, err)
						}
					}
					var conn redoubt.Conn
					if c.before {
						conn = hold(t, e.Conn, "geo.where", meanwhile)
					} else {
						conn = halt(t, e.Conn, 1, meanwhile)
					}
					slow, err := e.on(conn, smallCells).Open(t.Context(), "x")
					must(t, err)
					if ok, err := slow.Move(t.Context(), m, geo.Point{Latitude: 80}); !ok || err != nil {
						t.Errorf("moved: %v, %v", ok, err)
					}
					e.holds(t, e.Conn, n, m)
				}
			})
		})
	}
}

// A mover dies when its member has arrived at a cell and that is not noted. Then the member moves within the
// cell, and the cell is split so that the member is in another part.
//
// Promise: A process that dies leaves a member at its old place or at its new one, and other processes
// remove everything else that it leaves behind.
func TestSplitBeforeAMoveIsNoted(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 40
		x := e.index("x", smallCells)
		_, err := x.Add(t.Context(), "m", geo.Point{Latitude: 80})
		must(t, err)
		dying, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: "geo.arrive"}, smallCells).Open(t.Context(), "x")
		must(t, err)
		_, err = dying.Move(t.Context(), "m", palermo)
		is(t, err, errDied)
		if ok, err := x.Move(t.Context(), "m", catania); !ok || err != nil {
			t.Fatal(ok, err)
		}
		rng := rand.New(rand.NewPCG(6, 6))
		fill(t, x, numbered(n-1, func(i int) geo.Point {
			return about(rng, []geo.Point{palermo, catania}[i%2], 0.1)
		}))
		if x.CellOf("m", palermo) == x.CellOf("m", catania) {
			t.Fatal("both are in one cell yet")
		}
		e.holds(t, e.Conn, n, "m")
	})
}

// holds checks that a member can be moved, without asking for it again and again, and is
// not in two cells.
func (e *env) holds(t *testing.T, conn redoubt.Conn, n int, m string) {
	t.Helper()
	counter := &clienttest.Counter{Conn: conn}
	x, err := e.on(counter, smallCells).Open(t.Context(), "x")
	must(t, err)
	if ok, err := x.Move(t.Context(), m, geo.Point{Latitude: -80}); !ok || err != nil {
		t.Errorf("it is not found any more: %v, %v", ok, err)
	}
	if trips := counter.Trips.Load(); trips > 40 {
		t.Errorf("it took %d round trips to move it", trips)
	}
	if info, err := x.Info(t.Context()); err != nil || info.Members != int64(n) {
		t.Errorf("%d members in cells, %v; want %d", info.Members, err, n)
	}
}
