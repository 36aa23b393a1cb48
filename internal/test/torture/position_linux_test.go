package torture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/geo"
)

// spots are the places of members, which count from 1. An index begins with three cells, the middle of the globe and
// two caps, and each has some.
var spots = []geo.Point{
	{}, {Longitude: 13.4, Latitude: 52.5}, {Longitude: 13.4, Latitude: 38.1}, {Longitude: 179.9, Latitude: 0},
	{Longitude: 0, Latitude: 90}, {Longitude: 180, Latitude: 75}, {Longitude: -60, Latitude: -89},
}

// An area is a circle in which members are looked for.
type area struct {
	from   geo.Point
	radius geo.Distance
}

var areas = []area{
	{geo.Point{Longitude: 10, Latitude: 45}, 25_000 * geo.Kilometre}, // the globe
	{geo.Point{Longitude: 10, Latitude: 45}, 2_000 * geo.Kilometre},
	{geo.Point{Longitude: -179.9, Latitude: 0}, 100 * geo.Kilometre},
	{geo.Point{Longitude: 0, Latitude: 90}, 2_500 * geo.Kilometre},
	{geo.Point{Longitude: 90, Latitude: 60}, 5_000 * geo.Kilometre}, // over the pole
}

// has reports whether a place is in the area. None is near its edge.
func (a area) has(place int64) bool { return a.from.To(spots[place]) < a.radius }

// nowhere is the place of a member that was found twice, or where nobody put it.
const nowhere = -1

// placeOf returns the place of a point, which is kept to half a metre.
func placeOf(p geo.Point) int64 {
	for n := 1; n < len(spots); n++ {
		if p.To(spots[n]) < 2*geo.Metre {
			return int64(n)
		}
	}
	return nowhere
}

// A sighting collects the places where a query finds members.
type sighting map[string]int64

func (s sighting) add(member string, at geo.Point) {
	if _, twice := s[member]; twice {
		s[member] = nowhere
		return
	}
	s[member] = placeOf(at)
}

// position adds, moves and removes its own member of an index, and looks for the members of all workers. The order in
// which several move one member is not defined.
func (w *worker) position(ctx context.Context, d door) {
	rng := w.random(positions)
	member := func(worker int) string { return fmt.Sprint("w", worker) }
	for ctx.Err() == nil {
		index := w.name(rng, positions)
		within, cancel := within(ctx)
		e := event{Primitive: positions, Name: index + " " + member(w.Worker), N: 1 + rng.Int64N(int64(len(spots)-1))}
		var err error
		switch way := rng.IntN(8); way {
		case 0, 1, 2, 3:
			e.What = []string{removed, moved, moved, placed}[way]
			e = w.pen.begin(e)
			e.OK, err = d.position(within, e.What, index, member(w.Worker), spots[e.N])
			w.pen.end(e, err)
		default:
			at := rng.IntN(len(areas))
			var seen sighting
			call := now()
			if seen, err = d.near(within, index, areas[at]); err == nil {
				ret := now()
				for worker := range w.Worker + 2 { // and others that came later, perhaps
					m := member(1 + worker)
					w.pen.note(event{Primitive: positions, Name: index + " " + m, What: found, N: seen[m], M: int64(at), Call: call, Return: ret})
				}
			}
		}
		cancel()
		if err == nil {
			w.worked(positions)
		} else {
			w.failed(ctx, positions, err)
		}
		w.pause(ctx, rng, 60*time.Millisecond)
	}
}

func (l *library) position(ctx context.Context, what, index, member string, to geo.Point) (ok bool, err error) {
	x, err := l.indexes.Open(ctx, index)
	if err != nil {
		return false, err
	}
	switch what {
	case placed:
		return x.Add(ctx, member, to)
	case moved:
		return x.Move(ctx, member, to)
	default:
		n, err := x.Remove(ctx, member)
		return n == 1, err
	}
}

func (l *library) near(ctx context.Context, index string, a area) (sighting, error) {
	x, err := l.indexes.Open(ctx, index)
	if err != nil {
		return nil, err
	}
	all, err := x.Near(ctx, geo.Query{From: a.from, Radius: a.radius})
	seen := sighting{}
	for _, f := range all {
		seen.add(f.Member, f.Point)
	}
	return seen, err
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// position fails with an unknown outcome only: a command takes several steps, and not to have sent one of them says
// nothing of the others.
func (l *line) position(ctx context.Context, what, index, member string, to geo.Point) (ok bool, err error) {
	n, err := l.number(ctx, map[string][]string{
		placed:  {"GEOIDX.ADD", index, decimal(to.Longitude), decimal(to.Latitude), member},
		moved:   {"GEOIDX.ADD", index, "XX", decimal(to.Longitude), decimal(to.Latitude), member},
		removed: {"GEOIDX.REM", index, member},
	}[what]...)
	if err != nil {
		return false, errors.New(err.Error())
	}
	return n == 1, nil
}

func (l *line) near(ctx context.Context, index string, a area) (sighting, error) {
	v, err := l.do(ctx, 0, "GEOIDX.NEAR", index, "FROMLONLAT", decimal(a.from.Longitude), decimal(a.from.Latitude),
		"BYRADIUS", decimal(a.radius.Kilometres()), "KM", "WITHCOORD")
	seen := sighting{}
	for _, one := range array(v) {
		fields := array(one)
		var p geo.Point
		if _, err := fmt.Sscan(fmt.Sprintln(array(fields[1])...), &p.Longitude, &p.Latitude); err != nil {
			return nil, fmt.Errorf("the reply of GEOIDX.NEAR has %v: %w", one, err)
		}
		seen.add(fmt.Sprint(fields[0]), p)
	}
	return seen, err
}

// changes repeats the changes of unknown outcome: the library may have sent one twice, and both copies may have their
// effect at any later time.
func changes(events []event) (out []event) {
	for _, e := range events {
		out = append(out, e)
		if e.Return == 0 && e.What != found {
			out = append(out, e)
		}
	}
	return out
}

// positionModel has the place of a member, 0 if it is not in the index.
var positionModel = model(int64(0), func(place int64, e event) (bool, int64) {
	unknown := e.Return == 0
	switch e.What {
	case placed:
		return unknown || e.OK == (place == 0), e.N
	case moved:
		if place == 0 {
			return unknown || !e.OK, 0
		}
		return unknown || e.OK, e.N
	case removed:
		return unknown || e.OK == (place != 0), 0
	default: // found
		if e.N == 0 {
			return place == 0 || !areas[e.M].has(place), place
		}
		return e.N == place && areas[e.M].has(place), place
	}
})
