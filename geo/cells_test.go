package geo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	wire "github.com/redoubt-go/redoubt/internal/wire/geo"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
)

// largest returns the memory of the largest key of the test.
func (e *env) largest(t *testing.T, keys []string) (most int64, name string) {
	t.Helper()
	for _, k := range keys {
		n, err := e.Redis.MemoryUsage(t.Context(), k, 0).Result()
		if errors.Is(err, redis.Nil) {
			continue // nobody is there
		}
		must(t, err)
		if n > most {
			most, name = n, k
		}
	}
	return most, name
}

const megabyte = 1 << 20

// The cells have the sizes that are in use.
//
// Promise: No key grows past 1 MB, even when all members are at one point.
func TestKeysStaySmall(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		n := 9_000
		if full() {
			n = 300_000
		}
		x := e.index("cars", 0)
		rng := rand.New(rand.NewPCG(3, 4))
		_, err := x.AddMany(t.Context(), numbered(n, func(int) geo.Point { return about(rng, palermo, 3) }))
		must(t, err)
		info, err := x.Info(t.Context())
		must(t, err)
		if info.Members != int64(n) || info.Cells < 4 {
			t.Errorf("%+v", info)
		}
		if most, key := e.largest(t, x.PointKeys()); most > megabyte {
			t.Errorf("%s has %d bytes", key, most)
		}
	})
}

// All members are at one point, and then all of them move to another one.
//
// Promise: No key grows past 1 MB, even when all members are at one point.
func TestOnePoint(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		x := e.index("cars", 10_000)
		for _, p := range []geo.Point{catania, {Latitude: 90}} {
			members := numbered(1000, func(int) geo.Point { return p })
			_, err := x.AddMany(t.Context(), members)
			must(t, err)
			found, err := x.Near(t.Context(), geo.Query{From: p, Radius: geo.Metre})
			must(t, err)
			info, err := x.Info(t.Context())
			must(t, err)
			if len(found) != len(members) || info.Members != int64(len(members)) || info.Largest > 200 {
				t.Errorf("%d found, %+v", len(found), info)
			}
		}
	})
}

// Many processes fill an index, split its cells and query it. None of them knows of the others. Every member
// that was added is found.
func TestSplitsBySeveral(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const writers, each = 4, 80
		var all sync.WaitGroup
		for c := range writers {
			rng := rand.New(rand.NewPCG(5, uint64(c)))
			x, reader := e.index("cars", 4000), e.index("cars", 4000)
			all.Go(func() {
				for i := range each {
					if _, err := x.Add(t.Context(), fmt.Sprint(c, "-", i), about(rng, palermo, 0.5)); err != nil {
						t.Error(err)
						return
					}
					if i%10 != 0 {
						continue
					}
					found, err := reader.Near(t.Context(), geo.Query{From: palermo, Radius: 200 * geo.Kilometre})
					own := 0
					for _, f := range found {
						if f.Member[:2] == fmt.Sprint(c, "-") {
							own++
						}
					}
					if err != nil || own != i+1 {
						t.Errorf("%d of %d found, %v", own, i+1, err)
					}
				}
			})
		}
		all.Wait()
		info, err := e.index("cars", 4000).Info(t.Context())
		must(t, err)
		if info.Members != writers*each || info.Cells < 8 {
			t.Errorf("%+v", info)
		}
	})
}

// A process dies while it splits a cell. Clients that change the cell wait for a while; queries do not.
//
// Promise: A process that dies leaves a member at its old place or at its new one, and other processes
// remove everything else that it leaves behind.
func TestDeadSplitter(t *testing.T) {
	for _, after := range []string{"geo.freeze", "geo.load", "geo.split", "geo.rehome"} {
		t.Run(after, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				rng := rand.New(rand.NewPCG(6, 6))
				members := numbered(60, func(int) geo.Point { return about(rng, palermo, 1) })
				// It dies with the first split, somewhere on the way.
				dying, err := e.on(&mortal{Conn: e.Conn, lives: -1, after: after}, 4000).Open(t.Context(), "x")
				must(t, err)
				n := 0
				for ; err == nil; n++ {
					_, err = dying.Add(t.Context(), members[n].Name, members[n].Point)
				}
				is(t, err, errDied)
				x := e.index("x", 4000)
				found, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: 400 * geo.Kilometre})
				must(t, err)
				if len(found) < n-1 {
					t.Errorf("%d of %d found", len(found), n-1)
				}
				for _, m := range members {
					_, err := x.Add(t.Context(), m.Name, m.Point)
					must(t, err)
				}
				if found, err = x.Near(t.Context(), geo.Query{From: palermo, Radius: 400 * geo.Kilometre}); err != nil || len(found) != len(members) {
					t.Errorf("%d found in the end, %v", len(found), err)
				}
				if info, err := x.Info(t.Context()); err != nil || info.Members != int64(len(members)) {
					t.Errorf("%+v, %v", info, err)
				}
			})
		})
	}
}

