package geo_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
)

var (
	palermo = geo.Point{Longitude: 13.361389, Latitude: 38.115556}
	catania = geo.Point{Longitude: 15.087269, Latitude: 37.502669}
)

func TestMembers(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		x, ctx := e.index("sicily", 0), t.Context()
		added, err := x.Add(ctx, "Palermo", palermo)
		must(t, err)
		moved, err := x.Move(ctx, "Catania", catania)
		must(t, err)
		if !added || moved {
			t.Errorf("added %v, moved %v", added, moved)
		}
		n, err := x.AddMany(ctx, []geo.Member{{Name: "Palermo", Point: palermo}, {Name: "Catania", Point: palermo}, {Name: "Catania", Point: catania}})
		must(t, err)
		if n != 1 {
			t.Errorf("%d are new, want 1", n)
		}
		d, ok, err := x.Dist(ctx, "Palermo", "Catania")
		must(t, err)
		// As in Redis' documentation.
		if got := fmt.Sprintf("%.4f", d.Metres()); got != "166274.1516" || !ok {
			t.Errorf("the distance is %s, %v", got, ok)
		}
		p, ok, err := x.Pos(ctx, "Palermo")
		must(t, err)
		if got := fmt.Sprintf("%.12f %.12f", p.Longitude, p.Latitude); got != "13.361389338970 38.115556395496" || !ok {
			t.Errorf("Palermo is at %s, %v", got, ok)
		}
		found, err := x.Near(ctx, geo.Query{From: geo.Point{Longitude: 15, Latitude: 37}, Radius: 200 * geo.Kilometre})
		must(t, err)
		if got := fmt.Sprintf("%s %.4f %s %.4f", found[0].Member, found[0].Distance.Kilometres(), found[1].Member, found[1].Distance.Kilometres()); got != "Catania 56.4413 Palermo 190.4424" {
			t.Error(got)
		}
		// From the middle of the world to a pole, and back by Move.
		for _, q := range []geo.Point{{Longitude: 5, Latitude: 90}, {Longitude: -180, Latitude: -89.9999}, {Longitude: 180}, palermo} {
			moved, err := x.Move(ctx, "Palermo", q)
			must(t, err)
			p, ok, err := x.Pos(ctx, "Palermo")
			must(t, err)
			if d := p.To(q); !moved || !ok || d > geo.Metre {
				t.Errorf("moved to %v: %v; it is %v off", q, moved, d)
			}
			found, err := x.Near(ctx, geo.Query{Member: "Palermo", Radius: geo.Kilometre})
			must(t, err)
			if len(found) != 1 || found[0] != (geo.Found{Member: "Palermo", Point: p}) {
				t.Errorf("around itself: %v", found)
			}
		}
		removed, err := x.Remove(ctx, "Palermo", "Palermo", "Nowhere")
		must(t, err)
		if removed != 1 {
			t.Errorf("%d removed", removed)
		}
		if _, ok, err := x.Pos(ctx, "Palermo"); ok || err != nil {
			t.Error("it is still there", err)
		}
		if _, ok, err := x.Dist(ctx, "Palermo", "Catania"); ok || err != nil {
			t.Error("a distance to nowhere", err)
		}
		_, err = x.Near(ctx, geo.Query{Member: "Palermo", Radius: geo.Metre})
		is(t, err, geo.ErrNotFound)
		info, err := x.Info(ctx)
		must(t, err)
		if info != (geo.Info{Members: 1, Cells: 3, Largest: 1}) {
			t.Errorf("%+v", info)
		}
		xs := e.on(e.Conn, 0)
		for _, want := range []bool{true, false} {
			deleted, err := xs.Delete(ctx, "sicily")
			must(t, err)
			if deleted != want {
				t.Errorf("deleted: %v, want %v", deleted, want)
			}
		}
		if keys := e.keys(t); len(keys) != 0 {
			t.Errorf("left: %q", keys)
		}
		_, err = xs.Delete(ctx, "}")
		is(t, err, redoubt.ErrInvalidName)
	})
}

