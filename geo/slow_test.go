package geo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/geo"
)

// A mover stands still between finding its member and letting it leave. Meanwhile the
// member goes elsewhere and comes back, by a mover that dies before it has noted so. The
// first one then doesn't take it for what it had found.
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
			each(t, func(t *testing.T, w *world) {
				x := w.index("x", 0)
				_, err := x.Add(t.Context(), "m", a)
				must(t, err)
				conn := &held{Conn: w.conn, before: "geo.leave", stands: make(chan struct{}), goOn: make(chan struct{})}
				slow, err := w.on(conn, 0).Open("x")
				must(t, err)
				moved := make(chan error, 1)
				go func() {
					ok, err := slow.Move(t.Context(), "m", to)
					if err == nil && !ok {
						err = geo.ErrNotFound
					}
					moved <- err
				}()
				<-conn.stands
				if ok, err := x.Move(t.Context(), "m", b); !ok || err != nil {
					t.Error(ok, err)
				}
				dying, err := w.on(&mortal{Conn: w.conn, lives: -1, after: after}, 0).Open("x")
				must(t, err)
				_, err = dying.Move(t.Context(), "m", a)
				is(t, err, errDied)
				close(conn.goOn)
				must(t, <-moved)
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

// The index says of members only that they are in a cell that was split since. Movers that
// take them from one part to another follow each other: they die before they have noted
// it, or stand still when they have read what the index says.
func TestMovesInASplitCell(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(6, 6))
		anywhere := func() geo.Point { return about(rng, palermo, 1) }
		members := numbered(60, func(int) geo.Point { return anywhere() })
		dying := func(after string) *geo.Index {
			x, err := w.on(&mortal{Conn: w.conn, lives: -1, after: after}, smallCells).Open("x")
			must(t, err)
			return x
		}
		x, n := dying("geo.split"), 0
		var err error
		for ; err == nil; n++ {
			_, err = x.Add(t.Context(), members[n].Name, members[n].Point)
		}
		is(t, err, errDied)
		x = w.index("x", smallCells)
		move := func(x *geo.Index, m geo.Member) error {
			ok, err := x.Move(t.Context(), m.Name, anywhere())
			if err == nil && !ok {
				t.Errorf("%s is not found any more", m.Name)
			}
			return err
		}
		died := 0
		for i, m := range members[:n-1] {
			if i%2 == 0 {
				for range 3 {
					if err := move(dying("geo.arrive"), m); err != nil {
						is(t, err, errDied)
						died++
					}
				}
				continue
			}
			conn := &held{Conn: w.conn, before: "geo.where", stands: make(chan struct{}), goOn: make(chan struct{})}
			slow, err := w.on(conn, smallCells).Open("x")
			must(t, err)
			moved := make(chan error, 1)
			to := anywhere()
			go func() {
				_, err := slow.Move(t.Context(), m.Name, to)
				moved <- err
			}()
			select {
			case <-conn.stands:
				must(t, move(x, m))
				close(conn.goOn)
				must(t, <-moved)
			case err := <-moved: // within a part
				must(t, err)
			}
		}
		if died < n/2 {
			t.Fatalf("only %d died", died)
		}
		for _, m := range members[:n-1] {
			must(t, move(x, m))
		}
		_, err = x.Add(t.Context(), members[n-1].Name, members[n-1].Point)
		must(t, err)
		if info, err := x.Info(t.Context()); err != nil || info.Members != int64(n) {
			t.Errorf("%d members in cells, %v, want %d", info.Members, err, n)
		}
	})
}