// A process is suspended while it splits a cell. Another process takes the split over, and a member moves.
// When the first process goes on, it changes nothing.
//
// Promise: A process that dies leaves a member at its old place or at its new one, and other processes
// remove everything else that it leaves behind.
func TestSlowSplitter(t *testing.T) {
	for _, before := range []string{"geo.load", "geo.split"} {
		t.Run(before, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				rng := rand.New(rand.NewPCG(6, 6))
				members := numbered(60, func(int) geo.Point { return about(rng, palermo, 1) })
				x, to := e.index("x", 4000), members[0].Point
				to.Longitude += 0.001
				slow, err := e.on(hold(t, e.Conn, before, func() {
					if ok, err := x.Move(t.Context(), members[0].Name, to); !ok || err != nil {
						t.Errorf("moved: %v, %v", ok, err)
					}
				}), 4000).Open(t.Context(), "x")
				must(t, err)
				for _, m := range members {
					_, err := slow.Add(t.Context(), m.Name, m.Point)
					must(t, err)
				}
				if p, ok, err := x.Pos(t.Context(), members[0].Name); !ok || p != geo.Kept(to) {
					t.Errorf("it is at %v, %v, %v; want %v", p, ok, err, geo.Kept(to))
				}
				if info, err := x.Info(t.Context()); err != nil || info.Members != int64(len(members)) {
					t.Errorf("%+v, %v", info, err)
				}
			})
		})
	}
}

// When a cell is lost, its members are not in the index until they are added again.
func TestLostCell(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		x := e.index("x", 0)
		_, err := x.AddMany(t.Context(), []geo.Member{{Name: "a", Point: palermo}, {Name: "b", Point: palermo}})
		must(t, err)
		must(t, e.Redis.Del(t.Context(), x.PointKeys()...).Err())
		if _, ok, err := x.Pos(t.Context(), "a"); ok || err != nil {
			t.Errorf("it is there: %v, %v", ok, err)
		}
		if moved, err := x.Move(t.Context(), "a", catania); moved || err != nil {
			t.Errorf("moved: %v, %v", moved, err)
		}
		isNew, err := x.Add(t.Context(), "a", catania)
		must(t, err)
		p, ok, err := x.Pos(t.Context(), "a")
		must(t, err)
		if !isNew || !ok || p.To(catania) > geo.Metre {
			t.Errorf("new %v, at %v", isNew, p)
		}
		if n, err := x.Remove(t.Context(), "a", "b"); n != 1 || err != nil {
			t.Errorf("%d removed, %v", n, err)
		}
	})
}

// Promise: A move within a cell costs one round trip, and so does a query.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		setup := e.index("x", smallCells)
		rng := rand.New(rand.NewPCG(8, 8))
		fill(t, setup, numbered(200, func(int) geo.Point { return about(rng, palermo, 1) }))
		c := &clienttest.Counter{Conn: e.Conn}
		x, err := e.on(c, smallCells).Open(t.Context(), "x")
		must(t, err)
		_, err = x.Info(t.Context()) // from now on it knows all cells
		must(t, err)
		p, _, err := x.Pos(t.Context(), "m1")
		must(t, err)
		from, to := geo.Point{Longitude: p.Longitude, Latitude: p.Latitude}, geo.Point{Longitude: -100, Latitude: 10}
		for what, cost := range map[string]struct {
			most int64
			do   func() error
		}{
			"move within a cell": {1, func() error { _, err := x.Move(t.Context(), "m1", from); return err }},
			"query": {1, func() error {
				_, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: 300 * geo.Kilometre})
				return err
			}},
			"limited query": {1, func() error {
				_, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: 300 * geo.Kilometre, Limit: 5})
				return err
			}},
			"position":        {2, func() error { _, _, err := x.Pos(t.Context(), "m1"); return err }},
			"new member":      {6, func() error { _, err := x.Add(t.Context(), "new", to); return err }},
			"removal":         {5, func() error { _, err := x.Remove(t.Context(), "m2"); return err }},
			"move to another": {8, func() error { _, err := x.Move(t.Context(), "m3", to); return err }},
		} {
			before := c.Trips.Load()
			must(t, cost.do())
			if n := c.Trips.Load() - before; n > cost.most {
				t.Errorf("%s: %d round trips, want %d", what, n, cost.most)
			}
		}
	})
}

// Queries remove what a step leaves undone, at a time of their own.
func TestAnnouncementsAreKeptForLong(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		x, err := e.on(clock, 0).Open(t.Context(), "x")
		must(t, err)
		dying, err := e.on(&mortal{Conn: clock, lives: -1, after: "geo.announce"}, 0).Open(t.Context(), "x")
		must(t, err)
		_, err = dying.Add(t.Context(), "m", palermo)
		is(t, err, errDied)
		for range 2 {
			found, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: geo.Metre})
			must(t, err)
			if len(found) != 0 {
				t.Errorf("found %v, which was only announced", found)
			}
			if e.left(t) == 0 {
				t.Error("the announcement is gone too early")
			}
			clock.Advance(29 * 1e9)
		}
		if _, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: geo.Metre}); err != nil || e.left(t) != 0 {
			t.Errorf("the announcement is there after 58 s, %v", err)
		}
	})
}

// left counts the keys of steps that have not ended.
func (e *env) left(t *testing.T) (n int) {
	for _, k := range e.keys(t) {
		if part := e.partOf(k); part == "arriving" || part == "leaving" {
			n++
		}
	}
	return n
}
