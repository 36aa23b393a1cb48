package geo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// An Order is the order of the results of a query.
type Order uint8

const (
	// Nearest first.
	Nearest Order = iota
	// Farthest first.
	Farthest
)

// A Query describes an area: a circle, when Radius is set, or a box, when Width and Height are set, around
// a point or a member.
type Query struct {
	// From is the centre. When Member is set instead, the centre is the position of that member, and the
	// query finds that member too.
	From   Point
	Member string

	// Radius is the radius of the circle. The circle may include a pole or reach around the earth.
	Radius Distance
	// Width and Height are the size of the box, as in Redis. A member is in the box if its latitude is
	// within half the height of the centre's latitude, and its distance from the centre's meridian, along
	// its own latitude, is within half the width.
	Width, Height Distance

	// Limit is the greatest number of results: the nearest, or the farthest, members. Of several members
	// at the same distance as the last one, any are returned. 0 means all.
	Limit int
	// Order is Nearest or Farthest. Defaults to Nearest.
	Order Order
}

// A Found is a member in the area of a query.
type Found struct {
	Member   string
	Point    Point
	Distance Distance // from the centre
}

// Validate returns nil for a valid query. Otherwise its error matches [ErrInvalidQuery],
// [ErrInvalidMember] or [ErrInvalidPoint].
func (q Query) Validate() error {
	bad := func(d Distance) bool { return !(d >= 0) || math.IsInf(float64(d), 0) }
	switch {
	case q.Member != "" && q.From != Point{}:
		return fmt.Errorf("%w: it has a centre and a member; want one of them", ErrInvalidQuery)
	case bad(q.Radius) || bad(q.Width) || bad(q.Height):
		return fmt.Errorf("%w: radius %v, width %v, height %v; want lengths that are not negative", ErrInvalidQuery,
			q.Radius.Metres(), q.Width.Metres(), q.Height.Metres())
	case q.Radius > 0 && (q.Width > 0 || q.Height > 0):
		return fmt.Errorf("%w: it has a radius, and a width or a height; want a circle or a box", ErrInvalidQuery)
	case q.Radius == 0 && (q.Width == 0 || q.Height == 0):
		return fmt.Errorf("%w: it has no area; want a radius above 0, or a width and a height above 0", ErrInvalidQuery)
	case q.Limit < 0:
		return fmt.Errorf("%w: the limit is %d; want 0, for all, or more", ErrInvalidQuery, q.Limit)
	case q.Order > Farthest:
		return fmt.Errorf("%w: order %d; want Nearest or Farthest", ErrInvalidQuery, q.Order)
	}
	if q.Member != "" {
		return wire.CheckMember(q.Member)
	}
	return q.From.Validate()
}

// within returns the distance of p from the centre, and whether p is in the area.
func (q *Query) within(p Point) (Distance, bool) {
	d := q.From.To(p)
	if q.Radius > 0 {
		return d, d <= q.Radius
	}
	up := Point{q.From.Longitude, p.Latitude}
	return d, q.From.To(up) <= q.Height/2 && up.To(p) <= q.Width/2
}

// radius is the radius of a circle that contains the area. The corner of a box is at most as far from the
// centre as half the height plus half the width.
func (q *Query) radius() Distance {
	if q.Radius > 0 {
		return q.Radius
	}
	return (q.Width + q.Height) / 2
}

// Near returns the members in an area, sorted by distance. It finds each member that is in the area all
// the time exactly once, however the member moves, and also when its mover dies half-way. A member that
// comes or goes meanwhile may be found.
//
// Near costs one round trip: it asks all servers that have cells of the area at once. With a Limit it asks
// the nearest cells first, and other cells only if these have too few members. It needs two more round
// trips when it meets a member on its way from one cell to another. A query around a member needs two
// round trips before; when the member is not in the index, the error matches [ErrNotFound].
func (x *Index) Near(ctx context.Context, q Query) ([]Found, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if q.Member != "" {
		p, ok, err := x.Pos(ctx, q.Member)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%w: %q", ErrNotFound, q.Member)
		}
		q.From = p
	}
	for {
		r := newQueryRun(x, q)
		ok, err := r.run(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			return r.result(), nil
		}
	}
}

