package rueidisconn

import (
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
)

// text returns the bytes of a message that is a string, a number or an error, as the server sent them.
// The methods of rueidis cut "ERR" off an error and refuse a double.
func text(m rueidis.RedisMessage) string {
	e := rueidis.RedisError(m)
	return e.Error()
}

func serverError(m rueidis.RedisMessage) redoubt.ServerError { return redoubt.ServerError(text(m)) }

// greeting is the error of a server that refused the connection. rueidis has cut "ERR" off.
func greeting(e *rueidis.RedisError) redoubt.ServerError {
	code, _, _ := strings.Cut(e.Error(), " ")
	if code == "" || code != strings.ToUpper(code) {
		return redoubt.ServerError("ERR " + e.Error())
	}
	return redoubt.ServerError(e.Error())
}

// flatPairs are the commands that reply with pairs, like members and scores. In RESP3 each pair is an array
// of its own, in RESP2 the pairs are flat. The types of the values don't tell which array is a pair, so the
// names are needed: all of Redis 8 and Valkey 8.
var flatPairs = map[string]bool{
	"zrange": true, "zrevrange": true, "zrangebyscore": true, "zrevrangebyscore": true,
	"zdiff": true, "zinter": true, "zunion": true,
	"zpopmin": true, "zpopmax": true, "zrandmember": true, "hrandfield": true,
}

// shaped turns a reply into what the command has in RESP2.
func shaped(words []string, m rueidis.RedisMessage) any {
	if m.IsMap() && (strings.EqualFold(words[0], "xread") || strings.EqualFold(words[0], "xreadgroup")) {
		return streams(words, m)
	}
	v := value(m)
	if a, ok := v.([]any); ok && len(a) > 0 && flatPairs[strings.ToLower(words[0])] {
		if _, pairs := a[0].([]any); pairs {
			return flattened(a)
		}
	}
	return v
}

// value turns a message into the shapes of RESP2 that redoubt.Reply promises.
func value(m rueidis.RedisMessage) any {
	switch {
	case m.IsNil():
		return nil
	case m.IsInt64():
		n, _ := m.AsInt64()
		return n
	case m.IsArray():
		messages, _ := m.ToArray()
		a := make([]any, len(messages))
		for i := range messages {
			a[i] = value(messages[i])
		}
		return a
	case m.IsMap():
		return flatMap(m)
	case m.IsBool():
		if yes, _ := m.AsBool(); yes {
			return int64(1)
		}
		return int64(0)
	case m.Error() != nil:
		return serverError(m)
	case m.IsString():
		return text(m)
	}
	// A double, a big number, or a verbatim string: "txt:" and the text.
	s := text(m)
	if len(s) > 3 && s[3] == ':' {
		return s[4:]
	}
	return s
}

// flatMap lays a map out as field, value, field, value, as RESP2 does. rueidis doesn't tell the server's
// order, so the fields are sorted.
func flatMap(m rueidis.RedisMessage) any {
	fields, err := m.ToMap()
	if err != nil {
		return redoubt.ServerError("ERR " + err.Error()) // a field that is no string: no command of Redis has one
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	flat := make([]any, 0, 2*len(names))
	for _, name := range names {
		flat = append(flat, name, value(fields[name]))
	}
	return flat
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

// streams lays a map of streams out as RESP2 does: an array of the name and the entries for each stream, in
// the order in which the command names them.
func streams(words []string, m rueidis.RedisMessage) any {
	entries, err := m.ToMap()
	if err != nil {
		return value(m)
	}
	all := make([]any, 0, len(entries))
	for _, name := range streamNames(words) {
		if of, ok := entries[name]; ok {
			all = append(all, []any{name, value(of)})
		}
	}
	return all
}

// streamNames returns the names in XREAD and XREADGROUP. As many ids follow them.
func streamNames(words []string) []string {
	for i := 1; i < len(words); i++ {
		switch strings.ToLower(words[i]) {
		case "group":
			i += 2
		case "count", "block":
			i++
		case "streams":
			rest := words[i+1:]
			return rest[:len(rest)/2]
		}
	}
	return nil
}
