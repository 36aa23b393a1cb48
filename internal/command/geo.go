package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

func geoScripts() []*redoubt.Script { return wire.Scripts() }

const errFloat = "ERR value is not a valid float"

var (
	geoName   = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the index: 1 to %d bytes, not beginning with `}`", geo.MaxName)}
	geoMember = Arg{Name: "member", Type: "string", Summary: fmt.Sprintf("1 to %d bytes", geo.MaxMember)}
	geoUnit   = Arg{Name: "unit", Type: "oneof", Args: []Arg{
		{Name: "m", Type: "pure-token", Token: "M"}, {Name: "km", Type: "pure-token", Token: "KM"},
		{Name: "ft", Type: "pure-token", Token: "FT"}, {Name: "mi", Type: "pure-token", Token: "MI"},
	}, Summary: "the unit: metres, kilometres, feet or miles"}
	geoPoint = []Arg{
		{Name: "longitude", Type: "double", Summary: "in degrees east: -180 to 180"},
		{Name: "latitude", Type: "double", Summary: "in degrees north: -90 to 90"},
	}

	docGlobe  = "`ERR redoubt: invalid point: …`"
	docMember = "`ERR redoubt: invalid member: …`"
	docFloat  = "`" + errFloat + "`"
)

// geoUnits are the units by their words.
var geoUnits = map[string]geo.Distance{"m": geo.Metre, "km": geo.Kilometre, "ft": geo.Foot, "mi": geo.Mile}

// geoCommand fills in what the commands of geo indexes share.
func geoCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "geo"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	c.Errors = append(c.Errors, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: something else has written a key of the index",
		docTx, docElse, shuttingDown)
	return &c
}

