package geo

import (
	"context"
	"errors"

	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// Pos returns where a member is, to half a metre, and whether it is in the index. Two
// round trips.
func (x *Index) Pos(ctx context.Context, member string) (p Point, ok bool, err error) {
	points, err := x.PosMany(ctx, []string{member})
	if err != nil || points[0] == nil {
		return Point{}, false, err
	}
	return *points[0], true, nil
}

// PosMany is Pos for several members: nil for one that is not in the index. Two round
// trips for every 4,096 of them.
func (x *Index) PosMany(ctx context.Context, members []string) ([]*Point, error) {
	for _, m := range members {
		if err := wire.CheckMember(m); err != nil {
			return nil, err
		}
	}
	points := make([]*Point, 0, len(members))
	for from := 0; from < len(members); from += atOnce {
		some, err := x.positions(ctx, members[from:min(from+atOnce, len(members))])
		if err != nil {
			return nil, err
		}
		points = append(points, some...)
	}
	return points, nil
}

// Dist returns how far two members are from each other, and whether both are in the
// index. Two round trips.
func (x *Index) Dist(ctx context.Context, a, b string) (d Distance, ok bool, err error) {
	points, err := x.PosMany(ctx, []string{a, b})
	if err != nil || points[0] == nil || points[1] == nil {
		return 0, false, err
	}
	return points[0].To(*points[1]), true, nil
}

// positions asks where members are, and ends what others have begun with them.
func (x *Index) positions(ctx context.Context, members []string) ([]*Point, error) {
	points := make([]*Point, len(members))
	spots, err := x.locate(ctx, members)
	for i, s := range spots {
		if s.kind == here {
			p := s.place.point()
			points[i] = &p
		}
	}
	return points, err
}

// mend ends what processes have left undone that seem to be dead.
func (l *look) mend(ctx context.Context) error {
	if len(l.dead)+len(l.stray) == 0 {
		return nil
	}
	var names []string
	for _, d := range l.dead {
		names = append(names, d.member)
	}
	for _, a := range l.stray {
		names = append(names, a.member)
	}
	// This ends whatever is to be ended. What is left now was ended before, and only
	// not closed, or was announced and not followed by a step, and won't be.
	if _, err := l.locate(ctx, names); err != nil {
		return err
	}
	arrivals := make([]arrival, 0, len(l.stray))
	for _, a := range l.stray {
		a.withdraw = true
		arrivals = append(arrivals, a.arrival)
	}
	return errors.Join(l.closeAll(ctx, l.dead), l.arrive(ctx, arrivals))
}
