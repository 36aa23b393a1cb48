package engine

import (
	"cmp"
	"slices"
)

func cmdGeoradius(c *call)           { c.geosearch(geoQuery{at: 1, radius: true}) }
func cmdGeoradiusRo(c *call)         { c.geosearch(geoQuery{at: 1, radius: true, noStore: true}) }
func cmdGeoradiusbymember(c *call)   { c.geosearch(geoQuery{at: 1, member: true}) }
func cmdGeoradiusbymemberRo(c *call) { c.geosearch(geoQuery{at: 1, member: true, noStore: true}) }
func cmdGeosearch(c *call)           { c.geosearch(geoQuery{at: 1, search: true, noStore: true}) }
func cmdGeosearchstore(c *call) {
	c.geosearch(geoQuery{at: 2, search: true, noStore: true, into: true})
}

// A geoQuery is the query of a search command.
type geoQuery struct {
	at      int  // position of the key
	radius  bool // GEORADIUS
	member  bool // GEORADIUSBYMEMBER
	search  bool // GEOSEARCH
	into    bool // GEOSEARCHSTORE
	noStore bool

	z                             *zset
	shape                         geoShape
	store                         []byte
	storeDist                     bool
	withDist, withHash, withCoord bool
	fromMember, fromLonLat        bool
	byRadius, byBox               bool
	order                         int // 1 ascending, -1 descending
	any                           bool
	count                         int64
}

type geoHit struct {
	member   string
	lon, lat float64
	score    float64
	dist     float64
}