const (
	// queryTime is how long a query may take before it starts again: by then cells begin to forget which
	// members have left them.
	queryTime = keepLeft - 2*time.Second
	// cellsFirst is the number of cells that a query with a limit asks first.
	cellsFirst = 8
	// cellsAtOnce is the greatest number of cells in one pipeline.
	cellsAtOnce = 256
)

// A queryRun is one run of a query. doc.go says why it sees each member once.
type queryRun struct {
	*Index
	query Query
	began time.Time
	asked int // how many times
	read  map[cell]bool
	found map[string]Found
	// unsure are members that may be in the area, on their way between cells.
	unsure map[string]bool
	// unfinished are departures whose movers seem to be dead.
	unfinished []departure
	// abandoned are announcements that no step will follow.
	abandoned []announced
}

func newQueryRun(x *Index, q Query) *queryRun {
	return &queryRun{
		Index: x, query: q, began: x.now(),
		read: make(map[cell]bool), found: make(map[string]Found), unsure: make(map[string]bool),
	}
}

// run reports whether the query is complete.
func (r *queryRun) run(ctx context.Context) (bool, error) {
	for more := true; more; {
		var next []cell
		if next, more = r.next(); len(next) == 0 {
			break
		}
		all, err := r.ask(ctx, next)
		if err != nil {
			return false, err
		}
		more = more || !all
		if r.now().Sub(r.began) > queryTime {
			return false, ctx.Err()
		}
	}
	if err := r.completeSteps(ctx); err != nil {
		return false, err
	}
	return true, r.resolve(ctx)
}

// next returns the cells to ask now, and whether there may be more.
func (r *queryRun) next() (next []cell, more bool) {
	within := r.query.radius()
	limited := r.query.Limit > 0 && r.query.Order == Nearest
	if limited && len(r.found) >= r.query.Limit {
		within = min(within, r.farthest())
	}
	for _, near := range cover(r.cells.now(), r.query.From, within) {
		if !r.read[near.cell] {
			next = append(next, near.cell)
		}
	}
	most := cellsAtOnce
	if limited && len(r.found) < r.query.Limit {
		if most = cellsFirst; !r.searchable(middle) {
			most = 2 // they are read as a whole
		}
		most = min(most<<min(r.asked, 8), cellsAtOnce)
	}
	r.asked++
	return next[:min(len(next), most)], len(next) > most
}

// farthest returns the distance of the last member within the limit.
func (r *queryRun) farthest() Distance {
	all := make([]Distance, 0, len(r.found))
	for _, f := range r.found {
		all = append(all, f.Distance)
	}
	slices.Sort(all)
	return all[r.query.Limit-1]
}

// ask asks each cell for its announced members, its present members and the members that have left, in one
// script. So it sees a member that moves from one cell to the next meanwhile. It reports whether all cells
// have answered.
func (r *queryRun) ask(ctx context.Context, cells []cell) (all bool, err error) {
	sent := r.now().Sub(r.began)
	since := decimal((sent + time.Second).Microseconds())
	cmds := make([]redoubt.Cmd, len(cells))
	for i, c := range cells {
		cmds[i] = r.search(c, since, r.args(c.zone()))
	}
	replies := r.send(ctx, cmds)
	// The replies list departures since the query began and a second before: later replies may miss some.
	late := r.now().Sub(r.began)-sent > time.Second
	all = true
	for i, c := range cells {
		status, rest, err := r.status(ctx, replies[i], c)
		if err != nil {
			return false, err
		}
		if status != isDone || late {
			all = false
			continue
		}
		r.read[c] = true
		v, err := readView(rest, c.zone())
		if err != nil {
			return false, err
		}
		r.addReply(c, v)
	}
	return all, nil
}

