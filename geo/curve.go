package geo

import (
	"math"

	"github.com/redoubt-go/redoubt/internal/morton"
)

// A place is the position of a point on the curve that visits all cells.
//
// Redis' geo commands know latitudes up to 85 degrees, and their cells become narrow towards the poles. So
// there are three zones. The middle one has the coordinates of the globe. In the two others the globe is
// rotated so that the pole is at longitude 0 and latitude 0: distances stay the same, and cells are almost
// square.
type place struct {
	zone  uint8
	score uint64 // in its zone: 52 bits, as in Redis
}

const (
	middle = iota
	north
	south
	zones
)

const (
	capLatitude = 70.0 // beyond it are the zones of the poles
	latitudeMax = 85.05112878
	scoreBits   = 52
)

// placeOf returns the place of a point.
func placeOf(p Point) place {
	zone := uint8(middle)
	switch {
	case p.Latitude > capLatitude:
		zone = north
	case p.Latitude < -capLatitude:
		zone = south
	}
	q := turn(p, zone)
	return place{zone, interleave(fixed(q.Longitude, 180), fixed(q.Latitude, latitudeMax))}
}

// point returns the centre of the smallest cell, 60 cm wide at most, that the place
// is in.
func (p place) point() Point {
	return turnBack(boxOf(p.score, scoreBits).centre(), p.zone)
}

// turn rotates a point as its zone is rotated.
func turn(p Point, zone uint8) Point {
	if zone == middle {
		return p
	}
	x, y, z := vector(p)
	if zone == north {
		return pointAt(z, y, -x)
	}
	return pointAt(-z, y, x)
}

func turnBack(p Point, zone uint8) Point {
	if zone == middle {
		return p
	}
	x, y, z := vector(p)
	if zone == north {
		return pointAt(-z, y, x)
	}
	return pointAt(z, y, -x)
}

func vector(p Point) (x, y, z float64) {
	lon, lat := radians(p.Longitude), radians(p.Latitude)
	return math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)
}

func pointAt(x, y, z float64) Point {
	return Point{degrees(math.Atan2(y, x)), degrees(math.Atan2(z, math.Hypot(x, y)))}
}

// fixed returns the 26 bits of a coordinate between -most and most.
func fixed(v, most float64) uint32 {
	const n = 1 << (scoreBits / 2)
	return uint32(min(max((v+most)/(2*most)*n, 0), n-1))
}

// interleave puts the bits of the longitude in the odd places.
func interleave(lon, lat uint32) uint64 { return morton.Spread(lat) | morton.Spread(lon)<<1 }

// A box is an area between meridians and parallels, in the coordinates of a zone.
type box struct{ west, south, east, north float64 }

// boxOf returns the area of all scores that begin with these bits, an even number
// of them.
func boxOf(prefix uint64, bits int) box {
	n := float64(uint64(1) << (bits / 2))
	x, y := float64(morton.Gather(prefix>>1)), float64(morton.Gather(prefix))
	return box{
		west: -180 + x/n*360, east: -180 + (x+1)/n*360,
		south: -latitudeMax + y/n*2*latitudeMax, north: -latitudeMax + (y+1)/n*2*latitudeMax,
	}
}

func (b box) centre() Point { return Point{(b.west + b.east) / 2, (b.south + b.north) / 2} }

// from returns how far the nearest point of the box is from p, or, of a box that is
// farther than within, any length above that.
func (b box) from(p Point, within Distance) Distance {
	lat := min(max(p.Latitude, b.south), b.north)
	along := Distance(earth * math.Abs(radians(lat-p.Latitude)))
	if along > within || p.Longitude >= b.west && p.Longitude <= b.east {
		return along
	}
	// Along a parallel the way becomes shorter towards p's meridian, so the nearest
	// point is on the edge that is nearer by longitude. There it is at an end, or where
	// the great circle through p meets the edge at a right angle.
	lon := b.west
	if around(b.east-p.Longitude) < around(b.west-p.Longitude) {
		lon = b.east
	}
	d := radians(lon - p.Longitude)
	foot := degrees(math.Atan2(math.Sin(radians(p.Latitude)), math.Cos(radians(p.Latitude))*math.Cos(d)))
	nearest := Distance(math.Inf(1))
	for _, lat := range [3]float64{b.south, b.north, min(max(foot, b.south), b.north)} {
		nearest = min(nearest, p.To(Point{lon, lat}))
	}
	return nearest
}

// around returns the angle between two meridians, in degrees, of their difference.
func around(lon float64) float64 { return 180 - math.Abs(math.Abs(lon)-180) }
