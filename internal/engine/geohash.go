package engine

import (
	"math"

	"github.com/redoubt-go/redoubt/internal/morton"
)

// Geohashes of up to 52 bits in the score of a sorted set: longitude and
// latitude, each as a fixed-point fraction of its range, interleaved with the
// latitude in the even bits.
const (
	geoSteps    = 26
	geoLonMax   = 180.0
	geoLatMax   = 85.05112878
	earthRadius = 6372797.560856 // metres
	mercatorMax = 20037726.37
)

// A geoCell is the area of all points whose hashes begin with the same bits. The zero value is no
// cell.
type geoCell struct {
	bits uint64
	step uint
}

type geoBox struct{ lonMin, latMin, lonMax, latMax float64 }

func geoEncode(lon, lat, latMax float64, step uint) geoCell {
	y := (lat + latMax) / (2 * latMax) * float64(uint64(1)<<step)
	x := (lon + geoLonMax) / (2 * geoLonMax) * float64(uint64(1)<<step)
	return geoCell{morton.Spread(uint32(y)) | morton.Spread(uint32(x))<<1, step}
}

func (g geoCell) box() geoBox {
	if g == (geoCell{}) {
		return geoBox{}
	}
	y, x := float64(morton.Gather(g.bits)), float64(morton.Gather(g.bits>>1))
	n := float64(uint64(1) << g.step)
	return geoBox{
		latMin: -geoLatMax + y/n*(2*geoLatMax), latMax: -geoLatMax + (y+1)/n*(2*geoLatMax),
		lonMin: -geoLonMax + x/n*(2*geoLonMax), lonMax: -geoLonMax + (x+1)/n*(2*geoLonMax),
	}
}

// geoDecode returns the centre of a score's cell.
func geoDecode(score float64) (lon, lat float64) {
	b := geoCell{uint64(score), geoSteps}.box()
	lon = min(max((b.lonMin+b.lonMax)/2, -geoLonMax), geoLonMax)
	lat = min(max((b.latMin+b.latMax)/2, -geoLatMax), geoLatMax)
	return lon, lat
}

const (
	evenBits = 0x5555555555555555
	oddBits  = 0xaaaaaaaaaaaaaaaa
)

// move returns the cell dx to the east and dy to the north.
func (g geoCell) move(dx, dy int) geoCell {
	shift := 64 - 2*g.step
	step := func(v, others, own uint64, d int) uint64 {
		others >>= shift
		switch {
		case d > 0:
			v += others + 1
		case d < 0:
			v = (v | others) - (others + 1)
		}
		return v & (own >> shift)
	}
	x, y := g.bits&oddBits, g.bits&evenBits
	if dx != 0 {
		x = step(x, evenBits, oddBits, dx)
	}
	if dy != 0 {
		y = step(y, oddBits, evenBits, dy)
	}
	return geoCell{x | y, g.step}
}

// scores returns the scores of the cell's points: from min up to, not
// including, max.
func (g geoCell) scores() (min, max uint64) {
	shift := 52 - 2*g.step
	return g.bits << shift, (g.bits + 1) << shift
}

// radians converts to radians. Without the conversion to float64 some compilers would leave out the rounding.
func radians(deg float64) float64 { return float64(deg * (math.Pi / 180)) }
func degrees(rad float64) float64 { return rad / (math.Pi / 180) }

func geoLatDistance(lat1, lat2 float64) float64 {
	return earthRadius * math.Abs(radians(lat2)-radians(lat1))
}

// geoDistance is the great-circle distance by the haversine formula, in
// metres.
func geoDistance(lon1, lat1, lon2, lat2 float64) float64 {
	return geoDistanceFrom(lon1, lat1, cosine(radians(lat1)), lon2, lat2)
}

// geoDistanceFrom is geoDistance for a caller that has the cosine of lat1.
func geoDistanceFrom(lon1, lat1, cos1, lon2, lat2 float64) float64 {
	v := sine((radians(lon2) - radians(lon1)) / 2)
	if v == 0 {
		return geoLatDistance(lat1, lat2)
	}
	b := radians(lat2)
	u := sine((b - radians(lat1)) / 2)
	h := float64(u*u) + float64(cos1*cosine(b)*v*v)
	return 2 * earthRadius * arcsine(math.Sqrt(h))
}