// addReply adds the reply of a cell.
func (r *queryRun) addReply(c cell, v view) {
	for _, p := range v.points {
		r.addFound(p.member, p.place.point())
	}
	for _, a := range v.arriving {
		r.addUnsure(a.member, a.to)
		if v.now-a.at > deadAfter.Microseconds() {
			r.abandoned = append(r.abandoned, a)
		}
	}
	for _, d := range v.leaving {
		if !d.removed {
			r.addUnsure(d.member, d.to)
		}
		if v.now-d.at > stepTime.Microseconds() {
			r.unfinished = append(r.unfinished, departure{from: c, record: d.record})
		}
	}
	for _, d := range v.left {
		if !d.removed {
			r.addUnsure(d.member, d.to)
		}
	}
}

// addFound adds a member if it is in the area.
func (r *queryRun) addFound(member string, p Point) {
	if d, ok := r.query.within(p); ok {
		r.found[member] = Found{member, p, d}
	}
}

// addUnsure notes a member that may be at a place in the area.
func (r *queryRun) addUnsure(member string, at place) {
	if _, ok := r.query.within(at.point()); ok {
		r.unsure[member] = true
	}
}

// resolve locates the members that were seen only as announcements or departures.
func (r *queryRun) resolve(ctx context.Context) error {
	var members []string
	for m := range r.unsure {
		if _, seen := r.found[m]; !seen {
			members = append(members, m)
		}
	}
	points, err := r.positions(ctx, members)
	if err != nil {
		return err
	}
	for i, m := range members {
		if points[i] != nil {
			r.addFound(m, *points[i])
		}
	}
	return nil
}

// completeSteps completes the steps of processes that seem to be dead.
func (r *queryRun) completeSteps(ctx context.Context) error {
	if len(r.unfinished)+len(r.abandoned) == 0 {
		return nil
	}
	var names []string
	for _, d := range r.unfinished {
		names = append(names, d.member)
	}
	for _, a := range r.abandoned {
		names = append(names, a.member)
	}
	// This completes every unfinished step. The remaining items are steps that are complete but not closed, and
	// announcements that no step will follow.
	if _, err := r.locate(ctx, names); err != nil {
		return err
	}
	arrivals := make([]arrival, 0, len(r.abandoned))
	for _, a := range r.abandoned {
		a.withdraw = true
		arrivals = append(arrivals, a.arrival)
	}
	return errors.Join(r.closeAll(ctx, r.unfinished), r.arrive(ctx, arrivals))
}

func (r *queryRun) result() []Found {
	all := make([]Found, 0, len(r.found))
	for _, f := range r.found {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Found) int {
		d := cmp.Compare(a.Distance, b.Distance)
		if r.query.Order == Farthest {
			d = -d
		}
		return cmp.Or(d, cmp.Compare(a.Member, b.Member))
	})
	if r.query.Limit > 0 && len(all) > r.query.Limit {
		all = all[:r.query.Limit]
	}
	return all
}

// searchable reports whether GEOSEARCH finds everything in the area, in the coordinates of a zone. It
// searches nine cells, which do not cover an area near a pole.
func (r *queryRun) searchable(zone uint8) bool {
	most := 84.0
	if r.query.Radius == 0 {
		most = 75 // the corners of a box are farther off
	}
	from := turn(r.query.From, zone)
	return math.Abs(from.Latitude)+degrees(float64(r.query.radius())/earth) <= most
}

// args returns the arguments of a GEOSEARCH in a zone.
func (r *queryRun) args(zone uint8) []string {
	if !r.searchable(zone) {
		return everything
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	wider := func(d Distance) string { return number(float64(d + slack(d))) }
	q, from, limit := &r.query, turn(r.query.From, zone), r.query.Limit
	args := []string{"FROMLONLAT", number(from.Longitude), number(from.Latitude)}
	switch {
	case q.Radius > 0:
		args = append(args, "BYRADIUS", wider(q.Radius), "m")
	case zone == middle:
		args = append(args, "BYBOX", wider(q.Width), wider(q.Height), "m")
	default: // the globe is turned there, and a box with it
		args, limit = append(args, "BYRADIUS", wider(q.radius()), "m"), 0
	}
	args = append(args, "WITHHASH")
	if limit > 0 && q.Order == Nearest {
		args = append(args, "COUNT", decimal(limit), "ASC")
	}
	return args
}