// Promise: A value that is out of range is refused before anything is written.
func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		x, ctx := e.index("x", 0), t.Context()
		for _, p := range []geo.Point{{Longitude: 180.1}, {Longitude: -181}, {Latitude: 90.01}, {Latitude: -91}, {Latitude: math.NaN()}, {Longitude: math.Inf(1)}} {
			// Of several members none is put.
			_, err := x.AddMany(ctx, []geo.Member{{Name: "good"}, {Name: "bad", Point: p}})
			is(t, err, geo.ErrInvalidPoint)
			_, err = x.Move(ctx, "bad", p)
			is(t, err, geo.ErrInvalidPoint)
			_, err = x.Near(ctx, geo.Query{From: p, Radius: 1})
			is(t, err, geo.ErrInvalidPoint)
		}
		for _, m := range []string{"", strings.Repeat("x", geo.MaxMember+1)} {
			_, err := x.Add(ctx, m, palermo)
			is(t, err, geo.ErrInvalidMember)
			_, err = x.Remove(ctx, m)
			is(t, err, geo.ErrInvalidMember)
			_, _, err = x.Pos(ctx, m)
			is(t, err, geo.ErrInvalidMember)
		}
		for _, q := range []geo.Query{
			{}, {Radius: -1}, {Radius: geo.Distance(math.NaN())}, {Radius: geo.Distance(math.Inf(1))}, {Width: 1}, {Radius: 1, Height: 1},
			{Radius: 1, Limit: -1}, {Radius: 1, Order: 2}, {Member: "m", From: palermo, Radius: 1},
		} {
			_, err := x.Near(ctx, q)
			is(t, err, geo.ErrInvalidQuery)
		}
		for _, name := range []string{"", "}x", strings.Repeat("x", geo.MaxName+1)} {
			_, err := e.on(e.Conn, 0).Open(t.Context(), name)
			is(t, err, redoubt.ErrInvalidName)
		}
		if keys := e.keys(t); len(keys) != 0 {
			t.Errorf("written: %q", keys)
		}
		must(t, e.Redis.Set(ctx, x.PointKeys()[0], "text", 0).Err())
		_, err := x.Add(ctx, "m", geo.Point{})
		if !redoubt.IsCode(err, "WRONGTYPE") && (err == nil || !strings.Contains(err.Error(), "WRONGTYPE")) {
			t.Errorf("on a key of another type: %v", err)
		}
	})
	if _, err := geo.New(nil, geo.Options{}); err == nil {
		t.Error("made without a client")
	}
}

// Names and members have the greatest length, and any bytes.
func TestLongNames(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		x := e.index(strings.Repeat("n", geo.MaxName), 2000)
		n := 0
		for i := range 30 {
			added, err := x.Add(t.Context(), strings.Repeat("\x00\xff", geo.MaxMember/2-1)+fmt.Sprintf("%02d", i), palermo)
			must(t, err)
			if added {
				n++
			}
		}
		found, err := x.Near(t.Context(), geo.Query{From: palermo, Radius: geo.Metre})
		must(t, err)
		if n != 30 || len(found) != 30 || x.Cells() < 5 {
			t.Errorf("%d added, %d found in %d cells", n, len(found), x.Cells())
		}
	})
}

// keys returns the keys of the test.
func (e *env) keys(t *testing.T) (all []string) {
	t.Helper()
	conns := []redoubt.Conn{e.Conn}
	if topology, ok := e.Conn.(redoubt.Topology); ok {
		primaries, err := topology.Primaries(t.Context())
		must(t, err)
		if len(primaries) > 0 {
			conns = primaries
		}
	}
	for _, c := range conns {
		for cursor := "0"; ; {
			page, err := c.Do(t.Context(), redoubt.Cmd{Name: "SCAN", Args: []string{cursor, "MATCH", e.Prefix + ":*", "COUNT", "1000"}, Flags: redoubt.ReadOnly}).Array()
			must(t, err)
			for _, k := range page[1].([]any) {
				all = append(all, k.(string))
			}
			if cursor = page[0].(string); cursor == "0" {
				break
			}
		}
	}
	return all
}

