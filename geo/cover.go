package geo

import (
	"cmp"
	"math"
	"slices"
)

// A reach is a cell to search, and the least distance of its members.
type reach struct {
	cell cell
	from Distance
}

// slack is by how much a search exceeds the distance that was asked for, so that no rounding loses a
// member: the centres of cells are up to half a metre from the points.
func slack(d Distance) Distance { return d*1e-9 + 2 }

// cover returns the cells that may have members within d of p, the nearest first.
func cover(all []cell, p Point, d Distance) []reach {
	d += slack(d)
	nearest := make(map[cell]Distance)
	for zone := range uint8(zones) {
		if toZone(p, zone) > d {
			continue
		}
		s := search{all: all, nearest: nearest, zone: zone, from: turn(p, zone), within: d}
		s.descend(0, 0)
	}
	found := make([]reach, 0, len(nearest))
	for c, from := range nearest {
		found = append(found, reach{c, from})
	}
	slices.SortFunc(found, func(a, b reach) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.cell.first, b.cell.first))
	})
	return found
}

// toZone returns the distance of a point from a zone.
func toZone(p Point, zone uint8) Distance {
	var degrees float64
	switch zone {
	case north:
		degrees = capLatitude - p.Latitude
	case south:
		degrees = capLatitude + p.Latitude
	default:
		degrees = math.Abs(p.Latitude) - capLatitude
	}
	return Distance(earth * radians(max(degrees, 0)))
}

// A search descends through the cells of the geohash.
type search struct {
	all     []cell
	nearest map[cell]Distance // of each that was found
	zone    uint8
	from    Point
	within  Distance
}

// descend visits the cell of the geohash with this prefix.
func (s *search) descend(prefix uint64, bits int) {
	from := boxOf(prefix, bits).from(s.from, s.within)
	if from > s.within {
		return
	}
	const width = zoneShift - hashBits // bits of the score in an address
	first := address(s.zone)<<zoneShift | address(prefix<<(width-bits))<<hashBits
	last := first + (1<<(zoneShift-bits) - 1)
	cells := within(s.all, first, last)
	if len(cells) > 1 && bits < width {
		for i := range uint64(4) {
			s.descend(prefix<<2|i, bits+2)
		}
		return
	}
	for _, c := range cells {
		if d, ok := s.nearest[c]; !ok || from < d {
			s.nearest[c] = from
		}
	}
}