// geoAbout is geoDistanceFrom in less time, with another last digit. Only near the other side of the globe it errs by more
// than a millimetre, and by less than geoError.
func geoAbout(lon1, lat1, cos1, lon2, lat2 float64) float64 {
	b := radians(lat2)
	u, v := math.Sin((b-radians(lat1))/2), math.Sin((radians(lon2)-radians(lon1))/2)
	return 2 * earthRadius * math.Asin(math.Sqrt(u*u+cos1*math.Cos(b)*v*v))
}

const geoError = 1 // metre

// A geoShape is a circle or a box, in the unit of its conversion to metres.
type geoShape struct {
	lon, lat      float64
	cosLat        float64 // the cosine of lat
	exact         bool    // distances are told, or put in order
	box           bool
	radius        float64
	width, height float64
	unit          float64
}

// distance returns how far a point is from the centre, if it is in the shape. Without exact, only that counts.
func (s *geoShape) distance(lon, lat float64) (float64, bool) {
	if !s.box {
		most := s.radius * s.unit
		if !s.exact {
			if d := geoAbout(s.lon, s.lat, s.cosLat, lon, lat); math.Abs(d-most) > geoError {
				return d, d < most
			}
		}
		d := geoDistanceFrom(s.lon, s.lat, s.cosLat, lon, lat)
		return d, d <= most
	}
	if geoLatDistance(lat, s.lat) > s.height*s.unit/2 || geoDistance(lon, lat, s.lon, lat) > s.width*s.unit/2 {
		return 0, false
	}
	return geoDistanceFrom(s.lon, s.lat, s.cosLat, lon, lat), true
}

func (s *geoShape) bounds() geoBox {
	height, width := s.unit*s.height/2, s.unit*s.width/2
	if !s.box {
		height, width = s.unit*s.radius, s.unit*s.radius
	}
	dLat := degrees(height / earthRadius)
	top := degrees(width / earthRadius / math.Cos(radians(s.lat+dLat)))
	bottom := degrees(width / earthRadius / math.Cos(radians(s.lat-dLat)))
	d := top
	if s.lat < 0 {
		d = bottom
	}
	return geoBox{s.lon - d, s.lat - dLat, s.lon + d, s.lat + dLat}
}

// geoStepsFor estimates the size of cells so that nine of them cover a circle.
func geoStepsFor(radius, lat float64) uint {
	if radius == 0 {
		return geoSteps
	}
	step := 1
	for radius < mercatorMax {
		radius *= 2
		step++
	}
	step -= 2
	if lat > 66 || lat < -66 {
		step--
		if lat > 80 || lat < -80 {
			step--
		}
	}
	return uint(min(max(step, 1), geoSteps))
}

// cells returns the cell of the centre and the eight around it, the useless
// ones zero, in the order in which they are searched.
func (s *geoShape) cells() [9]geoCell {
	b := s.bounds()
	radius := s.radius
	if s.box {
		radius = math.Sqrt(s.width/2*(s.width/2) + s.height/2*(s.height/2))
	}
	step := geoStepsFor(radius*s.unit, s.lat)
	c := geoEncode(s.lon, s.lat, geoLatMax, step)
	north, south := c.move(0, 1).box(), c.move(0, -1).box()
	east, west := c.move(1, 0).box(), c.move(-1, 0).box()
	if step > 1 && (north.latMax < b.latMax || south.latMin > b.latMin || east.lonMax < b.lonMax || west.lonMin > b.lonMin) {
		step--
		c = geoEncode(s.lon, s.lat, geoLatMax, step)
	}
	area := c.box()
	moves := [9][2]int{{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}
	var out [9]geoCell
	for i, m := range moves {
		useless := step >= 2 && (m[1] < 0 && area.latMin < b.latMin || m[1] > 0 && area.latMax > b.latMax ||
			m[0] < 0 && area.lonMin < b.lonMin || m[0] > 0 && area.lonMax > b.lonMax)
		if !useless {
			out[i] = c.move(m[0], m[1])
		}
	}
	return out
}