// want is what a query is to find, by looking at everybody.
func want(members []geo.Member, q geo.Query) (all []geo.Found) {
	for _, m := range members {
		p := geo.Kept(m.Point)
		d := q.From.To(p)
		up := geo.Point{Longitude: q.From.Longitude, Latitude: p.Latitude}
		if q.Radius > 0 && d <= q.Radius || q.Width > 0 && q.From.To(up) <= q.Height/2 && up.To(p) <= q.Width/2 {
			all = append(all, geo.Found{Member: m.Name, Point: p, Distance: d})
		}
	}
	slices.SortFunc(all, func(a, b geo.Found) int {
		d := cmp.Compare(a.Distance, b.Distance)
		if q.Order == geo.Farthest {
			d = -d
		}
		return cmp.Or(d, cmp.Compare(a.Member, b.Member))
	})
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
	}
	return all
}

// agree reports whether found is as wanted. It accepts any of the members at the same distance as the
// last one within the limit.
func agree(members []geo.Member, q geo.Query, found, wanted []geo.Found) bool {
	if len(found) != len(wanted) {
		return false
	}
	limited := q.Limit > 0 && len(wanted) == q.Limit
	q.Limit = 0
	seen := map[string]bool{}
	for i, f := range found {
		last := wanted[len(wanted)-1].Distance
		tie := limited && f.Distance == last && wanted[i].Distance == last && slices.Contains(want(members, q), f)
		if seen[f.Member] || f != wanted[i] && !tie {
			return false
		}
		seen[f.Member] = true
	}
	return true
}

// A query finds the same members as a search of all members: in all sizes, at the poles, across the
// antimeridian, with members everywhere and in heaps. GEO_FAULTS=full runs 20,000 queries on each back end,
// instead of 150.
//
// Promise: A query finds exactly the members in its area, whatever the size of the area, at the poles and
// across the antimeridian.
func TestAgainstBruteForce(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		rng, queries := rand.New(rand.NewPCG(1, 2)), 150
		if full() {
			queries = 20_000
		}
		x := e.index("globe", 8000) // some 70 members
		corners := []geo.Point{
			{Latitude: 90}, {Latitude: -90}, {Longitude: 180}, {Longitude: -180, Latitude: 60}, {Longitude: 10, Latitude: 70}, {Longitude: -100, Latitude: -70},
			{Longitude: 30, Latitude: 85.05}, palermo, {Longitude: 179.9, Latitude: -69.9}, {},
		}
		members := numbered(2000, func(i int) geo.Point {
			if i%2 == 0 {
				return anywhere(rng)
			}
			return about(rng, corners[i/2%len(corners)], math.Pow(10, rng.Float64()*5-4))
		})
		_, err := x.AddMany(t.Context(), members)
		must(t, err)
		if x.Cells() < 25 {
			t.Errorf("only %d cells", x.Cells())
		}
		other := e.index("globe", 8000) // that has to find the cells
		hits := 0
		for i := range queries {
			q := geo.Query{From: anywhere(rng)}
			if i%2 == 0 {
				q.From = about(rng, corners[rng.IntN(len(corners))], math.Pow(10, rng.Float64()*5-4))
			}
			size := func() geo.Distance { return geo.Distance(math.Pow(10, 1+rng.Float64()*6.3)) }
			if rng.IntN(2) == 0 {
				q.Radius = size()
			} else {
				q.Width, q.Height = size(), size()
			}
			if rng.IntN(2) == 0 {
				q.Limit = 1 + rng.IntN(30)
			}
			q.Order = geo.Order(rng.IntN(2))
			found, err := other.Near(t.Context(), q)
			must(t, err)
			wanted := want(members, q)
			if !agree(members, q, found, wanted) {
				t.Fatalf("%+v:\n%d found %v\n%d wanted %v", q, len(found), found, len(wanted), wanted)
			}
			hits += len(found)
		}
		if hits < queries {
			t.Errorf("only %d members found by %d queries", hits, queries)
		}
	})
}
