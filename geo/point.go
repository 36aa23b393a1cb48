package geo

import (
	"fmt"
	"math"
	"strconv"
)

// A Distance is a length on the ground, in metres. Write it as a product, like a time.Duration: 5 *
// geo.Kilometre.
type Distance float64

// The units, as Redis has them.
const (
	Metre     Distance = 1
	Kilometre Distance = 1000
	Mile      Distance = 1609.34
	Foot      Distance = 0.3048
)

// Metres returns d as a number of metres.
func (d Distance) Metres() float64 { return float64(d) }

// Kilometres returns d as a number of kilometres.
func (d Distance) Kilometres() float64 { return float64(d / Kilometre) }

// Miles returns d as a number of miles.
func (d Distance) Miles() float64 { return float64(d / Mile) }

// Feet returns d as a number of feet.
func (d Distance) Feet() float64 { return float64(d / Foot) }

// String returns d in metres below a kilometre, and in kilometres from there on.
func (d Distance) String() string {
	if math.Abs(float64(d)) < float64(Kilometre) {
		return strconv.FormatFloat(float64(d), 'f', 1, 64) + "m"
	}
	return strconv.FormatFloat(d.Kilometres(), 'f', 3, 64) + "km"
}

// A Point is a place on the globe, in degrees: longitude first, as in Redis.
type Point struct {
	Longitude float64 // east of Greenwich, -180 to 180
	Latitude  float64 // north of the equator, -90 to 90
}

// String returns the point as longitude and latitude, with a comma.
func (p Point) String() string {
	return fmt.Sprintf("%.6f,%.6f", p.Longitude, p.Latitude)
}

// Validate returns nil for a point on the globe. Otherwise its error matches [ErrInvalidPoint].
func (p Point) Validate() error {
	if !(p.Longitude >= -180 && p.Longitude <= 180) || !(p.Latitude >= -90 && p.Latitude <= 90) {
		return fmt.Errorf("%w: longitude %v, latitude %v; want -180 to 180 and -90 to 90", ErrInvalidPoint, p.Longitude, p.Latitude)
	}
	return nil
}

// To returns the distance to q along the great circle, on a sphere with Redis' radius. It differs from the
// distance on the ellipsoid by at most 0.6%.
func (p Point) To(q Point) Distance {
	lat, lat2 := radians(p.Latitude), radians(q.Latitude)
	u, v := math.Sin((lat2-lat)/2), math.Sin(radians(q.Longitude-p.Longitude)/2)
	h := u*u + math.Cos(lat)*math.Cos(lat2)*v*v
	return Distance(2 * earth * math.Asin(math.Sqrt(min(h, 1))))
}

// Geohash returns the 11 characters of the point's standard geohash, as Redis' GEOHASH does. The geohashes
// of places close together mostly begin alike.
func (p Point) Geohash() string {
	const letters = "0123456789bcdefghjkmnpqrstuvwxyz"
	bits := interleave(fixed(p.Longitude, 180), fixed(p.Latitude, 90))
	var text [11]byte
	for i := range text {
		if i == 10 { // Redis has 52 bits; it fills up with 0
			text[i] = letters[0]
			break
		}
		text[i] = letters[bits>>(52-5*(i+1))&0x1f]
	}
	return string(text[:])
}

// earth is the radius of the earth in metres, as in Redis.
const earth = 6372797.560856

func radians(degrees float64) float64 { return degrees * (math.Pi / 180) }
func degrees(radians float64) float64 { return radians * (180 / math.Pi) }