func (c *call) geosearch(q geoQuery) {
	var ok bool
	if q.z, ok = c.getZset(c.read(c.args[q.at])); !ok {
		return
	}
	if !c.geoArgs(&q) {
		return
	}
	switch name := string(c.args[0]); {
	case q.store != nil && (q.withDist || q.withHash || q.withCoord):
		what := "STORE option in GEORADIUS"
		if q.into {
			what = "GEOSEARCHSTORE"
		}
		c.err("ERR " + what + " is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
		return
	case q.search && !q.fromMember && !q.fromLonLat:
		c.err("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + name)
		return
	case q.search && !q.byRadius && !q.byBox:
		c.err("ERR exactly one of BYRADIUS and BYBOX can be specified for " + name)
		return
	case q.any && q.count == 0:
		c.err("ERR the ANY argument requires COUNT argument")
		return
	}
	if q.z == nil {
		if q.store != nil {
			c.storeResult(q.store, new(value), eventZset, "")
		} else {
			c.array(0)
		}
		return
	}
	if q.count != 0 && q.order == 0 && !q.any {
		q.order = 1
	}
	c.geoReply(&q, q.find(c))
}

// geoArgs reads everything behind the key.
func (c *call) geoArgs(q *geoQuery) bool {
	var ok bool
	rest := c.args[q.at+1:]
	switch {
	case q.radius:
		if q.shape.lon, q.shape.lat, ok = c.coordinates(c.args[2:]); !ok || !c.geoRadius(q, c.args[4:]) {
			return false
		}
		rest = c.args[6:]
	case q.member:
		if q.z != nil && (!c.geoMember(q, c.args[2]) || !c.geoRadius(q, c.args[3:])) {
			return false
		}
		rest = c.args[5:]
	case q.into:
		q.store = c.args[1]
	}
	for i := 0; i < len(rest); i++ {
		a, left := rest[i], rest[i+1:]
		switch {
		case is(a, "withdist"):
			q.withDist = true
		case is(a, "withhash"):
			q.withHash = true
		case is(a, "withcoord"):
			q.withCoord = true
		case is(a, "any"):
			q.any = true
		case is(a, "asc"):
			q.order = 1
		case is(a, "desc"):
			q.order = -1
		case is(a, "count") && len(left) > 0:
			if q.count, ok = c.argInt(left[0]); !ok {
				return false
			}
			if q.count <= 0 {
				c.err("ERR COUNT must be > 0")
				return false
			}
			i++
		case (is(a, "store") || is(a, "storedist")) && len(left) > 0 && !q.noStore:
			q.store, q.storeDist = left[0], is(a, "storedist")
			i++
		case is(a, "storedist") && q.into:
			q.storeDist = true
		case is(a, "frommember") && len(left) > 0 && q.search && !q.fromLonLat:
			if q.z != nil && !c.geoMember(q, left[0]) {
				return false
			}
			q.fromMember = true
			i++
		case is(a, "fromlonlat") && len(left) > 1 && q.search && !q.fromMember:
			if q.shape.lon, q.shape.lat, ok = c.coordinates(left); !ok {
				return false
			}
			q.fromLonLat = true
			i += 2
		case is(a, "byradius") && len(left) > 1 && q.search && !q.byBox:
			if !c.geoRadius(q, left) {
				return false
			}
			q.byRadius = true
			i += 2
		case is(a, "bybox") && len(left) > 2 && q.search && !q.byRadius:
			if !c.geoBox(q, left) {
				return false
			}
			q.byBox = true
			i += 3
		default:
			c.syntax()
			return false
		}
	}
	return true
}

func (c *call) geoMember(q *geoQuery, member []byte) bool {
	at := q.z.get(member)
	if !at.ok() {
		c.err("ERR could not decode requested zset member")
		return false
	}
	q.shape.lon, q.shape.lat = geoDecode(at.score())
	return true
}

func (c *call) geoRadius(q *geoQuery, args [][]byte) bool {
	r, ok := parseFloat(args[0])
	if !ok {
		c.err("ERR need numeric radius")
		return false
	}
	if r < 0 {
		c.err("ERR radius cannot be negative")
		return false
	}
	q.shape.radius, q.shape.box = r, false
	q.shape.unit, ok = c.unit(args[1])
	return ok
}

func (c *call) geoBox(q *geoQuery, args [][]byte) bool {
	w, ok := parseFloat(args[0])
	if !ok {
		c.err("ERR need numeric width")
		return false
	}
	h, ok := parseFloat(args[1])
	if !ok {
		c.err("ERR need numeric height")
		return false
	}
	if w < 0 || h < 0 {
		c.err("ERR height or width cannot be negative")
		return false
	}
	q.shape.width, q.shape.height, q.shape.box = w, h, true
	q.shape.unit, ok = c.unit(args[2])
	return ok
}

// find returns the points in the shape, in the order asked for.
func (q *geoQuery) find(c *call) []geoHit {
	var hits []geoHit
	limit := 0
	if q.any {
		limit = int(q.count)
	}
	last := -1
	q.shape.exact = q.order != 0 || q.storeDist || q.withDist
	q.shape.cosLat = cosine(radians(q.shape.lat))
	cells := q.shape.cells()
	for i, cell := range cells {
		if cell == (geoCell{}) {
			continue
		}
		// With a huge radius neighbours are the same cell.
		if last > 0 && cell == cells[last] {
			continue
		}
		if limit > 0 && len(hits) >= limit {
			break
		}
		from, to := cell.scores()
		in := byScore{&scoreRange{min: float64(from), max: float64(to), maxEx: true}}
		for at := q.z.begin(in); at.ok() && !at.above(in); at = at.next() {
			c.work(2 * stepsPerMember)
			lon, lat := geoDecode(at.score())
			if d, ok := q.shape.distance(lon, lat); ok {
				hits = append(hits, geoHit{at.member(), lon, lat, at.score(), d})
			}
			if limit > 0 && len(hits) >= limit {
				break
			}
		}
		last = i
	}
	if q.order != 0 {
		slices.SortStableFunc(hits, func(a, b geoHit) int {
			c.work(1)
			return q.order * cmp.Compare(a.dist, b.dist)
		})
	}
	if q.count > 0 && int64(len(hits)) > q.count {
		hits = hits[:q.count]
	}
	return hits
}

func (c *call) geoReply(q *geoQuery, hits []geoHit) {
	if q.store != nil {
		out := newZset()
		z, l := out.asZset(), c.limits()
		for _, h := range hits {
			c.work(2 * stepsPerMember)
			score := h.score
			if q.storeDist {
				score = h.dist / q.shape.unit
			}
			z.set(l, view(h.member), score)
		}
		event := "georadiusstore"
		if q.search {
			event = "geosearchstore"
		}
		c.storeResult(q.store, &out, eventZset, event)
		return
	}
	c.array(len(hits))
	n := 1 + int(b2i(q.withDist)+b2i(q.withHash)+b2i(q.withCoord))
	for _, h := range hits {
		if n > 1 {
			c.array(n)
		}
		c.str(h.member)
		if q.withDist {
			c.distance(h.dist / q.shape.unit)
		}
		if q.withHash {
			c.int(int64(h.score))
		}
		if q.withCoord {
			c.array(2)
			c.coordinate(h.lon)
			c.coordinate(h.lat)
		}
	}
}
