package goredis

import (
	"strconv"
	"strings"
)

// flatPairs are the commands that reply with pairs, like members and scores. In RESP3 each pair is an
// array of its own, in RESP2 the pairs are flat. The types of the values don't tell which array is a
// pair, so the names are needed: all of Redis 8 and Valkey 8.
var flatPairs = map[string]bool{
	"zrange": true, "zrevrange": true, "zrangebyscore": true, "zrevrangebyscore": true,
	"zdiff": true, "zinter": true, "zunion": true,
	"zpopmin": true, "zpopmax": true, "zrandmember": true, "hrandfield": true,
}

// shaped turns a reply that go-redis read into what the command has in RESP2.
func shaped(args []any, reply any) any {
	switch v := reply.(type) {
	case []any:
		if len(v) == 0 {
			return v
		}
		switch v[0].(type) {
		case []any:
			if flatPairs[strings.ToLower(nameOf(args))] {
				return value(flattened(v))
			}
			humanCoordinates(args, v)
		case nil:
			humanCoordinates(args, v)
		}
	case map[any]any:
		if name := nameOf(args); strings.EqualFold(name, "xread") || strings.EqualFold(name, "xreadgroup") {
			return streams(args, v)
		}
	}
	return value(reply)
}

// nameOf returns the first word of the name of a command.
func nameOf(args []any) string {
	name, _ := args[0].(string)
	return name
}

// flattened returns the elements of pairs.
func flattened(pairs []any) []any {
	flat := make([]any, 0, 2*len(pairs))
	for _, p := range pairs {
		if pair, ok := p.([]any); ok {
			flat = append(flat, pair...)
		} else {
			flat = append(flat, p)
		}
	}
	return flat
}

// streams lays a map of streams out as RESP2 does: an array of the name and the entries for each
// stream, in the order in which the command names them.
func streams(args []any, m map[any]any) any {
	all := make([]any, 0, len(m))
	for _, name := range streamNames(args) {
		if entries, ok := m[name]; ok {
			all = append(all, []any{name, value(entries)})
		}
	}
	return all
}

// streamNames returns the names in XREAD and XREADGROUP. As many ids follow them.
func streamNames(args []any) []any {
	for i := 1; i < len(args); i++ {
		option, _ := args[i].(string)
		switch strings.ToLower(option) {
		case "group":
			i += 2
		case "count", "block":
			i++
		case "streams":
			rest := args[i+1:]
			return rest[:len(rest)/2]
		}
	}
	return nil
}

// humanCoordinates writes the coordinates in a reply to GEOPOS or GEOSEARCH as RESP2 does: with 17
// digits behind the point, without the zeros at their end.
func humanCoordinates(args []any, replies []any) {
	if name := nameOf(args); len(name) < 3 || !strings.EqualFold(name[:3], "geo") {
		return
	}
	for i, r := range replies {
		switch r := r.(type) {
		case float64:
			replies[i] = human(r)
		case []any:
			humanCoordinates(args, r)
		}
	}
}

func human(f float64) string {
	s := strconv.FormatFloat(f, 'f', 17, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