var geoCommands = []*Command{
	geoCommand(Command{
		Name:       "GEOIDX.ADD",
		Summary:    "Sets the positions of members of a geo index, and adds new members.",
		Complexity: "O(log(N)) for each member, with N members in its cell",
		Arity:      -5,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			geoName,
			{Name: "xx", Type: "pure-token", Token: "XX", Use: Optional, Summary: "move only members that are in the index"},
			{Name: "data", Type: "block", Use: Multiple, Args: []Arg{geoPoint[0], geoPoint[1], geoMember}},
		},
		Reply:    "Integer: how many members are new; with XX, how many are in the index.",
		Errors:   []string{docSyntax, docFloat, docGlobe + ": nothing is written", docMember},
		Examples: []Example{{"GEOIDX.ADD taxis 13.3777 52.5163 taxi:1 13.4050 52.5200 taxi:2", "(integer) 2"}},
		Notes: []string{
			"The index is kept in cells of the geohash with a few thousand members each; a full cell is split. So the index is spread over a cluster, and no key grows past about 1 MB. Redis' own geo commands can't read it. It takes every point of the globe, the poles too.",
			"Repeating the command does no harm. While a member moves from one cell to another, every query finds it once, at the old place or at the new one.",
		},
		Plan: planGeoAdd,
	}),
	geoCommand(Command{
		Name:       "GEOIDX.REM",
		Summary:    "Takes members out of a geo index.",
		Complexity: "O(log(N)) for each member, with N members in its cell",
		Arity:      -3,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{geoName, many(geoMember)},
		Reply:      "Integer: how many were in it.",
		Errors:     []string{docMember},
		Examples:   []Example{{"GEOIDX.REM taxis taxi:2", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planGeo(env, args, args[2:], func(ctx context.Context, x *geo.Index, members []string) (geoReply, error) {
				n, err := x.Remove(ctx, members...)
				return geoInt(n), err
			})
		},
	}),
	geoCommand(Command{
		Name:       "GEOIDX.POS",
		Summary:    "Returns the positions of members of a geo index.",
		Complexity: "O(1) for each member",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{geoName, many(geoMember)},
		Reply:      "Array: longitude and latitude of each member, to half a metre, as strings, in RESP3 as doubles; null for a member that is not in the index.",
		Errors:     []string{docMember},
		Examples:   []Example{{"GEOIDX.POS taxis taxi:1 taxi:9", "1) 1) \"13.377702534198761\"\n   2) \"52.51630091239534\"\n2) (nil)"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planGeo(env, args, args[2:], func(ctx context.Context, x *geo.Index, members []string) (geoReply, error) {
				points, err := x.PosMany(ctx, members)
				return func(dst []byte, p resp.Protocol) []byte {
					dst = resp.AppendArray(dst, len(points))
					for _, at := range points {
						if at == nil {
							dst = resp.AppendNullArray(dst, p)
							continue
						}
						dst = appendPoint(dst, p, *at)
					}
					return dst
				}, err
			})
		},
	}),
	geoCommand(Command{
		Name:       "GEOIDX.DIST",
		Summary:    "Returns the distance between two members of a geo index.",
		Complexity: "O(1)",
		Arity:      -4,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{geoName, named(geoMember, "member1"), named(geoMember, "member2"), optional(geoUnit)},
		Reply:      "Bulk string: the distance along the great circle in the unit, metres by default, with four decimals. Null when one of them is not in the index.",
		Errors:     []string{docSyntax, docMember},
		Before:     []string{"GEOIDX.ADD taxis 13.4050 52.5200 taxi:2"},
		Examples:   []Example{{"GEOIDX.DIST taxis taxi:1 taxi:2 KM", "\"1.8929\""}},
		Plan: func(env *Env, args [][]byte) Plan {
			unit, ok := geo.Metre, true
			if len(args) == 5 {
				unit, ok = geoUnits[strings.ToLower(string(args[4]))]
			}
			if !ok || len(args) > 5 {
				return Plan{Err: syntaxAt(args[len(args)-1])}
			}
			return planGeo(env, args, args[2:4], func(ctx context.Context, x *geo.Index, members []string) (geoReply, error) {
				d, ok, err := x.Dist(ctx, members[0], members[1])
				return func(dst []byte, p resp.Protocol) []byte {
					if !ok {
						return resp.AppendNull(dst, p)
					}
					return appendDistance(dst, d, unit)
				}, err
			})
		},
	}),
	geoCommand(Command{
		Name:       "GEOIDX.NEAR",
		Summary:    "Finds the members of a geo index in a circle or a box, the nearest first.",
		Complexity: "O(C*log(N)+M) with C cells in the area, N members in each, and M members near it",
		Arity:      -6,
		Flags:      []string{"readonly", "noscript"},
		Args: []Arg{
			geoName,
			{Name: "from", Type: "oneof", Args: []Arg{
				{Name: "member", Type: "string", Token: "FROMMEMBER", Summary: "around a member; the reply has that member too"},
				{Name: "fromlonlat", Type: "block", Token: "FROMLONLAT", Summary: "around a point", Args: geoPoint},
			}},
			{Name: "by", Type: "oneof", Args: []Arg{
				{Name: "circle", Type: "block", Token: "BYRADIUS", Summary: "in a circle around it", Args: []Arg{{Name: "radius", Type: "double", Summary: "above 0"}, geoUnit}},
				{Name: "box", Type: "block", Token: "BYBOX", Summary: "in a box around it", Args: []Arg{
					{Name: "width", Type: "double", Summary: "above 0"}, {Name: "height", Type: "double", Summary: "above 0"}, geoUnit,
				}},
			}},
			{Name: "order", Type: "oneof", Use: Optional, Args: []Arg{
				{Name: "asc", Type: "pure-token", Token: "ASC", Summary: "the nearest first, which is the default"},
				{Name: "desc", Type: "pure-token", Token: "DESC", Summary: "the farthest first"},
			}},
			{Name: "count", Type: "integer", Token: "COUNT", Use: Optional, Summary: "return at most this many members, the first in the order: at least 1"},
			{Name: "withcoord", Type: "pure-token", Token: "WITHCOORD", Use: Optional, Summary: "with longitude and latitude"},
			{Name: "withdist", Type: "pure-token", Token: "WITHDIST", Use: Optional, Summary: "with the distance from the centre, in the unit of the area"},
		},
		Reply:    "Array of members. With WITHDIST or WITHCOORD, array of arrays: the member, its distance with four decimals, and an array of its longitude and latitude.",
		Errors:   []string{docSyntax, docFloat, "`" + errInteger + "`", docGlobe, docMember, "`ERR redoubt: invalid query: …`", "`ERR redoubt: no such member: …`"},
		Examples: []Example{{"GEOIDX.NEAR taxis FROMLONLAT 13.3762 52.5186 BYRADIUS 5 KM COUNT 1 WITHDIST", "1) 1) \"taxi:1\"\n   2) \"0.2752\""}},
		Notes: []string{
			"The arguments are as in GEOSEARCH. A member that is in the area all the time is found exactly once, however it moves.",
		},
		Plan: planGeoNear,
	}),
}

func many(a Arg) Arg               { a.Use = Multiple; return a }
func optional(a Arg) Arg           { a.Use = Optional; return a }
func named(a Arg, name string) Arg { a.Name = name; return a }

// A geoReply appends the reply to a command.
type geoReply func(dst []byte, p resp.Protocol) []byte

func geoInt(n int) geoReply {
	return func(dst []byte, _ resp.Protocol) []byte { return resp.AppendInt(dst, int64(n)) }
}

// planGeo checks the names of members, and then runs a command on an index.
func planGeo(env *Env, args, members [][]byte, run func(ctx context.Context, x *geo.Index, members []string) (geoReply, error)) Plan {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = string(m)
		if err := wire.CheckMember(names[i]); err != nil {
			return refusal(err)
		}
	}
	x, err := env.indexes.get(context.Background(), string(args[1])) // Open sends nothing
	if err != nil {
		return refusal(err)
	}
	return steps(args, func(ctx context.Context) Outcome {
		reply, err := run(ctx, x, names)
		return Outcome{Append: func(dst []byte, p resp.Protocol) []byte {
			switch {
			case err == nil:
				return reply(dst, p)
			case errors.Is(err, geo.ErrNotFound):
				return resp.AppendError(dst, faultOf(err))
			}
			return appendStepError(ctx, dst, err)
		}}
	})
}

