package engine

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// coordinates reads a longitude and a latitude.
func (c *call) coordinates(args [][]byte) (lon, lat float64, ok bool) {
	if lon, ok = c.argFloat(args[0]); !ok {
		return 0, 0, false
	}
	if lat, ok = c.argFloat(args[1]); !ok {
		return 0, 0, false
	}
	if lon < -geoLonMax || lon > geoLonMax || lat < -geoLatMax || lat > geoLatMax {
		c.err("ERR invalid longitude,latitude pair " + cFixed(lon) + "," + cFixed(lat))
		return 0, 0, false
	}
	return lon, lat, true
}

// cFixed writes a float as C's %f does.
func cFixed(f float64) string {
	if math.IsInf(f, 0) {
		return string(appendDouble(nil, f))
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

func (c *call) unit(arg []byte) (float64, bool) {
	switch {
	case is(arg, "m"):
		return 1, true
	case is(arg, "km"):
		return 1000, true
	case is(arg, "ft"):
		return 0.3048, true
	case is(arg, "mi"):
		return 1609.34, true
	}
	c.err("ERR unsupported unit provided. please use M, KM, FT, MI")
	return 0, false
}

// cmdGeoadd is ZADD with the scores made of coordinates.
func cmdGeoadd(c *call) {
	at, nx, xx := 2, false, false
	for ; at < len(c.args); at++ {
		a := c.args[at]
		if is(a, "nx") {
			nx = true
		} else if is(a, "xx") {
			xx = true
		} else if !is(a, "ch") {
			break
		}
	}
	rest := c.args[at:]
	if len(rest)%3 != 0 || nx && xx {
		c.syntax()
		return
	}
	args := slices.Clone(c.args[:at])
	args[0] = []byte("ZADD")
	for i := 0; i < len(rest); i += 3 {
		lon, lat, ok := c.coordinates(rest[i:])
		if !ok {
			return
		}
		bits := geoEncode(lon, lat, geoLatMax, geoSteps).bits
		args = append(args, appendInt(nil, int64(bits)), rest[i+2])
	}
	c.args = args
	cmdZadd(c)
}

func (c *call) coordinate(f float64) {
	text := formatLong(new(big.Float).SetPrec(longPrecision).SetFloat64(f))
	if c.isRESP3() {
		c.w = append(append(append(c.w, ','), text...), '\r', '\n')
		return
	}
	c.bulk(text)
}

func cmdGeopos(c *call) {
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		var at zcursor
		if z != nil {
			at = z.get(m)
		}
		if !at.ok() {
			c.nullArray()
			continue
		}
		lon, lat := geoDecode(at.score())
		c.array(2)
		c.coordinate(lon)
		c.coordinate(lat)
	}
}

func cmdGeohash(c *call) {
	const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		var at zcursor
		if z != nil {
			at = z.get(m)
		}
		if !at.ok() {
			c.null()
			continue
		}
		lon, lat := geoDecode(at.score())
		bits := geoEncode(lon, lat, 90, geoSteps).bits
		var text [11]byte
		for i := range 10 {
			text[i] = alphabet[bits>>(52-(i+1)*5)&31]
		}
		text[10] = '0' // there are 52 bits only
		c.bulk(text[:])
	}
}

func (c *call) distance(d float64) {
	n := int64(math.Round(d * 10000))
	c.str(fmt.Sprintf("%d.%04d", n/10000, n%10000))
}

func cmdGeodist(c *call) {
	unit := 1.0
	if len(c.args) == 5 {
		var ok bool
		if unit, ok = c.unit(c.args[4]); !ok {
			return
		}
	} else if len(c.args) > 5 {
		c.syntax()
		return
	}
	z, ok := c.getZset(c.read(c.args[1]))
	if !ok {
		return
	}
	if z == nil {
		c.null()
		return
	}
	a, b := z.get(c.args[2]), z.get(c.args[3])
	if !a.ok() || !b.ok() {
		c.null()
		return
	}
	lon1, lat1 := geoDecode(a.score())
	lon2, lat2 := geoDecode(b.score())
	c.distance(geoDistance(lon1, lat1, lon2, lat2) / unit)
}
