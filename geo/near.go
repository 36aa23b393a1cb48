package geo

import (
	"cmp"
	"context"
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
		l := newLook(x, q)
		ok, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		if ok {
			return l.result(), nil
		}
	}
}

const (
	// lookTime is how long a query may take before it starts again: by then cells begin to forget which
	// members have left them.
	lookTime = keepLeft - 2*time.Second
	// cellsFirst is the number of cells that a query with a limit asks first.
	cellsFirst = 8
	// cellsAtOnce is the greatest number of cells in one pipeline.
	cellsAtOnce = 256
)

// A look is one run of a query. doc.go says why it sees each member once.
type look struct {
	*Index
	query Query
	began time.Time
	asked int // how often
	read  map[cell]bool
	found map[string]Found
	// doubts are members that may be in the area, on their way between cells.
	doubts map[string]bool
	dead   []departure // that nobody has ended, it seems
	stray  []announced // that nobody has followed
}

func newLook(x *Index, q Query) *look {
	return &look{
		Index: x, query: q, began: x.now(),
		read: make(map[cell]bool), found: make(map[string]Found), doubts: make(map[string]bool),
	}
}

// run reports whether the query is complete.
func (l *look) run(ctx context.Context) (bool, error) {
	for more := true; more; {
		var next []cell
		if next, more = l.next(); len(next) == 0 {
			break
		}
		all, err := l.ask(ctx, next)
		if err != nil {
			return false, err
		}
		more = more || !all
		if l.now().Sub(l.began) > lookTime {
			return false, ctx.Err()
		}
	}
	if err := l.mend(ctx); err != nil {
		return false, err
	}
	return true, l.resolve(ctx)
}

// next returns the cells to ask now, and whether there may be more.
func (l *look) next() (next []cell, more bool) {
	within := l.query.radius()
	limited := l.query.Limit > 0 && l.query.Order == Nearest
	if limited && len(l.found) >= l.query.Limit {
		within = min(within, l.farthest())
	}
	for _, r := range cover(l.cells.now(), l.query.From, within) {
		if !l.read[r.cell] {
			next = append(next, r.cell)
		}
	}
	most := cellsAtOnce
	if limited && len(l.found) < l.query.Limit {
		if most = cellsFirst; !l.searchable(middle) {
			most = 2 // they are read as a whole
		}
		most = min(most<<min(l.asked, 8), cellsAtOnce)
	}
	l.asked++
	return next[:min(len(next), most)], len(next) > most
}

// farthest returns the distance of the last member within the limit.
func (l *look) farthest() Distance {
	all := make([]Distance, 0, len(l.found))
	for _, f := range l.found {
		all = append(all, f.Distance)
	}
	slices.Sort(all)
	return all[l.query.Limit-1]
}

// ask asks each cell for its announced members, its present members and the members that have left, in one
// script. So it sees a member that moves from one cell to the next meanwhile. It reports whether all cells
// have answered.
func (l *look) ask(ctx context.Context, cells []cell) (all bool, err error) {
	sent := l.now().Sub(l.began)
	since := decimal((sent + time.Second).Microseconds())
	cmds := make([]redoubt.Cmd, len(cells))
	for i, c := range cells {
		cmds[i] = l.search(c, since, l.args(c.zone()))
	}
	replies := l.send(ctx, cmds)
	late := l.now().Sub(l.began)-sent > time.Second // than what it is told goes back
	all = true
	for i, c := range cells {
		status, rest, err := l.status(ctx, replies[i], c)
		if err != nil {
			return false, err
		}
		if status != isDone || late {
			all = false
			continue
		}
		l.read[c] = true
		v, err := readView(rest, c.zone())
		if err != nil {
			return false, err
		}
		l.hear(c, v)
	}
	return all, nil
}

// hear adds the reply of a cell.
func (l *look) hear(c cell, v view) {
	for _, p := range v.points {
		l.see(p.member, p.place.point())
	}
	for _, a := range v.arriving {
		l.doubt(a.member, a.to)
		if v.now-a.at > deadAfter.Microseconds() {
			l.stray = append(l.stray, a)
		}
	}
	for _, d := range v.leaving {
		if !d.removed {
			l.doubt(d.member, d.to)
		}
		if v.now-d.at > stepTime.Microseconds() {
			l.dead = append(l.dead, departure{from: c, record: d.record})
		}
	}
	for _, d := range v.left {
		if !d.removed {
			l.doubt(d.member, d.to)
		}
	}
}

func (l *look) see(member string, p Point) {
	if d, ok := l.query.within(p); ok {
		l.found[member] = Found{member, p, d}
	}
}

// doubt notes a member that may be at a place in the area.
func (l *look) doubt(member string, at place) {
	if _, ok := l.query.within(at.point()); ok {
		l.doubts[member] = true
	}
}

// resolve locates the members that were seen only as announcements or departures.
func (l *look) resolve(ctx context.Context) error {
	var members []string
	for m := range l.doubts {
		if _, seen := l.found[m]; !seen {
			members = append(members, m)
		}
	}
	points, err := l.positions(ctx, members)
	if err != nil {
		return err
	}
	for i, m := range members {
		if points[i] != nil {
			l.see(m, *points[i])
		}
	}
	return nil
}

func (l *look) result() []Found {
	all := make([]Found, 0, len(l.found))
	for _, f := range l.found {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Found) int {
		d := cmp.Compare(a.Distance, b.Distance)
		if l.query.Order == Farthest {
			d = -d
		}
		return cmp.Or(d, cmp.Compare(a.Member, b.Member))
	})
	if l.query.Limit > 0 && len(all) > l.query.Limit {
		all = all[:l.query.Limit]
	}
	return all
}

// searchable reports whether GEOSEARCH finds everything in the area, in the coordinates of a zone. It
// searches nine cells, which do not cover an area near a pole.
func (l *look) searchable(zone uint8) bool {
	most := 84.0
	if l.query.Radius == 0 {
		most = 75 // the corners of a box are farther off
	}
	from := turn(l.query.From, zone)
	return math.Abs(from.Latitude)+degrees(float64(l.query.radius())/earth) <= most
}

// args returns the arguments of a GEOSEARCH in a zone.
func (l *look) args(zone uint8) []string {
	if !l.searchable(zone) {
		return everything
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	wider := func(d Distance) string { return number(float64(d + slack(d))) }
	q, from, limit := &l.query, turn(l.query.From, zone), l.query.Limit
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