func planGeoAdd(env *Env, args [][]byte) Plan {
	rest, add := args[2:], true
	if bytes.EqualFold(rest[0], []byte("XX")) {
		rest, add = rest[1:], false
	}
	if len(rest) == 0 || len(rest)%3 != 0 {
		return Plan{Err: errSyntax}
	}
	var members []geo.Member
	var names [][]byte
	for i := 0; i < len(rest); i += 3 {
		at, fault := geoPointOf(rest[i:])
		if fault != "" {
			return Plan{Err: fault}
		}
		members = append(members, geo.Member{Name: string(rest[i+2]), Point: at})
		names = append(names, rest[i+2])
	}
	return planGeo(env, args, names, func(ctx context.Context, x *geo.Index, _ []string) (geoReply, error) {
		put := x.MoveMany
		if add {
			put = x.AddMany
		}
		n, err := put(ctx, members)
		return geoInt(n), err
	})
}

// geoPointOf reads a longitude and a latitude.
func geoPointOf(args [][]byte) (geo.Point, string) {
	lon, ok := number(args[0])
	lat, ok2 := number(args[1])
	if !ok || !ok2 {
		return geo.Point{}, errFloat
	}
	p := geo.Point{Longitude: lon, Latitude: lat}
	if err := p.Validate(); err != nil {
		return p, faultOf(err)
	}
	return p, ""
}

// A geoNear is what GEOIDX.NEAR asks for.
type geoNear struct {
	query            geo.Query
	unit             geo.Distance
	coordinate, dist bool
}

func planGeoNear(env *Env, args [][]byte) Plan {
	n, fault := geoNearOf(args[2:])
	if fault != "" {
		return Plan{Err: fault}
	}
	if err := n.query.Validate(); err != nil {
		return refusal(err)
	}
	return planGeo(env, args, nil, func(ctx context.Context, x *geo.Index, _ []string) (geoReply, error) {
		found, err := x.Near(ctx, n.query)
		return func(dst []byte, p resp.Protocol) []byte {
			dst = resp.AppendArray(dst, len(found))
			for _, f := range found {
				dst = n.appendFound(dst, p, f)
			}
			return dst
		}, err
	})
}

