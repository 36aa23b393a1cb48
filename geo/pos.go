package geo

import (
	"context"

	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// Pos returns the position of a member, to half a metre. ok is false when the member is not in the index.
// Two round trips.
func (x *Index) Pos(ctx context.Context, member string) (p Point, ok bool, err error) {
	points, err := x.PosMany(ctx, []string{member})
	if err != nil || points[0] == nil {
		return Point{}, false, err
	}
	return *points[0], true, nil
}

// PosMany returns the position of each of several members, nil for a member that is not in the index. Two
// round trips per 4,096 members.
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

// Dist returns the distance between two members. ok is false unless both are in the index. Two round
// trips.
func (x *Index) Dist(ctx context.Context, a, b string) (d Distance, ok bool, err error) {
	points, err := x.PosMany(ctx, []string{a, b})
	if err != nil || points[0] == nil || points[1] == nil {
		return 0, false, err
	}
	return points[0].To(*points[1]), true, nil
}

// positions returns the positions of members, and completes the steps that other processes have begun with
// them.
func (x *Index) positions(ctx context.Context, members []string) ([]*Point, error) {
	points := make([]*Point, len(members))
	spots, err := x.locate(ctx, members)
	for i, s := range spots {
		if s.kind == memberPresent {
			p := s.place.point()
			points[i] = &p
		}
	}
	return points, err
}
