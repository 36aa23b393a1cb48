package geo_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// frozen opens an index for which only the clock of the test goes on.
func (e *env) frozen(clock *frozenclock.Conn, conn redoubt.Conn) *geo.Index {
	e.T.Helper()
	xs := e.on(conn, smallCells)
	xs.SetClock(clock.Now)
	x, err := xs.Open(e.T.Context(), "x")
	must(e.T, err)
	return x
}

// A mover reads the index and is then suspended, until the cell has forgotten that the member left it. The
// mover asks the index again.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestLateFind(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		n, names, points := e.halved(t, clock)
		for from, m := range names {
			x := e.frozen(clock, clock)
			slow := e.frozen(clock, hold(t, clock, "geo.where", func() {
				if ok, err := x.Move(t.Context(), m, points[1-from]); !ok || err != nil {
					t.Error(ok, err)
				}
				clock.Advance(11 * time.Second)
				// The next departure makes the cell forget old ones.
				_, err := x.Add(t.Context(), "other", points[from])
				must(t, err)
				if ok, err := x.Move(t.Context(), "other", points[1-from]); !ok || err != nil {
					t.Error(ok, err)
				}
				_, err = x.Remove(t.Context(), "other")
				must(t, err)
			}))
			if ok, err := slow.Move(t.Context(), m, geo.Point{Latitude: 80}); !ok || err != nil {
				t.Errorf("moved: %v, %v", ok, err)
			}
			e.holds(t, clock, n, m)
		}
	})
}

// A query is suspended between two cells of a pipeline, until the second cell no longer reports which
// members left since the query was sent; or between two pipelines, until the cell has forgotten it.
// Meanwhile a member moves from the cell that the query has not read to the one that it has. The query finds
// the member.
//
// Promise: While members move and cells are split, a query finds each member exactly once, also when a mover
// or a query is slow, and when a mover dies.
func TestLateQuery(t *testing.T) {
	for name, c := range map[string]struct {
		first, limit int
		pause        time.Duration
	}{
		"within a pipeline":   {first: 1, pause: 3 * time.Second},
		"between two of them": {first: 8, limit: 1000, pause: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				const n = 200
				clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
				x := e.frozen(clock, clock)
				rng := rand.New(rand.NewPCG(9, 9))
				members := numbered(n, func(int) geo.Point { return about(rng, palermo, 1) })
				fill(t, x, members)
				q := geo.Query{From: palermo, Radius: 300 * geo.Kilometre, Limit: c.limit}
				all, err := x.Near(t.Context(), q)
				must(t, err)
				far := all[len(all)-1]
				neighbour := ""
				for _, f := range all[:len(all)-1] {
					if x.CellOf(f.Member, f.Point) == x.CellOf(far.Member, far.Point) {
						neighbour = f.Member
					}
				}
				if len(all) != n || neighbour == "" || x.Cells() < 12 {
					t.Fatalf("%d members in %d cells; beside %s is %q", len(all), x.Cells(), far.Member, neighbour)
				}
				conn := halt(t, clock, math.MaxInt, func() {
					for _, m := range []string{far.Member, neighbour} {
						if ok, err := x.Move(t.Context(), m, palermo); !ok || err != nil {
							t.Error(ok, err)
						}
						clock.Advance(c.pause)
					}
				})
				reader := e.frozen(clock, conn)
				_, err = reader.Info(t.Context()) // from now on it knows all cells
				must(t, err)
				conn.first = c.first
				found, err := reader.Near(t.Context(), q)
				must(t, err)
				if len(found) != n {
					t.Errorf("%d members found of %d", len(found), n)
				}
			})
		})
	}
}