func geoNearOf(args [][]byte) (n geoNear, fault string) {
	seen := map[string]bool{}
	// once notes a word, and whether as many arguments follow it.
	once := func(what string, follow, left int) bool {
		ok := !seen[what] && left > follow
		seen[what] = true
		return ok
	}
	for len(args) > 0 {
		word, used, ok := strings.ToUpper(string(args[0])), 0, true
		switch word {
		case "FROMMEMBER":
			if used, ok = 1, once("from", 1, len(args)); ok {
				n.query.Member = string(args[1])
				if err := wire.CheckMember(n.query.Member); err != nil {
					return n, faultOf(err)
				}
			}
		case "FROMLONLAT":
			if used, ok = 2, once("from", 2, len(args)); ok {
				n.query.From, fault = geoPointOf(args[1:])
			}
		case "BYRADIUS":
			if used, ok = 2, once("by", 2, len(args)); ok {
				var r [1]float64
				n.unit, fault = geoLengths(args[1:3], r[:])
				n.query.Radius = geo.Distance(r[0]) * n.unit
			}
		case "BYBOX":
			if used, ok = 3, once("by", 3, len(args)); ok {
				var r [2]float64
				n.unit, fault = geoLengths(args[1:4], r[:])
				n.query.Width, n.query.Height = geo.Distance(r[0])*n.unit, geo.Distance(r[1])*n.unit
			}
		case "ASC", "DESC":
			ok = once("order", 0, len(args))
			if word == "DESC" {
				n.query.Order = geo.Farthest
			}
		case "COUNT":
			if used, ok = 1, once(word, 1, len(args)); ok {
				count, isInt := integer(args[1])
				if !isInt || count < 1 || count > 1<<31-1 {
					return n, errInteger
				}
				n.query.Limit = int(count)
			}
		case "WITHCOORD":
			n.coordinate = true
		case "WITHDIST":
			n.dist = true
		default:
			ok = false
		}
		switch {
		case fault != "":
			return n, fault
		case !ok:
			return n, syntaxAt(args[0])
		}
		args = args[1+used:]
	}
	if !seen["from"] || !seen["by"] {
		return n, errSyntax
	}
	return n, ""
}

// geoLengths reads lengths, and the unit behind them.
func geoLengths(args [][]byte, lengths []float64) (unit geo.Distance, fault string) {
	var ok bool
	for i := range lengths {
		if lengths[i], ok = number(args[i]); !ok {
			return 0, errFloat
		}
	}
	if unit, ok = geoUnits[strings.ToLower(string(args[len(lengths)]))]; !ok {
		return 0, syntaxAt(args[len(lengths)])
	}
	return unit, ""
}

func (n *geoNear) appendFound(dst []byte, p resp.Protocol, f geo.Found) []byte {
	if !n.dist && !n.coordinate {
		return resp.AppendBulk(dst, f.Member)
	}
	size := 2
	if n.dist && n.coordinate {
		size = 3
	}
	dst = resp.AppendBulk(resp.AppendArray(dst, size), f.Member)
	if n.dist {
		dst = appendDistance(dst, f.Distance, n.unit)
	}
	if n.coordinate {
		dst = appendPoint(dst, p, f.Point)
	}
	return dst
}

func appendDistance(dst []byte, d, unit geo.Distance) []byte {
	return resp.AppendBulk(dst, fmt.Sprintf("%.4f", float64(d/unit)))
}

func appendPoint(dst []byte, p resp.Protocol, at geo.Point) []byte {
	dst = resp.AppendDouble(resp.AppendArray(dst, 2), p, at.Longitude)
	return resp.AppendDouble(dst, p, at.Latitude)
}

// geoIndexes are the indexes that were asked for lately: they know their cells.
type geoIndexes struct {
	all *geo.Indexes

	mu     sync.Mutex
	byName map[string]*geo.Index
}

// mostIndexes is how many are kept.
const mostIndexes = 1024

func (xs *geoIndexes) get(ctx context.Context, name string) (*geo.Index, error) {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if x := xs.byName[name]; x != nil {
		return x, nil
	}
	x, err := xs.all.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if xs.byName == nil || len(xs.byName) == mostIndexes {
		xs.byName = make(map[string]*geo.Index)
	}
	xs.byName[name] = x
	return x, nil
}
